"""smrl: sample-efficient off-policy reinforcement learning by sample multiple reuse."""
