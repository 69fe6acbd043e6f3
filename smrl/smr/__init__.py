"""Sample multiple reuse: the loop, and the rules that say how often."""
