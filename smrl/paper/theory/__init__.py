"""The paper's theorems, checked numerically."""
