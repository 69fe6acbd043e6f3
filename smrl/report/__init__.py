"""Reports on runs: records → statistics → figures, tables and a page. Needs no JAX."""
