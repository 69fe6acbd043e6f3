"""The estimation bias of runs that measured it: a table and a figure."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray

from smrl.report.figures import COLOURS
from smrl.report.grids import Grid
from smrl.report.statistics import mean_sd
from smrl.report.summary import Row
from smrl.report.text import spread
from smrl.runs.config import read_text
from smrl.runs.paths import EVALUATIONS
from smrl.runs.records import Record


class Bias(NamedTuple):
    """Mean and standard deviation of the normalised bias of a run, at the steps at which it was measured."""

    steps: NDArray[np.float64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]


def read_bias(record: Record) -> Bias:
    """The columns of a run's evaluations; empty where it measured nothing."""
    rows = csv.DictReader(read_text(record.path / EVALUATIONS).splitlines())
    found = [[float(row[name]) for name in ("step", "bias", "bias_sd")] for row in rows if row.get("bias")]
    return Bias(*np.array(found).reshape(-1, 3).T)


def bias_grid(rows: Sequence[Row]) -> Grid:
    """The estimation bias at the end: its mean and its standard deviation, both normalised."""
    cells = []
    for row in rows:
        found = [read_bias(record) for record in row.curve.records]
        last = np.array([(one.mean[-1], one.sd[-1]) for one in found if len(one.steps)])
        if len(last):
            cells.append((row.curve.env, row.name, f"{row.step:,}", spread(last[:, 0]), spread(last[:, 1])))
    columns = ("task", "settings", "step", "mean of the bias", "sd of the bias")
    return Grid(
        "Normalised estimation bias", columns, tuple(cells), "The paper prints no numbers.", ("task", "settings")
    )


def bias_figure(rows: Sequence[Row], path: Path) -> Path:
    """Fig. 8: the mean and the standard deviation of the normalised bias over steps, bands over seeds."""
    figure = Figure(figsize=(7.8, 3.4), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
    for panel, title in enumerate(("mean of the normalised bias", "standard deviation of the normalised bias")):
        axes = figure.add_subplot(1, 2, panel + 1, title=title, xlabel="environment steps")
        for row, colour in zip(rows, COLOURS, strict=False):
            found = [read_bias(record) for record in row.curve.records]
            length = min(len(one.steps) for one in found)
            if length:
                steps = found[0].steps[:length]
                mean, sd = mean_sd([one[1 + panel][:length] for one in found])
                axes.plot(steps, mean, color=colour, label=row.name)
                axes.fill_between(steps, mean - np.nan_to_num(sd), mean + np.nan_to_num(sd), color=colour, alpha=0.2)
        axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    return path
