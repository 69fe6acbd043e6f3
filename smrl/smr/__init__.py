"""Sample multiple reuse: the loop, and the rules that choose the number of reuses."""
