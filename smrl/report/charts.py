"""The charts of the page as data: curves thinned and rounded, so that a hundred runs stay below a megabyte."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smrl.paper import published
from smrl.paper.bands import find, remark
from smrl.paper.published import PublishedCurve
from smrl.report.aggregate import Aggregate
from smrl.report.summary import Hours, Row, mean_hours

MOST, FEWEST, TOGETHER = 160, 20, 16_000  # points of one curve, and of all means and runs together
DIGITS = 5


def panels(rows: Sequence[Row], hours: Hours) -> list[dict[str, Any]]:
    """One chart per environment."""
    order = list(dict.fromkeys(row.name for row in rows))
    points = max(FEWEST, min(MOST, TOGETHER // sum(1 + len(row.curve.records) for row in rows)))
    found = []
    for env in dict.fromkeys(row.curve.env for row in rows):
        here = [row for row in rows if row.curve.env == env]
        ours = [_ours(row, order.index(row.name), hours, points) for row in here if row.step]
        target = here[0].target
        found.append(
            {"title": env, "target": None if np.isnan(target) else target, "series": [*ours, *_theirs(here, order)]}
        )
    return found


def legend(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The names of all curves with their colours."""
    return [_series(name, index, "ours") for index, name in enumerate(dict.fromkeys(row.name for row in rows))]


def profile_panel(rows: Sequence[Row], found: Sequence[Aggregate]) -> dict[str, Any]:
    """The performance profiles as a chart, in the colours of the learning curves."""
    order = list(dict.fromkeys(row.name for row in rows))
    series = [
        _series(one.name, order.index(one.name), "ours")
        | {"steps": rounded(one.thresholds), "mean": rounded(one.profile.value)}
        | {"low": rounded(one.profile.low), "high": rounded(one.profile.high)}
        for one in found
    ]
    words = "score τ; vertical: share of runs with a score above τ"
    return {"title": "Performance profiles", "target": None, "series": series, "fixed": True, "words": words}


def rounded(values: ArrayLike) -> list[float | int | None]:
    """Round to five significant digits for JSON: whole numbers become integers, and NaN becomes None.

    >>> rounded([1234567.0, 0.123456789, float("nan")])
    [1234600, 0.12346, None]
    """
    short = (float(f"{value:.{DIGITS}g}") for value in np.asarray(values, np.float64).tolist())
    return [None if not np.isfinite(value) else int(value) if value.is_integer() else value for value in short]


def thin(count: int, most: int) -> NDArray[np.int64]:
    """Indices of at most so many of ``count`` points, evenly, with the first and the last.

    >>> thin(5, 3).tolist(), thin(2, 3).tolist()
    ([0, 2, 4], [0, 1])
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _series(name: str, colour: int, kind: str) -> dict[str, Any]:
    return {"name": name, "colour": colour, "kind": kind, "shown": True, "lines": []}


def _ours(row: Row, colour: int, hours: Hours, points: int) -> dict[str, Any]:
    curve = row.curve
    kept = thin(len(curve.steps), points)
    series = _series(row.name, colour, "ours") | {
        "steps": curve.steps[kept].tolist(),
        "hours": _known(mean_hours(curve, hours)[kept]),
        "mean": rounded(curve.mean[kept]),
    }
    if len(curve.records) == 1:
        return series
    lines = []
    for record in curve.records:
        mine = thin(len(record.steps), points)
        own = hours.get(record.path, np.full(record.steps.shape, np.nan))[mine]
        lines.append(
            {"steps": record.steps[mine].tolist(), "hours": _known(own), "mean": rounded(record.returns[mine])}
        )
    return series | {"sd": rounded(curve.sd[kept]), "lines": lines}


def _theirs(rows: Sequence[Row], order: Sequence[str]) -> list[dict[str, Any]]:
    """Published curves of the task up to our last step; those of the same algorithm are shown at first."""
    same = {found: row for row in rows if (found := find(row.curve.settings).curve) is not None}
    others = [one for one in published.curves_of(rows[0].curve.env) if one not in same]
    last = max((row.step for row in rows), default=0)
    series = [_their(one, order.index(row.name), "same", row, last) for one, row in same.items()]
    series += [_their(one, index, "other", rows[0], last) | {"shown": False} for index, one in enumerate(others)]
    return [one for one in series if one["steps"]]


def _their(curve: PublishedCurve, colour: int, kind: str, row: Row, last: int) -> dict[str, Any]:
    until = int(np.searchsorted(curve.steps, last)) + 1  # with one point beyond, so that the line reaches the edge
    kept = slice(0, until if last else 0)
    notes = [f"{curve.seeds.max()} seeds", curve.source, remark(row.curve.settings, curve.algorithm)]
    return (
        _series(f"{curve.algorithm}, published", colour, kind)
        | {"steps": curve.steps[kept].tolist(), "hours": None}
        | {"mean": rounded(curve.mean[kept]), "sd": rounded(curve.sd[kept])}
        | {"note": "; ".join(filter(None, notes))}
    )


def _known(hours: NDArray[np.float64]) -> list[float | int | None] | None:
    return None if np.isnan(hours).all() else rounded(hours)
