"""Whether a run lies within the published band of its algorithm and task."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from smrl.paper.bands import Band, Published, find, step_of
from smrl.report.statistics import steps_to
from smrl.report.text import number
from smrl.runs.identity import label
from smrl.runs.records import Record

Outcome = Literal["below", "within", "above", "unknown"]


@dataclass(frozen=True)
class Verdict:
    """How a run compares to what is published; ``unknown`` where there is nothing to compare it with."""

    outcome: Outcome
    band: Band | None
    value: float  # return of the run's evaluation that was compared; NaN if none was
    line: str  # for people


def check(record: Record) -> Verdict:
    """Compare the last evaluation of a run that has a published band; the band is mean ± 2 deviations over seeds."""
    title = f"{record.path}: {label(record.settings, [])}, {record.env}"
    known = find(record.settings)
    for step, value in zip(record.steps[::-1].tolist(), record.returns[::-1].tolist(), strict=True):
        found = known.band(step)
        if found is not None:
            outcome: Outcome = "below" if value < found.low else "above" if value > found.high else "within"
            return Verdict(outcome, found, value, f"{outcome:<8}{title}, {_words(found, value)}")
    return Verdict("unknown", None, np.nan, f"{'unknown':<8}{title}: {_why(record, known)}")


def _words(found: Band, value: float) -> str:
    size = max(abs(found.mean), abs(value))
    low, high, mean, sd, mine = (number(each, size) for each in (found.low, found.high, found.mean, found.sd, value))
    remark = f"; {found.remark}" if found.remark else ""
    return (
        f"step {found.step:,}: return {mine}, band {low} to {high} "
        f"({found.name} of {found.source}: {mean} ± {sd}, {found.seeds} seeds{remark})"
    )


def _why(record: Record, known: Published) -> str:
    """Why there is no band, and what the paper says of the run nevertheless."""
    first, last = (f"{step:,}" for step in record.steps[[0, -1]].tolist())
    if (curve := known.curve) is not None:
        return (
            f"its evaluations, steps {first} to {last}, are outside of the published steps of {curve.algorithm}, "
            f"{curve.steps[0]:,.0f} to {curve.steps[-1]:,.0f}"
        )
    if not known.numbers:
        return "nothing is published for these settings and this task"
    one = known.numbers[0]
    if one.table != "sample_efficiency":
        steps = " and ".join(f"{step_of(each):,}" for each in known.numbers)
        return f"the paper has numbers of {one.algorithm} at step {steps}, and no evaluation of this run is near"
    arrival = float(steps_to(step_of(one), record.steps, record.returns))
    own = "this run has not" if np.isnan(arrival) else f"this run has at step {arrival:,.0f}"
    return (
        f"the paper says only that {one.algorithm} reaches {step_of(one):,} at step {one.value:,.0f} on {one.task}, "
        f"without a spread; {own}"
    )
