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
    write(tmp_path, {1_000: 1.0}, algorithm="td3")
    (row,) = study_results.final_returns(rows(tmp_path)).rows
    assert row[-3:] == ("–", "–", "")


def test_training_time(tmp_path: Path) -> None:
    for reuse, seconds in (("1", 0.36), ("10", 1.8)):
        write_run(
            tmp_path / reuse, [(1_000, 1.0), (10_000, 2.0)], seconds, reuse=reuse, env="Walker2d-v4", steps=10_000
        )
    found = study_results.training_time(rows(tmp_path)).rows
    assert [row[2:] for row in found] == [("1.00", "1.0×"), ("5.00", "5.0×")]


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


@pytest.mark.parametrize(("value", "expected"), [(1.0, "inside"), (0.4, "below"), (1.6, "above"), (np.nan, "–")])
def test_position(value: float, expected: str) -> None:
    assert study_results.position(value, 1.0, 0.5) == expected
