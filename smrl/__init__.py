"""smrl: sample-efficient off-policy reinforcement learning by sample multiple reuse."""

from smrl.reuse import reuse
from smrl.run import Policy, Run, load
from smrl.train import train

__all__ = ["Policy", "Run", "load", "reuse", "train"]
