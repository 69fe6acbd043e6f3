"""Runs beside published results: which settings were published under which name, the band at a step, and verdicts.

`PUBLISHED` is what `smrl report --published` shows; `verdict` checks whether a run lies within its band.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal

import numpy as np

from smrl.paper import published
from smrl.paper.published import PAPER_SEEDS, PaperNumber
from smrl.report.report import Published, PublishedCurve
from smrl.report.results import ResultRow
from smrl.report.text import UNKNOWN, TextTable, mean_and_sd, number, spread, steps_text
from smrl.runs.identity import canonical, label
from smrl.runs.records import Record
from smrl.statistics import return_at, steps_to

WIDTH = 2  # sample standard deviations to either side: a run is a single draw, so the band is that of single seeds
NEAR = 0.05  # relative distance at which a run's evaluation still counts as one at the only published step

_PLAIN = {"fresh_batches": 1, "learning_rate_factor": 1.0}
_REDQ = {"fresh_batches": 20, "learning_rate_factor": 1.0, "reuse": "1"}
_SMALL = {"layer_norm": False, "dropout": 0.0}
_COMMON = {"gamma": 0.99, "reward_scale": 1.0, "reset_every": None, "max_episode_steps": None}
_SAC = {**_PLAIN, **_SMALL, "actor_hidden": [256, 256], "critic_hidden": [256, 256]}


@dataclass(frozen=True)
class Counterpart:
    """Settings of smrl and the names under which their results are published; settings not listed may differ."""

    algorithm: str
    settings: dict[str, Any]
    curves: tuple[str, ...] = ()  # names in curves.csv
    paper: str = ""  # name in the paper's tables


COUNTERPARTS = (
    Counterpart("sac", {"reuse": "1", **_SAC}, ("sac",), "SAC"),
    Counterpart("sac", {"reuse": "10", **_SAC}, (), "SAC-SMR"),
    Counterpart("sac", {"reuse": "1", **_SAC, "fresh_batches": 10}, (), "SAC-UTD10"),
    Counterpart("tqc", {"reuse": "1", **_PLAIN, **_SMALL}, (), "TQC"),
    Counterpart("tqc", {"reuse": "10", **_PLAIN, **_SMALL}, (), "TQC-SMR"),
    Counterpart("darc", {"reuse": "1", **_PLAIN, **_SMALL}, (), "DARC"),
    Counterpart("darc", {"reuse": "10", **_PLAIN, **_SMALL}, (), "DARC-SMR"),
    Counterpart("redq", {**_REDQ, **_SMALL, "critics": 10}, ("redq-utd20", "redq")),
    Counterpart("redq", {**_REDQ, "layer_norm": True, "critics": 2}, ("droq-utd20",)),
    Counterpart("drqv2", {"reuse": "1", **_PLAIN}, ("drqv2",), "DrQ-v2"),
    Counterpart("drqv2", {"reuse": "5", **_PLAIN}, (), "DrQ-v2-SMR"),
    Counterpart("dqn", {"reuse": "1", **_PLAIN}, ("dqn-dopamine",)),
)


@dataclass(frozen=True)
class Band:
    """The published mean ± 2 standard deviations at a step."""

    name: str  # published name of the algorithm
    source: str
    step: int  # of the run
    mean: float
    sd: float
    seeds: int
    remark: str  # differences in protocol between the published runs and this one, and what is unknown of them

    @property
    def low(self) -> float:
        """Lower end of the band."""
        return self.mean - WIDTH * self.sd

    @property
    def high(self) -> float:
        """Upper end of the band."""
        return self.mean + WIDTH * self.sd


@dataclass(frozen=True, eq=False)
class Reference:
    """What is published for a run's settings on their task."""

    settings: Mapping[str, Any]
    curve: PublishedCurve | None
    numbers: tuple[PaperNumber, ...]  # in the paper's tables

    def band(self, step: int) -> Band | None:
        """Return the published band at a step; None where nothing is published.

        Mean and deviation are linear between the steps of a curve; up to 5 % before its first step and after its last
        they are those of that step. Without a curve, the band is that of a number in the paper within 5 % of the step.
        """
        if (curve := self.curve) is not None:
            inside = float(np.clip(step, curve.steps[0], curve.steps[-1]))
            if abs(step - inside) > NEAR * inside:
                return None
            mean, sd = (float(return_at(inside, curve.steps, values)) for values in (curve.mean, curve.sd))
            seeds = int(curve.seeds[np.argmin(abs(curve.steps - inside))])
            return Band(curve.algorithm, curve.source, step, mean, sd, seeds, remark(self.settings, curve.algorithm))
        for printed in self.numbers:
            if printed.sd is not None and abs(step - step_of(printed)) <= NEAR * step_of(printed):
                note = remark(self.settings, printed.algorithm)
                return Band(printed.algorithm, "the paper", step, printed.value, printed.sd, PAPER_SEEDS, note)
        return None


@dataclass(frozen=True)
class Verdict:
    """How a run compares with published results; ``unknown`` where there is nothing to compare it with."""

    outcome: Literal["below", "within", "above", "unknown"]
    band: Band | None
    value: float  # return of the evaluation that was compared; NaN if none was
    line: str  # the verdict in words


def counterpart(settings: Mapping[str, Any]) -> Counterpart | None:
    """Return the counterpart of these settings; a setting that an old run lacks counts as equal."""

    def matches(one: Counterpart) -> bool:
        wanted = {"algorithm": one.algorithm, **_COMMON, **one.settings}
        return canonical({name: settings.get(name, value) for name, value in wanted.items()}) == canonical(wanted)

    return next(filter(matches, COUNTERPARTS), None)


def reference(settings: Mapping[str, Any]) -> Reference:
    """Return what is published for these settings on their task."""
    known = counterpart(settings)
    if known is None:
        return Reference(settings, None, ())
    curves = filter(None, (published.curve(name, settings["env"]) for name in known.curves))
    numbers = tuple(printed for printed in paper_task(settings["env"]) if printed.algorithm == known.paper)
    return Reference(settings, next(curves, None), numbers)


def paper_task(env: str) -> list[PaperNumber]:
    """Return what the paper's tables print for a task; its Gym tasks are -v2, to which -v4 is closest."""
    tables = {"gym": "sample_efficiency", "dmc": "performance", "dmc-pixels": "pixels"}
    suite, name = published.suite_of(env), published.task_name(env).rpartition("/")[2].replace("-v4", "-v2")
    numbers = published.paper_table(tables[suite]) if suite in tables else []
    return [printed for printed in numbers if printed.task == name]


def step_of(printed: PaperNumber) -> int:
    """Return the step at which the paper measured a return, or for steps to a return that return.

    >>> step_of(PaperNumber("performance", "cheetah-run", "return_at_250000", "SAC", 284.6, 20.5))
    250000
    """
    return int(printed.measure.removesuffix("_frames").rpartition("_")[2])


def remark(settings: Mapping[str, Any], name: str) -> str:
    """Describe how the published runs of an algorithm differ from these settings, and what is unknown of them."""
    protocol, mine = published.protocol(name, settings["env"]), settings.get("action_repeat", 1)
    differs = protocol.action_repeat not in (None, mine)
    parts = [f"action repeat {protocol.action_repeat} there, {mine} here"] if differs else []
    return "; ".join([*parts, *filter(None, [protocol.remark])])


def verdict(record: Record) -> Verdict:
    """Compare the last evaluation of a run that has a published band with that band."""
    title = f"{record.path}: {label(record.settings, [])}, {record.env}"
    known = reference(record.settings)
    for step, value in zip(record.steps[::-1].tolist(), record.returns[::-1].tolist(), strict=True):
        found = known.band(step)
        if found is not None:
            outcome: Literal["below", "within", "above"]
            outcome = "below" if value < found.low else "above" if value > found.high else "within"
            return Verdict(outcome, found, value, f"{outcome:<8}{title}, {_comparison(found, value)}")
    return Verdict("unknown", None, np.nan, f"{'unknown':<8}{title}: {_why_unknown(record, known)}")


def _comparison(found: Band, value: float) -> str:
    size = max(abs(found.mean), abs(value))
    low, high, mine = (number(each, size) for each in (found.low, found.high, value))
    note = f"; {found.remark}" if found.remark else ""
    return (
        f"step {found.step:,}: return {mine}, band {low} to {high} ({found.name} of {found.source}: "
        f"{mean_and_sd(found.mean, found.sd, size)}, {found.seeds} seeds{note})"
    )


def _why_unknown(record: Record, known: Reference) -> str:
    """Explain why a run has no band, and report what the paper says of it nevertheless."""
    first, last = (f"{step:,}" for step in record.steps[[0, -1]].tolist())
    if (curve := known.curve) is not None:
        return (
            f"its evaluations, steps {first} to {last}, are outside the published steps of {curve.algorithm}, "
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


def target(env: str) -> float:
    """Return the return in the paper's table of sample efficiency for a task; NaN where it has none."""
    scores = [step_of(printed) for printed in paper_task(env) if printed.table == "sample_efficiency"]
    return float(scores[0]) if scores else np.nan


def unit(env: str) -> float | None:
    """Return the last mean of the published SAC curve of a task, which counts as a score of 1."""
    curve = published.curve("sac", env)
    return None if curve is None else float(curve.mean[-1])


def curves_table(rows: Sequence[ResultRow]) -> TextTable:
    """Make the table of returns beside the published curve of the same algorithm and task at the same step."""
    cells = []
    for row in rows:
        known = reference(row.curve.settings)
        found = known.band(row.step) if row.step and known.curve else None
        if found is not None:
            theirs = mean_and_sd(found.mean, found.sd, max(abs(found.mean), abs(row.mean)))
            cells.append(
                (
                    *(row.curve.env, row.name, f"{row.step:,}", spread(row.returns), theirs),
                    *(f"{found.name}, {found.seeds} seeds", found.source, found.remark),
                )
            )
    columns = ("task", "settings", "step", "return", "published", "as", "source", "remark")
    note, left = "± is the sample standard deviation over seeds.", ("task", "settings", "as", "source", "remark")
    return TextTable("Published curves", columns, tuple(cells), note, left)


def paper_table(rows: Sequence[ResultRow]) -> TextTable:
    """Make the table of the paper's numbers beside ours."""
    cells = []
    for row in rows:
        for printed in reference(row.curve.settings).numbers:
            at = step_of(printed)
            if printed.table == "sample_efficiency":
                steps = float(steps_to(at, row.curve.steps, row.curve.mean)) if row.step else np.nan
                ours, theirs, what = steps_text(steps), f"{printed.value:,.0f}", f"steps to {at:,}"
            else:
                ours, theirs, what = _return_at(row, at), f"{printed.value} ± {printed.sd}", f"return at {at:,}"
            note = remark(row.curve.settings, printed.algorithm)
            cells.append((row.curve.env, row.name, what, ours, theirs, printed.algorithm, note))
    columns = ("task", "settings", "measure", "here", "paper", "as", "remark")
    note = (
        "Steps here are those of the mean curve. The paper has six seeds. It does not say whether its steps are by "
        "seed or of the mean curve, nor how its deviations are defined."
    )
    return TextTable("The paper's tables", columns, tuple(cells), note, ("task", "settings", "measure", "as", "remark"))


def _return_at(row: ResultRow, step: int) -> str:
    if not row.step or not row.curve.steps[0] <= step <= row.step:
        return UNKNOWN
    return spread(np.array([return_at(step, one.steps, one.returns) for one in row.curve.records]))


def sources_table() -> TextTable:
    """Make the table of the repositories that published the curves."""
    columns = ("source", "repository", "commit", "licence")
    return TextTable("sources", columns, tuple(astuple(source) for source in published.sources()), left=columns)


PUBLISHED = Published(
    target=target,
    unit=unit,
    curves=published.curves_of,
    curve=lambda settings: reference(settings).curve,
    remark=remark,
    tables=lambda rows: [curves_table(rows), paper_table(rows)],
    sources=sources_table,
)
