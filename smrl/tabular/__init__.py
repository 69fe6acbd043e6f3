"""Tabular reinforcement learning: Q-learning and Q-SMR, grid worlds, and the paper's theorems as things that run."""
