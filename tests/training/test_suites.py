"""Settings of the suites: steps are the environment's, held actions and several environments included."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from broken_envs import Toy

import smrl
from smrl.envs import make as envs
from smrl.presets import resolve
from smrl.runs import checkpoint
from smrl.runs.paths import RunDirectory

SHORT: dict[str, Any] = {"steps": 240, "warmup": 80, "eval_every": 40, "eval_episodes": 1, "batch_size": 8, "reuse": 1}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,), "quiet": True}


class Counted(Toy):
    """Ends by time after 30 steps; its observations and rewards tell how many there were."""

    def step(self, action: Any) -> Any:
        _, _, _, _, info = super().step(action)
        return np.array([self.steps, 0], np.float32), 1.0, False, self.steps == 30, info


def arrays(run: smrl.Run) -> dict[str, np.ndarray]:
    saved = checkpoint.load(RunDirectory(run.path).checkpoint, print)
    assert saved is not None
    return saved.arrays


def critic_updates(run: smrl.Run) -> int:
    (count,) = (value for name, value in arrays(run).items() if ".critics." in name and ".count" in name)
    return int(count)


@pytest.mark.parametrize(("envs", "repeat"), [(1, 1), (1, 4), (4, 1), (2, 2)])
def test_steps_are_those_of_the_environment(envs: int, repeat: int, tmp_path: Path) -> None:
    run = smrl.train("ddpg", Counted, **SHORT, **SMALL, envs=envs, action_repeat=repeat, runs=tmp_path)
    assert run.record.steps.tolist() == [40, 80, 120, 160, 200, 240]
    assert (run.record.returns == 30).all(), "an evaluation is of whole episodes"
    assert critic_updates(run) == 160 / repeat, "one learning step per action"
    header, first, *_ = (run.path / "evaluations.csv").read_text().splitlines()
    assert ("agent_steps" in header) == (repeat > 1)
    if repeat > 1:
        assert dict(zip(header.split(","), first.split(","), strict=True))["agent_steps"] == str(40 // repeat)


def test_environments_play_different_episodes(tmp_path: Path) -> None:
    run = smrl.train("ddpg", "Pendulum-v1", **SHORT, **SMALL, envs=3, runs=tmp_path)
    saved = checkpoint.load(RunDirectory(run.path).checkpoint, print)
    assert saved is not None
    assert len({episode["seed"] for episode in saved.facts["episodes"]}) == 3
    assert sorted(episode["number"] for episode in saved.facts["episodes"]) == [0, 1, 2], "80 steps of 200 in each"
    again = smrl.train("ddpg", "Pendulum-v1", **SHORT, **SMALL, envs=3, runs=tmp_path / "again")
    for name, value in arrays(run).items():
        np.testing.assert_array_equal(value, arrays(again)[name])


def test_evaluations_are_made_at_the_first_stride_after_a_multiple(tmp_path: Path) -> None:
    run = smrl.train("ddpg", Counted, **SHORT, **SMALL, envs=3, action_repeat=3, runs=tmp_path, reset_every=200)
    assert run.record.steps.tolist() == [45, 81, 126, 162, 207, 243]
    assert critic_updates(run) == (243 - 207) // 3, "since the reset at step 207"


def test_presets_of_the_papers_suites() -> None:
    for env, repeat in {"dmc/walker-run": 2, "dmc/cheetah-run": 4, "dm_control/fish-swim-v0": 4}.items():
        assert (resolve("sac", env).steps, resolve("sac", env).action_repeat) == (500_000, repeat)
    bullet = resolve("td3", "AntMuJoCoEnv-v0")
    assert (bullet.steps, bullet.action_repeat) == (500_000, 1)
    assert resolve("sac", "dmc/cheetah-run", action_repeat=1).action_repeat == 1


def scaled_pendulum() -> gymnasium.Env[Any, Any]:
    """Gymnasium's wrappers around an environment: float64 observations of another shape, other bounds and rewards."""
    env = gymnasium.make("Pendulum-v1")
    env = gymnasium.wrappers.RescaleAction(env, np.float32(-3), np.float32(5))
    env = gymnasium.wrappers.TransformReward(env, lambda reward: float(reward) / 8)
    space = gymnasium.spaces.Box(-np.inf, np.inf, (1, 3), np.float64)
    return gymnasium.wrappers.TransformObservation(env, lambda obs: np.asarray(obs, np.float64)[None], space)


def test_wrapped_environments_are_trained(tmp_path: Path) -> None:
    """The first evaluation is of an untrained policy, so its returns differ by the wrapper's factor alone."""
    plain = smrl.train("ddpg", "Pendulum-v1", **SHORT, **SMALL, runs=tmp_path)
    wrapped = smrl.train("ddpg", scaled_pendulum, **SHORT, **SMALL, runs=tmp_path)
    assert wrapped.record.returns[0] == pytest.approx(plain.record.returns[0] / 8, rel=1e-4)
    assert -3 <= wrapped.policy(np.zeros((1, 3)))[0] <= 5


def test_other_bullet_tasks() -> None:
    environment = envs.make("HopperBulletEnv-v0")
    assert environment.spec.obs.shape == (15,)
    assert str(environment.spec.action) == "3 continuous actions"
    obs = environment.reset(0)
    assert np.isfinite(environment.step(np.zeros(3, np.float32))[0]).all()
    np.testing.assert_array_equal(environment.reset(0), obs)
    environment.close()
