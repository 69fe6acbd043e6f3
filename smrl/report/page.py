"""The report as one HTML page that needs no network.

No text of a run becomes HTML: all of it is JSON in a data block, with the signs escaped that could end the block, and
the script puts it into text nodes. The page's policy allows the one script and the one style sheet by their digests.
"""

import base64
import hashlib
import json
from dataclasses import asdict, astuple
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from smrl.paper.published import sources
from smrl.report.charts import legend, panels, profile_panel
from smrl.report.grids import Grid
from smrl.report.report import Report, sections

SCRIPTS = ("chart.js", "panel.js", "page.js")
SOURCE = ("source", "repository", "commit", "licence")
ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}  # all beyond ASCII is escaped by json


def page(report: Report) -> str:
    """The page as text."""
    style, script = _asset("style.css"), "".join(map(_asset, SCRIPTS))
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; base-uri 'none'; "
        "form-action 'none'"
    )
    text = json.dumps(_content(report), allow_nan=False, separators=(",", ":")).translate(ESCAPES)
    parts = {"policy": policy, "style": style, "script": script, "data": text}  # the data last: it may hold anything
    html = _asset("page.html")
    for name, part in parts.items():
        html = html.replace(f"{{{{{name}}}}}", part)
    return html


def _content(report: Report) -> dict[str, Any]:
    rows, aggregated = report.rows, report.aggregates
    envs = {row.curve.env for row in rows}
    settings = len({row.name for row in rows})
    lead = f"{_count(len(report.runs), 'run')}: {_count(settings, 'setting')} on {_count(len(envs), 'task')}"
    known = Grid("sources", SOURCE, tuple(astuple(source) for source in sources()), left=SOURCE)
    charts = panels(rows, report.hours)
    return {
        "lead": lead,
        "foot": f"Made by smrl {version('smrl')}.",
        "problems": report.problems,
        "panels": charts,
        "legend": legend(rows),
        "profile": profile_panel(rows, aggregated) if aggregated else None,
        "sources": [asdict(known)] if any(one["kind"] != "ours" for chart in charts for one in chart["series"]) else [],
        **{name: [asdict(grid) for grid in grids] for name, grids in sections(report).items()},
    }


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _asset(name: str) -> str:
    return files("smrl.report").joinpath("page", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
