"""Sample multiple reuse for other libraries."""
