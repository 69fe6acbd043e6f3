"""Minari datasets that Minari has written, read as rows; and the replay memory of a run written as one."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import minari
import numpy as np
import pytest
from broken_envs import Toy
from gymnasium import spaces
from minari import DataCollector
from written_runs import FACTS, make_config

import smrl
from smrl.data.minari import read_dataset
from smrl.data.rows import from_arrays
from smrl.data.runs import read_memory
from smrl.deploy.minari import write_dataset
from smrl.envs.make import make
from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.runs import checkpoint
from smrl.runs.checkpoint import Saved
from smrl.settings import make_settings
from smrl.training.run import NAMED
from smrl.types import Spec

LARGEST = 10**7
NESTED = spaces.Dict(
    {
        "position": spaces.Box(-10, 10, (2,), np.float64),
        "inner": spaces.Tuple((spaces.Box(-10, 10, (), np.float32), spaces.Box(0, 9, (1, 2), np.int64))),
    }
)


class Nested(Toy):
    """A task with nested observations, actions in [0, 5] that ends after nine steps."""

    def __init__(self) -> None:
        super().__init__(observations=NESTED, actions=spaces.Box(0, 5, (3,), np.float32))

    def observed(self, obs: np.ndarray) -> Any:
        inner = np.array(obs[0], np.float32), np.array([[self.steps % 10, 7]])
        return {"position": obs.astype(np.float32).astype(np.float64), "inner": inner}

    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        return obs, reward, self.steps == 9, False, info


def played_run(folder: Path, env: Any, env_name: str, steps: int, **changes: Any) -> smrl.Run:
    """Write a run whose replay memory comes from random actions; nothing is trained."""
    algorithm = "dqn" if "Catch" in env_name else "ddpg"
    settings = make_settings(algorithm, env_name, **changes)
    envs = [make(env, **settings.env_options) for _ in range(settings.envs)]
    spec = envs[0].spec
    replay = Replay(settings.capacity, spec, gamma=0.9, envs=settings.envs)
    draw, folder = np.random.default_rng(0), folder / "run"
    observations = [one.reset(seed) for seed, one in enumerate(envs)]
    for _ in range(steps):
        actions = spec.action.random(draw, settings.envs)
        for index, one in enumerate(envs):
            obs, reward, terminated, truncated = one.step(actions[index])
            scaled = settings.reward_scale * reward
            replay.add(observations[index], actions[index], scaled, obs, terminated, truncated)
            observations[index] = one.reset(None) if one.over else obs
    checkpoint.save(folder / "checkpoint", Saved(steps, {}, FACTS), replay)
    source = None if isinstance(env, str) else NAMED
    config = make_config(settings.to_json(), spec=spec.to_json(), env_source=source)
    (folder / "config.json").write_text(json.dumps(config))
    return smrl.load(folder)


@pytest.fixture
def collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[dict[str, Any]]]:
    """Return a dataset that Minari collected in Nested, two episodes and one that goes on, and what was seen."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    env = DataCollector(gymnasium.wrappers.TimeLimit(Nested(), 5))
    env.action_space.seed(0)
    seen: list[dict[str, Any]] = []
    for number, steps in enumerate((5, 5, 3)):
        obs, _ = env.reset(seed=number)
        for _ in range(steps):
            action = env.action_space.sample()
            after, reward, terminated, *_ = env.step(action)
            seen.append({"obs": obs, "action": action, "reward": reward, "next_obs": after, "terminated": terminated})
            obs = after
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about facts that the dataset does not give
        env.create_dataset("toy/nested-v0", eval_env="Pendulum-v1")
    env.close()
    env._tmp_dir._finalizer.detach()  # it was deleted
    return tmp_path / "datasets" / "toy" / "nested-v0", seen


def flat(obs: Any) -> np.ndarray:
    return np.asarray(spaces.flatten(NESTED, obs), np.float32)


def test_nested_dataset_is_flattened_as_the_environment_is(collected: tuple[Path, list[dict[str, Any]]]) -> None:
    path, seen = collected
    spec = make(Nested, pad_observations=2).spec
    for place in (path, path / "data"):
        arrays, _, _ = read_dataset(place, spec, LARGEST)
    rows = from_arrays(arrays, spec, 1.0, lambda name, row: "")
    assert len(rows["reward"]) == len(seen) == 13
    assert np.flatnonzero(rows["last"]).tolist() == [4, 9, 12]
    for row, step in enumerate(seen):
        np.testing.assert_array_equal(rows["obs"][row], [*flat(step["obs"]), 0, 0])
        np.testing.assert_allclose(rows["action"][row], step["action"] / 2.5 - 1, atol=1e-6)
        assert rows["reward"][row] == np.float32(step["reward"])
        assert rows["terminated"][row] == step["terminated"]
    ends = [flat(seen[row]["next_obs"]) for row in (4, 9, 12)]
    np.testing.assert_array_equal(rows["successors"][:, :-2], ends)


def test_place_of_a_bad_value_is_named(collected: tuple[Path, list[dict[str, Any]]]) -> None:
    path, _ = collected
    spec = make(Nested).spec
    with h5py.File(path / "data" / "main_data.hdf5", "a") as file:
        file["episode_1/actions"][3] = 7
        file["episode_2/observations/position"][2] = np.nan
    arrays, place, _ = read_dataset(path, spec, LARGEST)
    with pytest.raises(SmrlError, match=r"the action of step 3 of episode 1 is outside the bounds, from 0 to 5"):
        from_arrays(arrays, spec, 1.0, place)
    arrays["action"][:] = 0
    with pytest.raises(SmrlError, match=r"obs.position of step 2 of episode 2 is not a finite"):
        from_arrays(arrays, spec, 1.0, place)


def edit(file: Path, change: Any) -> None:
    metadata = json.loads(file.read_text())
    change(metadata)
    file.write_text(json.dumps(metadata))


def test_dataset_that_needs_code_or_lies_about_its_size_is_refused(
    collected: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    path, _ = collected
    spec, data, metadata = make(Nested).spec, path / "data" / "main_data.hdf5", path / "data" / "metadata.json"

    def refused() -> str:
        with pytest.raises(SmrlError) as error:
            read_dataset(path, spec, LARGEST)
        return str(error.value)

    whole, described = data.read_bytes(), metadata.read_text()
    with h5py.File(data, "a") as file:
        file["episode_0"].create_dataset("large", shape=(10**12,), dtype="f8", chunks=(1000,))
    assert re.search(r"it holds [\d,]+ bytes, more than the 10,000,000 that fit", refused())
    data.write_bytes(whole)
    with h5py.File(data, "a") as file:
        del file["episode_1/rewards"]
        file["episode_1/rewards"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "/rewards")
    assert "rewards in it is a link, which smrl does not follow" in refused()
    data.write_bytes(whole)
    with h5py.File(data, "a") as file:
        del file["episode_1/rewards"]
        file["episode_1"].create_dataset(
            "rewards", shape=(5,), dtype="f8", external=[(str(tmp_path / "secret"), 0, h5py.h5f.UNLIMITED)]
        )
    assert "rewards in it is stored in another file" in refused()
    data.write_bytes(b"no HDF5")
    assert "cannot be read as HDF5" in refused()
    data.write_bytes(whole)
    # Without spaces, Minari would make the environment that the file names.
    edit(metadata, lambda content: content.pop("action_space"))
    assert "does not describe a dataset with its spaces" in refused()
    metadata.write_text(described)
    edit(metadata, lambda content: content.update(data_format="arrow"))
    assert "it is stored as 'arrow'; smrl reads the format hdf5" in refused()
    metadata.write_text(described)
    edit(metadata, lambda content: content.update(total_episodes=9))
    assert "Minari cannot read it (KeyError" in refused()
    edit(metadata, lambda content: content.update(total_episodes=0))
    assert "it holds no episodes" in refused()


def test_other_observations_are_refused(collected: tuple[Path, list[dict[str, Any]]]) -> None:
    path, _ = collected
    with pytest.raises(SmrlError, match="its observations have several entries, the environment's not"):
        read_dataset(path, make("Pendulum-v1").spec, LARGEST)


def same_rows(run: smrl.Run, dataset: Path) -> None:
    """Check that a dataset holds the replay memory of a run."""
    spec = Spec.from_json(run.config["spec"])
    memory = read_memory(run.path, LARGEST, print, only_complete=True)
    arrays, place, _ = read_dataset(dataset, spec, LARGEST)
    rows = from_arrays(arrays, spec, run.settings.reward_scale, place)
    assert rows.keys() == memory.rows.keys()
    for name, values in memory.rows.items():
        assert rows[name].dtype == values.dtype
        np.testing.assert_allclose(rows[name], values, atol=3e-7 if name == "action" else 0)


def test_round_trip_of_a_ring_of_two_environments(tmp_path: Path) -> None:
    settings = {"envs": 2, "capacity": 40, "max_episode_steps": 13, "reward_scale": 4.0}
    run = played_run(tmp_path, "Pendulum-v1", "Pendulum-v1", 30, **settings)
    written = write_dataset(run, tmp_path / "pendulum")
    # Of 30 steps per environment the ring holds the last 20; episodes begin at 0, 13 and 26.
    assert (written.episodes, written.steps, written.left_out) == (4, 34, 6)
    assert "pendulum-v0, 4 episodes, 34 steps; 6 steps of episodes without their beginning" in str(written)
    same_rows(run, tmp_path / "pendulum")
    dataset = minari.MinariDataset(tmp_path / "pendulum" / "data")
    assert (dataset.total_episodes, dataset.total_steps, dataset.env_spec.id) == (4, 34, "Pendulum-v1")
    assert dataset.action_space == spaces.Box(-2, 2, (1,), np.float32)
    assert dataset.observation_space == gymnasium.make("Pendulum-v1").observation_space
    assert [episode.id for episode in dataset] == [0, 1, 2, 3]
    assert [len(episode) for episode in dataset] == [13, 4, 13, 4]
    assert all(episode.truncations[-1] and not episode.terminations.any() for episode in dataset)
    assert max(abs(episode.actions).max() for episode in dataset) > 1.5, "in the environment's units"
    with pytest.raises(SmrlError, match="pendulum exists already"):
        write_dataset(run, tmp_path / "pendulum")


def test_round_trip_of_nested_observations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = played_run(tmp_path, Nested, "nested", 60, pad_observations=3)
    with pytest.raises(SmrlError, match="was trained in an environment that a function makes"):
        write_dataset(run, tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    written = write_dataset(run, tmp_path / "datasets" / "toy" / "replay-v3", Nested)
    assert written.dataset_id == "toy/replay-v3"
    assert minari.load_dataset("toy/replay-v3").observation_space == NESTED
    same_rows(run, tmp_path / "datasets" / "toy" / "replay-v3")


def test_round_trip_of_stacked_frames(tmp_path: Path) -> None:
    run = played_run(tmp_path, "smrl/Catch-v0", "smrl/Catch-v0", 40)
    write_dataset(run, tmp_path / "catch-v0")
    same_rows(run, tmp_path / "catch-v0")
