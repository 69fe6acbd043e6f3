"""All reported standard deviations are sample standard deviations (n − 1)."""

import csv
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smrl
from smrl.cli.main import main
from smrl.statistics import sample_sd

SHORT: dict[str, Any] = {"steps": 40, "warmup": 20, "eval_every": 20, "batch_size": 8, "reuse": 1, "quiet": True}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,)}


def test_sample_sd_is_over_the_first_axis() -> None:
    rows = [[1.0, -3.0], [2.0, 5.0], [4.0, 0.5]]
    wanted = [statistics.stdev(column) for column in zip(*rows, strict=True)]
    np.testing.assert_allclose(sample_sd(rows), wanted, rtol=1e-12)


def test_sample_sd_of_one_value_is_nan() -> None:
    assert math.isnan(sample_sd([7.0]))
    assert np.isnan(sample_sd(np.ones((1, 3)))).tolist() == [True] * 3


@pytest.mark.parametrize("episodes", [1, 3])
def test_a_run_and_evaluate_report_the_same_sd(
    episodes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = smrl.train("ddpg", "Pendulum-v1", **SHORT, **SMALL, eval_episodes=episodes, runs=tmp_path)
    returns = [float(value) for value in smrl.evaluate(run, episodes).returns]
    *_, last = csv.DictReader((run.path / "evaluations.csv").read_text().splitlines())
    capsys.readouterr()
    main(["evaluate", str(run.path), "--episodes", str(episodes)])
    messages = capsys.readouterr().out
    if episodes == 1:
        assert last["sd"] == "nan"
        assert f"return {returns[0]:,.2f} (" in messages
    else:
        assert float(last["sd"]) == pytest.approx(statistics.stdev(returns), rel=1e-9)
        assert f"± {statistics.stdev(returns):,.2f} (" in messages
    assert run.record.steps.tolist() == [20, 40], "the table is still read"
