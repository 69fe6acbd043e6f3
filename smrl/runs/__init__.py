"""What a run is on disk. Imports no JAX."""
