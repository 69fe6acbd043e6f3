"""Where runs are trained: on this machine, with Ray or with Slurm."""
