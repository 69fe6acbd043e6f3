"""Environments: Gymnasium tasks as the training loop sees them, and the suites."""
