"""Sets of runs: presets, sweeps, and how to train many runs."""
