"""Training: collect, learn, evaluate, record."""
