"""Published numbers: read with their sources, matched to our settings, and the band at a step."""

import csv
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from written_runs import HYPER, SETTINGS

from smrl.errors import SmrlError
from smrl.paper import published
from smrl.paper.bands import COUNTERPARTS, counterpart, reference, remark, step_of, target, unit


def settings(**changes: Any) -> dict[str, Any]:
    return SETTINGS | HYPER | changes


def names(found: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    known = counterpart(found)
    return (known.curves, known.paper) if known else ((), "")


def test_curve_has_its_source() -> None:
    curve = published.curve("sac", "HalfCheetah-v4")
    assert curve is not None
    assert curve.source == "SimbaV2@14fafb2"
    assert set(curve.seeds) == {10}
    assert (np.diff(curve.steps) > 0).all()
    assert curve.steps[-1] == pytest.approx(1e6, rel=1e-3)
    assert curve.mean[-1] == pytest.approx(11_321, abs=1)
    assert published.curve("sac", "Pendulum-v1") is None
    assert {one.algorithm for one in published.curves_of("Hopper-v4")} >= {"sac", "redq-utd20", "droq-utd20", "crossq"}


def test_atari_steps_are_four_frames() -> None:
    curve = published.curve("dqn-dopamine", "PongNoFrameskip-v4")
    assert curve is not None
    assert curve.steps[:2].tolist() == [250_000, 500_000]


@pytest.mark.parametrize(
    ("env", "name", "suite"),
    [
        ("dmc/ball_in_cup-catch", "dmc/cup-catch", "dmc"),
        ("dmc/finger-turn_hard", "dmc/finger-turn-hard", "dmc"),
        ("dm_control/cheetah-run-v0", "dmc/cheetah-run", "dmc"),
        ("dmc-pixels/walker-walk", "dmc-pixels/walker-walk", "dmc-pixels"),
        ("Ant-v4", "Ant-v4", "gym"),
        ("PongNoFrameskip-v4", "PongNoFrameskip-v4", "atari"),
        ("my_module:my_env", "my_module:my_env", "gym"),
    ],
)
def test_published_names_of_tasks(env: str, name: str, suite: str) -> None:
    assert (published.task_name(env), published.suite_of(env)) == (name, suite)


def test_every_curve_has_a_source_and_a_protocol() -> None:
    text = files("smrl.paper").joinpath("published", "curves.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == 15_180
    known = {source.key: source for source in published.sources()}
    for source in {row["source"] for row in rows}:
        key, _, commit = source.partition("@")
        assert known[key].commit.startswith(commit)
        assert known[key].licence in ("MIT", "Apache-2.0")
    for algorithm, env in {(row["algorithm"], row["environment"]) for row in rows}:
        protocol = published.protocol(algorithm, env)
        assert protocol.action_repeat is not None or protocol.remark, (algorithm, env)


def test_paper_tables() -> None:
    table = published.paper_table("sample_efficiency")
    assert len(table) == 24
    (hopper,) = (number for number in table if (number.task, number.algorithm) == ("Hopper-v2", "SAC-SMR"))
    assert (hopper.value, hopper.sd, step_of(hopper)) == (93_000, None, 3000)
    (pixels,) = (
        number
        for number in published.paper_table("pixels")
        if number.task == "walker-walk" and "SMR" in number.algorithm
    )
    assert (pixels.value, pixels.sd, step_of(pixels)) == (949.3, 8.9, 500_000)
    with pytest.raises(SmrlError, match="did you mean performance"):
        published.paper_table("performence")


def test_every_counterpart_exists() -> None:
    tables = ("sample_efficiency", "performance", "pixels")
    printed = {number.algorithm for name in tables for number in published.paper_table(name)}
    tasks = ("Hopper-v4", "dmc/cheetah-run", "dmc-pixels/walker-walk", "PongNoFrameskip-v4")
    for one in COUNTERPARTS:
        assert one.curves or one.paper
        assert one.paper in {"", *printed}
        assert all(any(published.curve(name, env) for env in tasks) for name in one.curves)
    assert printed == {one.paper for one in COUNTERPARTS if one.paper}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (("sac",), "SAC")),
        ({"reuse": "10"}, ((), "SAC-SMR")),
        ({"fresh_batches": 10}, ((), "SAC-UTD10")),
        ({"reuse": "5"}, ((), "")),
        ({"reuse": "10:300000,1"}, ((), "")),
        ({"gamma": 0.9}, ((), "")),
        ({"actor_hidden": [8]}, ((), "")),
        ({"learning_rate_factor": 10.0}, ((), "")),
        ({"algorithm": "td3"}, ((), "")),
        ({"algorithm": "tqc", "reuse": "10", "critic_hidden": [512, 512, 512]}, ((), "TQC-SMR")),
        ({"algorithm": "redq", "fresh_batches": 20, "critics": 10}, (("redq-utd20", "redq"), "")),
        (
            {"algorithm": "redq", "fresh_batches": 20, "critics": 2, "layer_norm": True, "dropout": 0.01},
            (("droq-utd20",), ""),
        ),
        ({"algorithm": "redq", "fresh_batches": 20, "critics": 10, "reuse": "5"}, ((), "")),
        ({"algorithm": "redq", "fresh_batches": 20, "critics": 5}, ((), "")),
    ],
)
def test_published_names_of_settings(changes: dict[str, Any], expected: tuple[tuple[str, ...], str]) -> None:
    assert names(settings(**changes)) == expected


def test_redq_has_another_name_on_the_control_suite() -> None:
    redq = settings(algorithm="redq", fresh_batches=20, critics=10)
    found = [reference(redq | {"env": env}).curve for env in ("Hopper-v4", "dmc/cheetah-run")]
    assert [one.algorithm for one in found if one] == ["redq-utd20", "redq"]


def test_band_is_linear_between_published_steps() -> None:
    curve = published.curve("sac", "Hopper-v4")
    assert curve is not None
    middle = int(curve.steps[3] + curve.steps[4]) // 2
    found = reference(settings()).band(middle)
    assert found is not None
    assert found.mean == pytest.approx((curve.mean[3] + curve.mean[4]) / 2, rel=1e-3)
    assert found.sd == pytest.approx((curve.sd[3] + curve.sd[4]) / 2, rel=1e-3)
    assert (found.high - found.mean, found.mean - found.low) == pytest.approx((2 * found.sd, 2 * found.sd))
    assert (found.name, found.seeds, found.remark) == ("sac", 10, "")


def test_band_ends_shortly_after_the_last_published_step() -> None:
    last = published.curve("sac", "Hopper-v4")
    assert last is not None
    found = reference(settings()).band(1_040_000)
    assert found is not None
    assert found.mean == last.mean[-1]
    assert reference(settings()).band(1_060_000) is None


def test_band_without_a_curve_is_from_the_paper() -> None:
    cheetah = settings(env="dmc/cheetah-run", reuse="10", action_repeat=4)
    found = reference(cheetah).band(245_000)
    assert found is not None
    assert (found.source, found.mean, found.sd, found.seeds) == ("the paper", 600.1, 49.2, 6)
    assert reference(cheetah).band(200_000) is None
    assert reference(settings(reuse="10")).band(93_000) is None  # steps to a return have no band
    assert [number.value for number in reference(settings(reuse="10")).numbers] == [93_000]


def test_different_action_repeat_is_remarked() -> None:
    found = reference(settings(env="dmc/cheetah-run", action_repeat=4)).band(250_000)
    assert found is not None
    assert found.remark == "action repeat 2 there, 4 here"
    assert remark(settings(env="dmc/cheetah-run", action_repeat=2), "sac") == ""


def test_targets_and_units_of_scores() -> None:
    curve = published.curve("sac", "Hopper-v4")
    assert curve is not None
    assert unit("Hopper-v4") == curve.mean[-1]
    assert unit("Pendulum-v1") is None
    assert target("Hopper-v4") == 3000
    assert np.isnan(target("dmc/cheetah-run"))
