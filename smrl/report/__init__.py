"""Reading run directories: records → statistics → figures and tables. Needs no JAX."""
