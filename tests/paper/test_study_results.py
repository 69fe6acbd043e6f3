"""The tables of the paper's studies, made from small written runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written_runs import write_run

from smrl.paper import study_results
from smrl.report.report import make_report
from smrl.report.results import ResultRow
from smrl.runs.records import read_run

DMC: dict[str, Any] = {"env": "dmc/cheetah-run", "action_repeat": 4, "steps": 500_000}


def rows(folder: Path) -> list[ResultRow]:
    return make_report([folder]).rows


def write(folder: Path, points: dict[int, float], seed: int = 0, **settings: Any) -> None:
    changes: dict[str, Any] = {"seed": seed, **settings}
    name = "-".join(str(value).replace("/", "-").replace(":", "-") for value in changes.values())
    write_run(folder / name, points.items(), **changes)


def test_returns_beside_the_paper(tmp_path: Path) -> None:
    """Table 2 of the paper: SAC 284.6 ± 20.5 and 452.1 ± 47.7, SAC-SMR 600.1 ± 49.2 and 725.4 ± 48.7."""
    for seed, shift in enumerate((-5.0, 5.0)):
        write(tmp_path, {250_000: 300 + shift, 500_000: 400 + shift}, seed, reuse="1", **DMC)
        write(tmp_path, {250_000: 660 + shift, 500_000: 700 + shift}, seed, reuse="10", **DMC)
    found = rows(tmp_path)
    table = study_results.returns_at_steps(found, (250_000, 500_000), 1.0)
    assert table.columns == ("task", "SAC", "SAC-SMR")
    assert table.rows == (
        ("cheetah-run@250K", "300 ± 7 (paper 284.6 ± 20.5: inside)", "660 ± 7 (paper 600.1 ± 49.2: above)"),
        ("cheetah-run@500K", "400 ± 7 (paper 452.1 ± 47.7: below)", "700 ± 7 (paper 725.4 ± 48.7: inside)"),
    )
    small = study_results.returns_at_steps(found, (500_000,), 0.5)
    assert small.rows[0][:2] == ("cheetah-run@250K", "300 ± 7 (paper 452.1 ± 47.7)"), "no verdict on shorter runs"
    assert "0.5 of the paper's steps" in small.note


def test_ratio_of_means_and_mean_of_ratios(tmp_path: Path) -> None:
    for env, base, more in (("dmc/cheetah-run", 100.0, 300.0), ("dmc/fish-swim", 300.0, 300.0)):
        for reuse, value in (("1", base), ("10", more)):
            write(tmp_path, {500_000: value}, reuse=reuse, **DMC | {"env": env})
    table = study_results.return_ratios(rows(tmp_path), (500_000,), 1.0)
    assert table.rows == (("SAC-SMR over SAC@500K", "1.50", "2.00"),)


def test_steps_beside_the_paper(tmp_path: Path) -> None:
    """Table 1 of the paper: SAC reaches 3,000 on Hopper at 373K and SAC-SMR at 93K."""
    for seed in range(2):
        write(tmp_path, {50_000: 10.0, 100_000: 3_100.0}, seed, reuse="10", steps=400_000)
        write(tmp_path, {50_000: 10.0, 100_000: 20.0 + 4_000 * seed}, seed, reuse="1", steps=1_000_000)
    (row,) = study_results.steps_to_returns(rows(tmp_path), 1.0).rows
    assert row == ("Hopper@3000", "never (1 of 2, paper 373K)", "100K (2 of 2, paper 93K)")


def test_final_returns_without_published_numbers(tmp_path: Path) -> None:
    write(tmp_path, {1_000: 1.0, 2_000: 3.0, 3_000: 3.0}, algorithm="td3")
    (row,) = study_results.final_returns(rows(tmp_path)).rows
    assert row[2:5] == ("3,000", "3.00", "2.50")
    assert row[-3:] == ("–", "–", "")


def test_training_time(tmp_path: Path) -> None:
    for reuse, seconds in (("1", 0.36), ("10", 1.8)):
        write_run(
            tmp_path / reuse, [(1_000, 1.0), (10_000, 2.0)], seconds, reuse=reuse, env="Walker2d-v4", steps=10_000
        )
    found = study_results.training_time(rows(tmp_path)).rows
    assert [row[2:] for row in found] == [("1.00", "1.0×"), ("5.00", "5.0×")]


def test_shares_of_the_gain(tmp_path: Path) -> None:
    """Areas until step 3,000, which all runs have: 1 and 3 at reuse 1, 9 and 11 at reuse 10, so the gain is 8."""
    for seed in range(2):
        for settings, value in (({"reuse": "1"}, 1.0), ({"reuse": "10"}, 9.0), ({"reuse": "1", "tau": 0.05}, 3.0)):
            value += 2 * seed
            write(tmp_path, {1_000: value, 3_000: value, 5_000: 99.0}, seed, steps=5_000, **settings)
        write(tmp_path, {1_000: 6.0, 3_000: 8.0}, seed, reuse="10", batch_size=128, steps=3_000)
    write(tmp_path, {1_000: 1.0}, env="Walker2d-v4", reuse="10", batch_size=128, steps=1_000)
    found = study_results.shares_of_gain(rows(tmp_path)).rows
    by_name = {row[:2]: row[2:] for row in found}
    assert by_name["Hopper-v4", "SAC, reuse 1"][:3] == ("2", "3,000", "2.00 ± 1.41")
    assert by_name["Hopper-v4", "SAC, reuse 10"][3] == "1"
    assert by_name["Hopper-v4", "SAC, reuse 1, tau 0.05"][3].startswith("0.25 [")
    assert by_name["Hopper-v4", "SAC, reuse 10, batch 128"][3].startswith("0.62 [")
    assert by_name["Walker2d-v4", "SAC, reuse 10"][3] == "–", "without reuse 1 there is no gain"


def test_bias(tmp_path: Path) -> None:
    for seed in range(2):
        write_run(tmp_path / f"{seed}", [(1_000, 1.0), (2_000, 2.0)], seed=seed)
        content = f"step,episodes,mean,bias,bias_sd\n1000,10,1,,\n2000,10,2,{0.5 + seed},{seed}\n"
        (tmp_path / f"{seed}" / "evaluations.csv").write_text(content)
    found = rows(tmp_path)
    (row,) = study_results.final_bias(found).rows
    assert row[-2:] == ("1.00 ± 0.71", "0.50 ± 0.71")
    assert study_results.bias_figure(found, tmp_path / "bias.png").stat().st_size > 10_000
    write_run(tmp_path / "other", [(1_000, 1.0)], tau=0.5)
    assert len(study_results.read_bias(read_run(tmp_path / "other")).steps) == 0
    np.testing.assert_array_equal(study_results.read_bias(read_run(tmp_path / "1")).mean, [1.5])
    assert len(study_results.read_bias(read_run(tmp_path / "1").until(1_000)).steps) == 0, "the record ends before"


@pytest.mark.parametrize(("value", "expected"), [(1.0, "inside"), (0.4, "below"), (1.6, "above"), (np.nan, "–")])
def test_position(value: float, expected: str) -> None:
    assert study_results.position(value, 1.0, 0.5) == expected
