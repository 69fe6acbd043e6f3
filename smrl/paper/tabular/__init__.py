"""Tabular reinforcement learning: Q-learning and Q-SMR on grid worlds."""

from smrl.paper.tabular import registration as registration  # registers the Gymnasium ids
