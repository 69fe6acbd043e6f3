"""Scores beside published systems, and the computation of an update."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written_runs import write_run

from benchmarks.ours import Case, flop
from smrl.paper.frontier import BEST, score_table, update_gflop
from smrl.presets import resolve
from smrl.report.report import make_report
from smrl.runs.identity import flat

BUDGET: dict[str, Any] = {"steps": 100_000, "batch_size": 256}
SIMBA = {"network": "simba", "critic_hidden": (128, 128), "actor_hidden": (128,)}


def gflop(algorithm: str, **changes: Any) -> float:
    return update_gflop(flat(resolve(algorithm, "HalfCheetah-v4", **changes).to_json()))


def cells(table: Any) -> dict[str, tuple[str, ...]]:
    return {row[0]: row[1:] for row in table.rows}


def test_published_scores_are_those_of_their_curves() -> None:
    """SimbaV2 with 8 updates: 2927, 4488, 7505 and 3942 at 100,000 steps."""
    found = cells(score_table([]))
    best = [values[0] for values in BEST.values()]
    score = np.mean(np.array([2927, 4488, 7505, 3942]) / best)
    assert found["SimbaV2 with 8 updates per step"][0].startswith(f"{score:.2f} [")
    assert found["SimbaV2 with 8 updates per step"][2:] == ("5", "225", "69.4", "–")
    assert found["FlashSAC"][1] == "–", "its curve has no point between 0 and 100,000"
    assert [float(row[1].split()[0]) for row in score_table([]).rows] == sorted(
        (float(row[1].split()[0]) for row in score_table([]).rows), reverse=True
    )


def test_our_scores(tmp_path: Path) -> None:
    """Half of the best return with one seed and all of it with the other: 0.75, of which the bootstrap knows bounds."""
    for env, (late, early) in BEST.items():
        for seed, share in enumerate((0.5, 1.0)):
            points = [(50_000, share * early), (100_000, share * late)]
            own = {"env": env, "seed": seed, "reuse": "4"}
            write_run(tmp_path / f"{env}-{seed}", points, 0.036, **BUDGET, **own)
    write_run(tmp_path / "other", [(50_000, 1.0)], **BUDGET)
    for seed, step in enumerate((50_000, 60_000)):
        for env in BEST:
            write_run(tmp_path / f"{env}-apart-{seed}", [(step, 1.0)], **BUDGET, env=env, seed=seed, reuse="9")
    table = score_table(make_report([tmp_path]).rows)
    (ours,) = [row for name, row in cells(table).items() if "reuse 4" in name]
    assert ours[:3] == ("0.75 [0.56, 0.94]", "0.75 [0.56, 0.94]", "2")
    assert ours[-1] == "1.00", "0.036 s a step"
    assert not any("reuse 1" in row[0] for row in table.rows), "it has no runs on the other tasks"
    assert not any("reuse 9" in row[0] for row in table.rows), "its seeds have no step in common"


def test_computation_by_hand() -> None:
    actor, critic = 17 * 256 + 256 * 256 + 256 * 12, 23 * 256 + 256 * 256 + 256
    assert gflop("sac") == pytest.approx(2 * 256 * (4 * actor + 12 * critic) / 1e9)
    assert gflop("sac", delay=4) == pytest.approx(2 * 256 * (1.75 * actor + 9 * critic) / 1e9)
    blocks = 23 * 128 + 2 * 8 * 128**2 + 128, 17 * 128 + 8 * 128**2 + 128 * 12
    assert gflop("sac", **SIMBA) == pytest.approx(2 * 256 * (4 * blocks[1] + 12 * blocks[0]) / 1e9)
    assert gflop("td3", delay=1) > gflop("td3") > gflop("td3", delay=10)
    assert math.isnan(gflop("xqc"))


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"critic_hidden": (256, 256, 256), "layer_norm": True}, SIMBA, {"delay": 2}])
def test_computation_is_what_xla_counts(changes: dict[str, Any]) -> None:
    case = Case("sac", changes=changes, steps=changes.get("delay", 1))
    assert gflop("sac", **changes) == pytest.approx(flop(case) / 1e9, rel=0.05)


@pytest.mark.slow
def test_computation_of_td3_is_what_xla_counts() -> None:
    assert gflop("td3") == pytest.approx(flop(Case("td3", steps=2)) / 1e9, rel=0.05)
