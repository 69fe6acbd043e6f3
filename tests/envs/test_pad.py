"""Zeros appended to observations: what the agent sees, and that nothing else changes."""

from typing import Any

import broken_envs
import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

from smrl.envs.environment import EnvironmentFault
from smrl.envs.make import make
from smrl.envs.pad import PadObservations
from smrl.errors import SmrlError


class Square(gymnasium.Env[Any, Any]):
    """Observes integers on two axes; keeps the arrays that it returned."""

    observation_space = Box(-5, 7, (2, 3), np.int64)
    action_space = Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return np.arange(6).reshape(2, 3), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return -np.ones((2, 3), np.int64), 1.0, False, True, {}


def test_the_papers_ant_observes_111_numbers() -> None:
    """27 as Ant-v4 has them, then the 84 contact forces of Ant-v2, which were always zero."""
    padded, bare = make("Ant-v4", pad_observations=84), make("Ant-v4")
    assert (bare.spec.obs.shape, padded.spec.obs.shape) == ((27,), (111,))
    assert padded.spec.action == bare.spec.action
    action = np.full(8, 0.3, np.float32)
    for _ in range(3):
        seen, wanted = (env.reset(5) for env in (padded, bare))
        for _ in range(4):
            np.testing.assert_array_equal(seen, np.concatenate([wanted, np.zeros(84, np.float32)]))
            (seen, *others), (wanted, *same) = padded.step(action), bare.step(action)
            assert others == same
    padded.close()
    bare.close()


def test_any_box_is_padded_behind_its_numbers() -> None:
    env = PadObservations(Square(), 2)
    assert env.observation_space == Box(np.array([-5] * 6 + [0, 0]), np.array([7] * 6 + [0, 0]), dtype=np.int64)
    assert env.observation_space.contains(env.reset(seed=0)[0])
    environment = make(Square, pad_observations=2)
    assert environment.spec.obs.shape == (8,)
    assert environment.reset(0).tolist() == [0, 1, 2, 3, 4, 5, 0, 0]
    obs, reward, terminated, truncated = environment.step(np.zeros(1, np.float32))
    assert (obs.tolist(), reward, terminated, truncated) == ([-1] * 6 + [0, 0], 1.0, False, True)


def test_padding_is_said_and_comes_after_flattening() -> None:
    environment = make(broken_envs.Entries, action_repeat=2, max_episode_steps=5, pad_observations=3)
    bare = make(broken_envs.Entries, action_repeat=2, max_episode_steps=5)
    assert environment.notes == (*bare.notes, "3 zeros are appended to the observations of Entries")
    assert environment.reset(2).tolist() == [*bare.reset(2).tolist(), 0, 0, 0]
    assert make(Square).notes == ()


def test_a_wrapped_environment_can_be_made_again_from_its_spec() -> None:
    env = PadObservations(gymnasium.make("Pendulum-v1"), 4)
    assert env.spec is not None
    again = gymnasium.make(env.spec)
    assert again.observation_space == env.observation_space
    env.close()
    again.close()


def test_images_are_not_padded() -> None:
    closed: list[bool] = []

    class Pictures(broken_envs.Image):
        def close(self) -> None:
            closed.append(True)

    with pytest.raises(SmrlError, match=r"no zeros can be appended to the images .*: leave pad_observations out"):
        make(Pictures, pad_observations=1)
    assert closed


@pytest.mark.parametrize("kind", [broken_envs.NanObservation, broken_envs.WrongKind, broken_envs.Raises])
def test_faults_are_still_one_sentence(kind: Any) -> None:
    environment = make(kind, pad_observations=3)
    environment.reset(0)
    with pytest.raises(EnvironmentFault, match=kind.__name__) as caught:  # noqa: PT012
        for _ in range(10):
            environment.step(np.zeros(1, np.float32))
    assert "\n" not in str(caught.value)
