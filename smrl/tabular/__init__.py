"""Tabular reinforcement learning: Q-learning and Q-SMR, grid worlds, and the paper's theorems as things that run."""

from smrl.tabular import registration as registration  # importing the package makes its ids known to Gymnasium
