"""Data from before a run: Minari datasets, .npz files and the replay memories of other runs."""
