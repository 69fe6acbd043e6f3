"""Stacks of images, and lives that end before the game does."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from broken_envs import Image, Toy
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import TimeLimit

from smrl.envs.environment import Environment
from smrl.envs.make import make
from smrl.envs.stack import NEW_LIFE, FrameStack
from smrl.types import ArraySpec, Spec


class Numbered(gymnasium.Env[Any, Any]):
    """Images that are their own numbers; a life is lost in every fifth step, the game in the twelfth."""

    observation_space = gymnasium.spaces.Box(0, 255, (2, 3, 2), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)
    count = 0

    def image(self) -> np.ndarray:
        return np.full((2, 3, 2), self.count, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.count = 100
        return self.image(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        is_lost, is_over = self.count % 5 == 0, self.count == 112
        return self.image(), 0.0, is_lost or is_over, False, {NEW_LIFE: is_lost}


def frames(obs: np.ndarray) -> list[int]:
    """The numbers of the images in a stack."""
    numbers = obs[0, 0, ::2].tolist()
    np.testing.assert_array_equal(obs, np.concatenate([np.full((2, 3, 2), n, np.uint8) for n in numbers], axis=-1))
    return [int(number) for number in numbers]


def test_a_stack_is_of_the_last_images_of_a_life() -> None:
    environment = make(lambda: FrameStack(Numbered(), 3))
    assert environment.spec.obs == ArraySpec((2, 3, 6), "uint8", 3)
    assert Spec.from_json(environment.spec.to_json()) == environment.spec
    for _ in range(2):
        assert frames(environment.reset(0)) == [100, 100, 100]
        stacks, ends = list[list[int]](), list[tuple[bool, ...]]()
        while not environment.over:
            obs, _, terminated, truncated = environment.step(np.array(0))
            stacks.append(frames(obs))
            ends.append((terminated, truncated, environment.over))
        assert stacks[:5] == [[100, 100, 101], [100, 101, 102], [101, 102, 103], [102, 103, 104], [105, 105, 105]]
        assert stacks[-1] == [110, 111, 112]
        assert [index for index, end in enumerate(ends) if end == (True, False, False)] == [4, 9]
        assert ends[-1] == (True, False, True)


def test_a_time_limit_ends_the_episode_whatever_else_does() -> None:
    environment = make(lambda: TimeLimit(Numbered(), 5))
    environment.reset(0)
    ends = [(environment.step(np.array(0))[2:], environment.over) for _ in range(5)]
    assert ends[-2:] == [((False, False), False), ((True, True), True)]


def test_observations_of_a_stack_do_not_change_later() -> None:
    environment = make(lambda: FrameStack(Image(), 2))
    seen = [environment.reset(1), *(environment.step(np.ones(1, np.float32))[0] for _ in range(3))]
    again = [environment.reset(1), *(environment.step(np.ones(1, np.float32))[0] for _ in range(3))]
    np.testing.assert_array_equal(seen, again)
    assert len({obs.tobytes() for obs in seen}) == 4


@pytest.mark.parametrize("options", [{"action_repeat": 2}, {"max_episode_steps": 50}])
def test_a_stack_inside_other_wrappers_is_stored_as_a_whole(options: dict[str, int]) -> None:
    """A wrapper around it may leave frames out, so that the next stack is not this one with a new frame."""
    assert make(lambda: FrameStack(Numbered(), 3), **options).spec.obs == ArraySpec((2, 3, 6), "uint8", 1)  # type: ignore[arg-type]


def test_vectors_are_not_stacks_of_images() -> None:
    assert Environment(FrameStack(Toy(), 3), "toy").spec.obs == ArraySpec((6,))


def test_infos_that_are_none_say_nothing() -> None:
    class Silent(Numbered):
        def step(self, action: Any) -> Any:
            return *super().step(action)[:4], None

    environment = make(Silent)
    environment.reset(0)
    for _ in range(5):
        environment.step(np.array(0))
    assert environment.over


@pytest.mark.filterwarnings("ignore:.*WARN")  # that it is a wrapper
def test_gymnasium_has_no_complaint() -> None:
    check_env(FrameStack(Image(), 3), skip_render_check=True)
    spec = FrameStack(gymnasium.make("smrl.envs.suites.catch:smrl/Catch-v0"), 2).spec
    assert spec is not None
    assert gymnasium.make(spec).observation_space.shape == (10, 10, 2)
