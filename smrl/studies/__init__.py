"""Which runs to make: presets, sweeps, processes."""
