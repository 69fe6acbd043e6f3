"""Environment suites, one module each."""
