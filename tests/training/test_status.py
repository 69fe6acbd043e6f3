"""Callbacks: what they see of a run in progress, and where the values go that they log."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broken_envs import Toy

import smrl
from smrl.errors import SmrlError
from smrl.runs import checkpoint, doctor
from smrl.runs.records import CsvLog, begins_with

SHORT: dict[str, Any] = {"steps": 60, "warmup": 20, "eval_every": 20, "eval_episodes": 1, "batch_size": 8, "reuse": 1}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,), "quiet": True}


class Judged(Toy):
    """Episodes of seven steps with a reward of 1; two of three succeed. An entry of its info cannot be pickled."""

    episodes = 0

    def reset(self, **options: Any) -> Any:
        self.episodes += 1
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        obs, _, _, _, _ = super().step(action)
        info = {"place": self.steps, "is_success": np.float32(self.episodes % 3 > 0), "lock": (lambda: None)}
        return obs, 1.0, False, self.steps == 7, info


def train(runs: Path, env: Any = Judged, **settings: Any) -> smrl.Run:
    return smrl.train("ddpg", env, **SHORT | SMALL | settings, runs=runs)


def rows(run: smrl.Run) -> list[dict[str, str]]:
    return list(csv.DictReader((run.path / "training.csv").read_text().splitlines()))


@pytest.mark.parametrize("workers", ["none", pytest.param("process", marks=pytest.mark.slow)])
def test_a_status_has_episodes_infos_losses_and_the_present_policy(tmp_path: Path, workers: str) -> None:
    obs, ended, seen = np.linspace(-1, 1, 10).reshape(5, 2), list[Any](), dict[int, Any]()

    def on_step(status: smrl.Status) -> None:
        assert not status.evaluation
        assert [info["place"] for info in status.infos] == [(status.step // 2 - 1) % 7 + 1] * 2
        assert status.info == status.infos[0]
        assert ("lock" in status.info) == (workers == "none")
        ended.extend(status.ended)
        assert (status.episode_return, status.episode_length) == ((7.0, 7) if ended else (None, None))
        assert bool(status.losses) == (status.step > 40), "read at the evaluation before"

    def on_evaluation(status: smrl.Status) -> None:
        assert set(status.evaluation) == {"mean", "sd", "min", "max"}
        seen[status.step] = (status.policy, status.policy(obs), status.losses)

    options: Any = {} if workers == "none" else {"env_workers": workers, "env_restarts": 0}
    run = train(tmp_path, envs=2, on_step=on_step, on_evaluation=on_evaluation, **options)
    assert [(episode.total, episode.length) for episode in ended] == [(7.0, 7)] * 8
    assert ended[0].info["place"] == 7
    assert all(seen[40][2].keys() <= row.keys() for row in rows(run))
    assert "critic_loss" in seen[60][2]
    policies = [seen[step][0] for step in (20, 40, 60)]
    for policy, (_, then, _) in zip(policies, seen.values(), strict=True):
        np.testing.assert_array_equal(policy(obs), then, "training does not change it later")
    assert not np.array_equal(policies[1](obs), policies[2](obs))
    np.testing.assert_array_equal(policies[2](obs), run.policy(obs))
    np.testing.assert_array_equal(policies[2].q_values(obs), run.policy.q_values(obs))
    last = rows(run)[-1]
    assert (float(last["episode_return"]), float(last["episode_length"])) == (7.0, 7.0)
    assert 0 < float(last["success_rate"]) < 1


def test_callbacks_do_not_change_the_numbers(tmp_path: Path) -> None:
    def look(status: smrl.Status) -> None:
        status.policy.sample(np.zeros(2), seed=status.step)
        status.log("one", 1)

    seen, plain = train(tmp_path / "seen", on_step=look, on_evaluation=look), train(tmp_path / "plain")
    assert (seen.path / "evaluations.csv").read_bytes() == (plain.path / "evaluations.csv").read_bytes()
    own = set(rows(plain)[0]) - {"seconds", "steps_per_second"}
    assert [[row[name] for name in own] for row in rows(seen)] == [[row[name] for name in own] for row in rows(plain)]


def test_logged_values_are_columns_that_survive_continuation(tmp_path: Path) -> None:
    def log(status: smrl.Status) -> bool:
        if status.evaluation:
            status.log("return/worst", status.evaluation["min"])
        elif status.step >= 35:
            status.log("late.value", np.float32(status.step))
        return status.step == 50

    run = train(tmp_path, on_step=log, on_evaluation=log)
    found = [(row["step"], row["return/worst"], row["late.value"]) for row in rows(run)]
    assert found == [("40", "7.0", "37.5"), ("50", "", "45.5")], "means since the row before; the last row is not lost"
    assert doctor.examine(run.path).is_intact
    train(tmp_path, on_evaluation=lambda status: status.log("third", 3))
    assert [row["late.value"] for row in rows(run)] == ["37.5", "45.5", ""]
    table = run.training
    assert table["step"].tolist() == [40, 50, 60]
    assert table["third"].tolist()[2] == 3
    assert np.isnan(table["third"]).tolist() == [True, True, False]
    assert b"training/third" in max((run.path / "tensorboard").iterdir()).read_bytes()


REFUSED: list[tuple[Any, Any, str]] = [
    ("a,b", 1, "a name to log must be of letters, digits"),
    ("", 1, "a name to log"),
    (7, 1, "a name to log"),
    ("x" * 101, 1, "a name to log"),
    ("a", "high", "the value to log as a must be one number, not 'high'"),
    ("a", [1.0], "must be one number"),
    ("a", np.zeros(2), "must be one number"),
    ("a", None, "must be one number"),
    ("step", 1, r"training\.csv has a column step of its own"),
]


def test_what_cannot_be_logged(tmp_path: Path) -> None:
    """A name that is smrl's is left out of the first row, which shows the names, and refused later."""

    def log(status: smrl.Status) -> None:
        for name, value, message in REFUSED:
            with pytest.raises(SmrlError, match=message):
                status.log(name, value)
        status.log("critic_loss", 1)  # not known yet

    with pytest.raises(SmrlError, match=r"training\.csv has a column critic_loss of its own; choose another"):
        train(tmp_path, on_evaluation=log)
    (path,) = tmp_path.glob("*/*/seed0")
    run = smrl.load(path)
    assert run.training["critic_loss"][0] != 1
    assert checkpoint.newest_step(path / "checkpoint") == run.evaluations["step"][-1], "it was saved"


def test_callbacks_take_one_argument() -> None:
    old: Any = lambda run, step: None  # noqa: E731
    with pytest.raises(SmrlError, match="on_step must be a function of one argument, the status of the run"):
        smrl.train("ddpg", "No-v0", on_step=old)


def test_a_table_grows_by_columns(tmp_path: Path) -> None:
    table = CsvLog(tmp_path / "table.csv", ("step", "a"), continue_at=0)
    table.write({"step": 1, "a": 2})
    before = list(table.lines)
    table.write({"step": 2, "b": 3})
    assert table.path.read_text() == "step,a,b\n1,2,\n2,,3\n"
    content = table.path.read_bytes()
    assert begins_with(content, before)
    assert begins_with(content, table.lines)
    assert begins_with(content, [])
    for damaged in (b"step,a,b\n1,3,\n2,,3\n", b"step,a,b\n", b"", b"step,x,b\n1,2,\n", b"step,a,b\n1,2\n"):
        assert not begins_with(damaged, before)
    assert CsvLog(table.path, ("step", "c"), continue_at=1).lines == ["step,a,b,c", "1,2,,"]
