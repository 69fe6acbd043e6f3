"""Networks, losses and optimisers in JAX, each rule next to its equation."""
