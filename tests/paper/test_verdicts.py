"""Whether a run lies within the published band."""

from pathlib import Path
from typing import Any

import pytest
from written_runs import write_run

from smrl.paper import bands
from smrl.paper.bands import Verdict, reference
from smrl.runs.records import read_run


def verdict(tmp_path: Path, evaluations: list[tuple[int, float]], **changes: Any) -> Verdict:
    return bands.verdict(read_run(write_run(tmp_path / "run", evaluations, steps=2_000_000, **changes)))


@pytest.mark.parametrize(
    ("deviations", "outcome"), [(-2.01, "below"), (-1.99, "within"), (1.99, "within"), (2.01, "above")]
)
def test_band_is_two_deviations_wide(tmp_path: Path, deviations: float, outcome: str) -> None:
    sac = read_run(write_run(tmp_path / "any", [(300_000, 0.0)], env="HalfCheetah-v4")).settings
    known = reference(sac).band(300_000)
    assert known is not None
    value = known.mean + deviations * known.sd
    found = verdict(tmp_path, [(300_000, value)], env="HalfCheetah-v4")
    assert (found.outcome, found.value) == (outcome, value)
    assert found.line.startswith(f"{outcome:<8}{tmp_path / 'run'}: SAC, reuse 1, HalfCheetah-v4, step 300,000: return ")
    assert "(sac of SimbaV2@14fafb2: 8,593 ± 1,016, 10 seeds)" in found.line


def test_last_evaluation_with_a_band_counts(tmp_path: Path) -> None:
    found = verdict(tmp_path, [(500_000, 0.0), (1_000_000, 3000.0), (1_500_000, 0.0)])
    assert found.band is not None
    assert (found.band.step, found.value, found.outcome) == (1_000_000, 3000, "within")


@pytest.mark.parametrize(
    ("evaluations", "changes", "reason"),
    [
        ([(1000, 1.0)], {"env": "Pendulum-v1"}, "nothing is published for these settings and this task"),
        ([(1000, 1.0)], {"tau": 0.01, "reuse": "3"}, "nothing is published for these settings and this task"),
        (
            [(1000, 1.0), (94_000, 3001.0)],
            {"reuse": "10"},
            "the paper says only that SAC-SMR reaches 3,000 at step 93,000 on Hopper-v2, without a spread; this run "
            "has at step 94,000",
        ),
        ([(1000, 1.0)], {"reuse": "10"}, "without a spread; this run has not"),
        (
            [(1000, 1.0)],
            {"reuse": "10", "env": "dmc/cheetah-run"},
            "the paper has numbers of SAC-SMR at step 250,000 and 500,000, and no evaluation of this run is near",
        ),
        (
            [(2_000_000, 1.0)],
            {},
            "its evaluations, steps 2,000,000 to 2,000,000, are outside the published steps of sac, 1 to 999,960",
        ),
    ],
)
def test_line_explains_a_missing_band(
    tmp_path: Path, evaluations: list[tuple[int, float]], changes: dict[str, Any], reason: str
) -> None:
    found = verdict(tmp_path, evaluations, **changes)
    assert found.outcome == "unknown"
    assert found.line.endswith(reason)
