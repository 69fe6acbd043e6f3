"""The report as one HTML page that needs no network.

No text of a run becomes HTML: all of it is JSON in a data block, with the characters escaped that could end the block,
and the script puts it into text nodes. The page's policy allows its one script and one style sheet by their digests.
"""

import base64
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smrl.report.report import CURVES, Published, PublishedCurve, Report, sections
from smrl.report.results import Aggregate, Floats, Hours, ResultRow, colour_numbers, mean_hours
from smrl.runs.records import Table

SCRIPTS = ("chart.js", "panel.js", "page.js")
ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}  # json escapes everything beyond ASCII

# Curves are thinned and rounded so that the page of a hundred runs stays below a megabyte.
MAX_POINTS, MIN_POINTS = 160, 20  # of one curve
ALL_POINTS = 16_000  # of all means and runs together
DIGITS = 5


def page(report: Report) -> str:
    """Return the page as text."""
    style, script = asset("style.css"), "".join(map(asset, SCRIPTS))
    policy = (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; base-uri 'none'; "
        "form-action 'none'"
    )
    text = json.dumps(_content(report), allow_nan=False, separators=(",", ":")).translate(ESCAPES)
    parts = {"policy": policy, "style": style, "script": script, "data": text}  # data last: it may hold anything
    html = asset("page.html")
    for name, part in parts.items():
        html = html.replace(f"{{{{{name}}}}}", part)
    return html


def rounded(values: ArrayLike) -> list[float | int | None]:
    """Round to five significant digits for JSON: integral numbers become int, NaN becomes None.

    >>> rounded([1234567.0, 0.123456789, float("nan")])
    [1234600, 0.12346, None]
    """
    short = (float(f"{value:.{DIGITS}g}") for value in np.asarray(values, np.float64).tolist())
    return [None if not np.isfinite(value) else int(value) if value.is_integer() else value for value in short]


def thin(count: int, limit: int) -> NDArray[np.int64]:
    """Return at most ``limit`` evenly spaced indices of ``count`` points, including the first and the last.

    >>> thin(5, 3).tolist(), thin(2, 3).tolist()
    ([0, 2, 4], [0, 1])
    """
    return np.unique(np.linspace(0, count - 1, min(count, limit)).round().astype(np.int64))


def _content(report: Report) -> dict[str, Any]:
    rows = report.rows
    envs = {row.curve.env for row in rows}
    colours = colour_numbers([row.curve for row in rows], [row.setting for row in rows])
    lead = f"{_count(len(report.runs), 'run')}: {_count(len(colours), 'setting')} on {_count(len(envs), 'task')}"
    panels = _panels(rows, colours, report.hours, report.published) + _training_panels(rows, colours, report.training)
    has_published = any(one["kind"] != "ours" for panel in panels for one in panel["series"])
    return {
        "lead": lead,
        "foot": f"Made by smrl {version('smrl')}.",
        "problems": report.problems,
        "panels": panels,
        "profile": _profile_panel(colours, report.aggregates) if report.aggregates else None,
        "sources": [asdict(report.published.sources())] if report.published and has_published else [],
        **{name: [asdict(table) for table in tables] for name, tables in sections(report).items()},
    }


def _panels(
    rows: Sequence[ResultRow], colours: Mapping[str, int], hours: Hours, published: Published | None
) -> list[dict[str, Any]]:
    """Return one chart of learning curves per environment."""
    points = max(MIN_POINTS, min(MAX_POINTS, ALL_POINTS // sum(1 + len(row.curve.records) for row in rows)))
    panels = []
    for env in dict.fromkeys(row.curve.env for row in rows):
        here = [row for row in rows if row.curve.env == env]
        series = [_our_series(row, colours[row.setting], hours, points) for row in here if row.step]
        if published:
            series += _published_series(here, colours, published)
        target = here[0].target
        panels.append({"title": env, "target": None if np.isnan(target) else target, "series": series})
    return panels


def _training_panels(
    rows: Sequence[ResultRow], colours: Mapping[str, int], training: Mapping[Path, Table]
) -> list[dict[str, Any]]:
    """Return a chart of each column of training.csv that has curves, per environment: means over seeds."""
    panels = []
    for env, name in itertools.product(dict.fromkeys(row.curve.env for row in rows), CURVES):
        series = []
        for row in (row for row in rows if row.curve.env == env):
            tables = [table for record in row.curve.records if name in (table := training[record.path])]
            if not tables:
                continue
            known = [dict(zip(table["step"].tolist(), table[name].tolist(), strict=True)) for table in tables]
            steps = np.array(sorted(set(known[0]).intersection(*known)), np.int64)  # rows by time differ
            means = np.array([[values[step] for values in known] for step in steps.tolist()]).reshape(-1, len(known))
            is_known = np.isfinite(means).all(axis=1)
            steps, values = steps[is_known], means[is_known].mean(axis=1)
            kept = thin(len(steps), MIN_POINTS * 4) if len(steps) else np.zeros(0, np.int64)
            points = {"steps": steps[kept].tolist(), "hours": None, "mean": rounded(values[kept])}
            series.append(_series(row.name, row.setting, colours[row.setting], "ours") | points)
        if any(one["steps"] for one in series):
            panels.append({"title": f"{env}: {name.replace('_', ' ')}", "target": None, "series": series})
    return panels


def _profile_panel(colours: Mapping[str, int], aggregates: Sequence[Aggregate]) -> dict[str, Any]:
    """Return the chart of performance profiles, in the colours of the learning curves."""
    series = [
        _series(one.setting, one.setting, colours[one.setting], "ours")
        | {"steps": rounded(one.thresholds), "mean": rounded(one.profile.value)}
        | {"low": rounded(one.profile.low), "high": rounded(one.profile.high)}
        for one in aggregates
    ]
    words = "score τ; vertical: fraction of runs with a score above τ"
    return {"title": "Performance profiles", "target": None, "series": series, "fixed": True, "words": words}


def _series(name: str, setting: str, colour: int, kind: str) -> dict[str, Any]:
    """Return a curve without its points; the choice to hide it holds for the setting on all panels."""
    return {"name": name, "setting": setting, "colour": colour, "kind": kind, "shown": True, "lines": []}


def _our_series(row: ResultRow, colour: int, hours: Hours, points: int) -> dict[str, Any]:
    def line(steps: NDArray[np.int64], hours: Floats, returns: Floats) -> dict[str, Any]:
        kept = thin(len(steps), points)
        known_hours = None if np.isnan(hours[kept]).all() else rounded(hours[kept])
        return {"steps": steps[kept].tolist(), "hours": known_hours, "mean": rounded(returns[kept])}

    curve = row.curve
    series = _series(row.name, row.setting, colour, "ours") | line(curve.steps, mean_hours(curve, hours), curve.mean)
    if len(curve.records) == 1:
        return series
    lines = [line(record.steps, hours[record.path], record.returns) for record in curve.records]
    return series | {"sd": rounded(curve.sd[thin(len(curve.steps), points)]), "lines": lines}


def _published_series(
    rows: Sequence[ResultRow], colours: Mapping[str, int], published: Published
) -> list[dict[str, Any]]:
    """Return the task's published curves up to our last step; only those of our algorithms are shown at first."""
    same = {curve: row for row in rows if (curve := published.curve(row.curve.settings)) is not None}
    others = [curve for curve in published.curves(rows[0].curve.env) if curve not in same]
    last = max((row.step for row in rows), default=0)

    def series(curve: PublishedCurve, colour: int, kind: str, row: ResultRow) -> dict[str, Any]:
        until = int(np.searchsorted(curve.steps, last)) + 1  # one point beyond, so that the line reaches the edge
        kept = slice(0, until if last else 0)
        remark = published.remark(row.curve.settings, curve.algorithm)
        return (
            _series(f"{curve.algorithm}, published", "", colour, kind)
            | {"steps": curve.steps[kept].tolist(), "hours": None}
            | {"mean": rounded(curve.mean[kept]), "sd": rounded(curve.sd[kept])}
            | {"note": "; ".join(filter(None, [f"{curve.seeds.max()} seeds", curve.source, remark]))}
        )

    found = [series(curve, colours[row.setting], "same", row) for curve, row in same.items()]
    found += [series(curve, index, "other", rows[0]) | {"shown": False} for index, curve in enumerate(others)]
    return [one for one in found if one["steps"]]


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def asset(name: str) -> str:
    """Return a file of the page."""
    return files("smrl.report").joinpath("page", name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    """Return the digest by which a page's policy allows a script or a style sheet."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
