"""The paper's theorems as statements that are measured."""
