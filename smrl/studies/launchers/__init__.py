"""Where runs are trained: processes of this machine, Ray, Slurm."""
