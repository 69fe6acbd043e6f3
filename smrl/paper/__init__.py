"""The paper's own results: tabular Q-SMR, the theory, reproductions, and published numbers."""
