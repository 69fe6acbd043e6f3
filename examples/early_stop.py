"""Watch a run while it trains: log a number of your own, and stop early. Takes about a minute.

Run: python examples/early_stop.py

Callbacks get the status of the run and stop it by returning True. It is saved then, and the same call continues it.
"""

from typing import Any

import smrl

HANGING = [-1.0, 0.0, 0.0]  # an observation of Pendulum-v1: cosine and sine of the angle, and its speed


class Patience:
    """Stop a run whose evaluations have not improved for some time."""

    def __init__(self, evaluations: int) -> None:
        self.evaluations, self.since_best, self.best = evaluations, 0, -float("inf")

    def __call__(self, status: smrl.Status) -> bool:
        """Log the torque of the policy where the pendulum hangs; return whether patience has run out."""
        status.log("torque_when_hanging", abs(float(status.policy(HANGING)[0])))
        mean = status.evaluation["mean"]
        self.since_best = 0 if mean > self.best else self.since_best + 1
        self.best = max(mean, self.best)
        return self.since_best >= self.evaluations


def report_episodes(status: smrl.Status) -> None:
    """Print every training episode that has ended."""
    for episode in status.ended:
        print(f"step {status.step}: an episode of {episode.length} steps with a return of {episode.total:.0f}")


def main(steps: int = 5_000, patience: int = 3) -> smrl.Run:
    """Train until the evaluations stop improving."""
    settings: Any = {"steps": steps, "warmup": 500, "eval_every": 250}
    settings |= {"actor_hidden": (64, 64), "critic_hidden": (64, 64)}  # enough for this task, and faster
    callbacks: Any = {"on_step": report_episodes, "on_evaluation": Patience(patience)}
    run = smrl.train("sac", "Pendulum-v1", **settings, **callbacks)
    done = run.evaluations
    print(f"stopped after {done['step'][-1]:,} of {steps:,} steps; best evaluation {max(done['mean']):.0f}")
    return run


if __name__ == "__main__":
    main()
