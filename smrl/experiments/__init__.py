"""What to run: presets, and many runs at once."""
