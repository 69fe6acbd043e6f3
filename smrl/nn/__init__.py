"""Networks, losses, targets and gradient steps, each rule next to its equation."""
