"""Reports on runs: records → statistics → figures and tables. Needs no JAX."""
