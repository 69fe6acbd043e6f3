"""The tables of a report, its CSV file, and the terminal's table that compares runs."""

import csv
import io
from collections.abc import Mapping, Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from smrl.report.results import Aggregate, Curve, ResultRow, curves, summarise
from smrl.report.text import UNKNOWN, TextTable, csv_text, interval, number, plain_table, spread, steps_text
from smrl.runs.identity import (
    ALWAYS_SHOWN,
    EVALUATION,
    algorithm_words,
    flat,
    reuse_words,
    short_name,
    varying,
    words,
)
from smrl.runs.records import Record

_COLUMNS = (
    *("environment", "settings", "seeds", "step", "budget", "mean", "sd", "iqm", "iqm_low", "iqm_high", "best"),
    *("area", "hours", "target", "steps_to", "hours_to", "speed_up", "speed_up_hours", "seeds_reached"),
    "seed_steps_to",
)


def as_csv(rows: Sequence[ResultRow]) -> str:
    """Write one line per row with all digits; a number that is unknown or was never reached is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        numbers = (
            *(row.mean, row.sd, *map(float, row.iqm), row.best, row.area, row.hours, row.target),
            *(row.steps_to, row.hours_to, row.speed_up, row.speed_up_hours),
            *(np.nan if np.isnan(row.target) else row.reached.reached, row.reached.steps),
        )
        first = (csv_text(row.curve.env), csv_text(row.setting), len(row.returns), row.step or "", row.budget)
        writer.writerow((*first, *("" if np.isnan(value) else value for value in numbers)))
    return text.getvalue()


def comparison_tables(records: Sequence[Record], threshold: float | None = None) -> list[Table]:
    """Compare runs in the terminal: a table per environment, with a row per identity (`smrl.runs.identity`).

    Each setting that varies has a column. Returns are those of the last step that all runs of a row evaluated.
    ± is the sample standard deviation (n − 1) over runs; a single run has none.
    """
    rows = summarise(curves(records), lambda env: np.nan if threshold is None else threshold)
    names = [name for name in varying([record.settings for record in records]) if name not in ALWAYS_SHOWN]
    envs = dict.fromkeys(row.curve.env for row in rows)
    return [_comparison(env, [row for row in rows if row.curve.env == env], names, threshold) for env in envs]


def _comparison(env: str, rows: Sequence[ResultRow], names: Sequence[str], threshold: float | None) -> Table:
    table = plain_table(env)
    table.add_column("algorithm")
    table.add_column("reuse", justify="right")
    for name in names:
        table.add_column(short_name(name).replace(" ", "\n"), justify="right")
    table.add_column("runs", justify="right", no_wrap=True)
    table.add_column("steps", justify="right")
    table.add_column("return\nat the end", justify="right", no_wrap=True)
    table.add_column("best\nreturn", justify="right", no_wrap=True)
    if threshold is not None:
        table.add_column(f"steps\nto {threshold:,g}".replace("-", "−"), justify="right", no_wrap=True)
    for row in rows:
        settings = row.curve.settings
        cells = [
            algorithm_words(settings["algorithm"]) + row.curve.note,
            reuse_words(settings["reuse"]),
            *(words(settings[name]) if name in settings else UNKNOWN for name in names),
            *(f"{len(row.returns)}", row.progress, spread(row.returns), number(row.best)),
            *([] if threshold is None else [str(row.reached)]),
        ]
        table.add_row(*map(Text, cells))
    return table


def result_tables(rows: Sequence[ResultRow]) -> list[TextTable]:
    """Make one table of results per environment."""
    columns = ("settings", "return", "IQM", "best", "mean over training", "seeds", "step", "hours")
    cells: dict[str, list[tuple[str, ...]]] = {}
    for row in rows:
        cells.setdefault(row.curve.env, []).append(
            (
                row.name,
                spread(row.returns),
                interval(*row.iqm),
                number(row.best),
                number(row.area),
                f"{len(row.returns)}",
                row.progress if row.step else UNKNOWN,
                number(row.hours),
            )
        )
    return [TextTable(env, columns, tuple(of_env)) for env, of_env in cells.items()]


def target_table(rows: Sequence[ResultRow]) -> TextTable:
    """Make the table of steps and hours to a return."""
    cells = tuple(
        (
            *(row.curve.env, row.name, number(row.target, 100), str(row.reached), steps_text(row.steps_to)),
            *(_times(row.speed_up), number(row.hours_to), _times(row.speed_up_hours)),
        )
        for row in rows
        if not np.isnan(row.target)
    )
    columns = (
        *("task", "settings", "return", "steps, by seed", "steps, mean curve"),
        *("speed-up", "hours", "speed-up in hours"),
    )
    note = (
        "The first evaluation that reached the return: by seed, averaged over the seeds that reached it, and on the "
        "mean curve, as are hours. The speed-up compares the mean curve with that of the same settings and reuse 1."
    )
    return TextTable("Steps to a return", columns, cells, note, ("task", "settings"))


def aggregate_table(units: Mapping[str, float], found: Sequence[Aggregate]) -> TextTable:
    """Make the table of statistics over tasks."""
    scores = ", ".join(f"{number(unit)} on {env}" for env, unit in units.items())
    first = found[0].setting if found else ""
    cells = tuple(
        (
            one.setting,
            f"{len(one.scores)} × {one.scores.shape[1]}",
            *(interval(*each) for each in (one.iqm, one.gap, one.improvement)),
        )
        for one in found
    )
    columns = ("settings", "seeds × tasks", "IQM", "optimality gap", f"probability of improvement over {first}")
    note = f"A score of 1 is a return of {scores}. In brackets: 95 % stratified bootstrap interval over seeds."
    return TextTable("Over all tasks", columns, cells, note)


def settings_tables(rows: Sequence[ResultRow]) -> list[TextTable]:
    """Make the tables of settings: those that all runs share, and for each row those that differ."""
    texts = [_setting_words(row.curve) for row in rows]
    names = list(dict.fromkeys(name for settings in texts for name in settings))
    shared = [name for name in names if len({settings.get(name) for settings in texts}) == 1]
    common = tuple((name, texts[0][name]) for name in shared)
    others = tuple(
        (
            row.curve.env,
            row.name,
            ", ".join(f"{name} {text}" for name, text in settings.items() if name not in (*shared, *ALWAYS_SHOWN)),
        )
        for row, settings in zip(rows, texts, strict=True)
    )
    columns = ("task", "settings", "in detail")
    return [
        TextTable("Settings of all runs", ("setting", "value"), common, left=("setting", "value")),
        TextTable("Settings that differ", columns, others, left=columns),
    ]


def _setting_words(curve: Curve) -> dict[str, str]:
    """Return the settings of a curve by name; its runs may have been evaluated in different ways."""
    mine = {name: value for name, value in flat(curve.settings).items() if name not in ("seed", "steps")}
    found = {name: words(value) for name, value in mine.items()}
    for name in (name for name in EVALUATION if name in found):
        found[name] = " or ".join(dict.fromkeys(words(one.settings.get(name)) for one in curve.records))
    return found


def _times(ratio: float) -> str:
    return UNKNOWN if np.isnan(ratio) else f"{number(ratio, 1)}×"
