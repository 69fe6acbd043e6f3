"""`results.png`: every result that has a target, over its target."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

from benchmarks.harness import Record

matplotlib.use("Agg")


def draw(path: Path, records: Sequence[Record]) -> None:
    """Draw bars that reach 1 where the target is met; for an upper bound, the target over the value."""
    from matplotlib import pyplot

    judged = [record for record in records if record.target is not None]
    figure, axes = pyplot.subplots(figsize=(10, 1.2 + 0.3 * len(judged)), layout="constrained")
    shares = [share(record) for record in judged]
    colours = ["tab:green" if record.met else "tab:red" for record in judged]
    axes.barh(range(len(judged)), shares, color=colours)
    axes.set_yticks(range(len(judged)), [record.name for record in judged], fontsize=8)
    for place, (record, value) in enumerate(zip(judged, shares, strict=True)):
        words = f"{record.value:.3g} {record.unit} ({'≤' if record.at_most else '≥'} {record.target:g})"
        axes.annotate(words, (value, place), (3, 0), textcoords="offset points", va="center", fontsize=7)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlim(0, 1.3 * max(shares, default=1))
    axes.set_xlabel("result over its target (target over result where it is an upper bound)")
    axes.invert_yaxis()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def share(record: Record) -> float:
    """Return the result relative to its target: at least 1 if it is met."""
    assert record.target is not None
    return record.target / record.value if record.at_most else record.value / record.target
