"""Speed, measured as ratios within one run: these are not tests."""
