"""Read the results of runs with pandas: a table of all evaluations, and steps to a return. Takes seconds.

Run: python examples/results.py runs. It needs `pip install pandas`, and some runs, such as those of

    smrl compare sac Pendulum-v1 --reuse 1 10 --seeds 2 --steps 2500 --warmup 500 --eval-every 250

`run.evaluations` and `run.training` are the tables of a run, by column, and `run.settings` all its settings.
"""

import sys
from pathlib import Path

import pandas as pd

import smrl

SETTINGS = ["algorithm", "env", "reuse", "seed"]


def evaluations(folder: Path) -> pd.DataFrame:
    """Return one row per evaluation of all runs in a folder, with the settings of its run."""
    tables = []
    for config in sorted(folder.glob("**/seed*/config.json")):
        run = smrl.load(config.parent)
        tables.append(pd.DataFrame(run.evaluations).assign(**{name: getattr(run.settings, name) for name in SETTINGS}))
    return pd.concat(tables, ignore_index=True)


def steps_to(table: pd.DataFrame, goal: float) -> pd.DataFrame:
    """Return the first step at which each run reached a mean return, one column per seed; NaN if it never did."""
    reached = table[table["mean"] >= goal]
    return reached.groupby(SETTINGS)["step"].min().unstack("seed")


def main(folder: str = "runs", goal: float = -200) -> pd.DataFrame:
    """Print the mean and standard deviation over seeds at every step, and the steps to a return."""
    table = evaluations(Path(folder))
    curves = table.groupby(["env", "algorithm", "reuse", "step"])["mean"].agg(["mean", "std", "count"])
    print(curves.round(1).to_string())
    print(f"\nsteps to a return of {goal:g}, by seed:\n{steps_to(table, goal).to_string()}")
    return curves


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs")
