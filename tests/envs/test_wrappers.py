"""Frame stacks with lives, action repeat, and zeros appended to observations."""

from typing import Any

import broken_envs
import gymnasium
import numpy as np
import pytest
from broken_envs import Image, Toy
from gymnasium.spaces import Box
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import TimeLimit

from smrl.envs.environment import Environment, EnvironmentFault
from smrl.envs.make import make
from smrl.envs.wrappers import NEW_LIFE, ActionRepeat, FrameStack, append_zeros
from smrl.errors import SmrlError
from smrl.types import ArraySpec, Spec


class Numbered(gymnasium.Env[Any, Any]):
    """Images filled with their own number; every fifth step loses a life, the twelfth ends the game."""

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
    """Return the numbers of the images in a stack."""
    numbers = obs[0, 0, ::2].tolist()
    np.testing.assert_array_equal(obs, np.concatenate([np.full((2, 3, 2), n, np.uint8) for n in numbers], axis=-1))
    return [int(number) for number in numbers]


def test_stack_holds_the_last_images_of_a_life() -> None:
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


def test_time_limit_ends_the_episode_despite_new_life() -> None:
    environment = make(lambda: TimeLimit(Numbered(), 5))
    environment.reset(0)
    ends = [(environment.step(np.array(0))[2:], environment.over) for _ in range(5)]
    assert ends[-2:] == [((False, False), False), ((True, True), True)]


def test_stacks_are_copies() -> None:
    environment = make(lambda: FrameStack(Image(), 2))
    seen = [environment.reset(1), *(environment.step(np.ones(1, np.float32))[0] for _ in range(3))]
    again = [environment.reset(1), *(environment.step(np.ones(1, np.float32))[0] for _ in range(3))]
    np.testing.assert_array_equal(seen, again)
    assert len({obs.tobytes() for obs in seen}) == 4


@pytest.mark.parametrize("options", [{"action_repeat": 2}, {"max_episode_steps": 50}])
def test_inner_stack_counts_as_one_image(options: dict[str, int]) -> None:
    """An outer wrapper may skip frames, so that consecutive stacks do not share all frames but one."""
    assert make(lambda: FrameStack(Numbered(), 3), **options).spec.obs == ArraySpec((2, 3, 6), "uint8", 1)  # type: ignore[arg-type]


def test_vectors_are_not_stacks_of_images() -> None:
    assert Environment(FrameStack(Toy(), 3), "toy").spec.obs == ArraySpec((6,))


def test_info_may_be_none() -> None:
    class Silent(Numbered):
        def step(self, action: Any) -> Any:
            return *super().step(action)[:4], None

    environment = make(Silent)
    environment.reset(0)
    for _ in range(5):
        environment.step(np.array(0))
    assert environment.over


@pytest.mark.filterwarnings("ignore:.*WARN")  # that it is a wrapper
def test_gymnasium_checker_passes() -> None:
    check_env(FrameStack(Image(), 3), skip_render_check=True)
    spec = FrameStack(gymnasium.make("smrl.envs.suites.catch:smrl/Catch-v0"), 2).spec
    assert spec is not None
    assert gymnasium.make(spec).observation_space.shape == (10, 10, 2)


class Counting(Toy):
    """Rewards 1, 2, 3, …; the episode ends at step ``at``."""

    metadata = {"render_modes": [], "render_fps": 60}  # noqa: RUF012

    def __init__(self, at: int, terminates: bool) -> None:
        super().__init__(at)
        self.terminates = terminates

    def step(self, action: Any) -> Any:
        assert self.steps < self.at
        obs, *_ = super().step(action)
        ends = (self.terminates, not self.terminates) if self.due else (False, False)
        return obs, self.steps, *ends, {"step": self.steps}


@pytest.mark.parametrize("terminates", [True, False])
def test_action_repeat_sums_rewards(terminates: bool) -> None:
    env = ActionRepeat(Counting(10, terminates), 4)
    end = (terminates, not terminates)
    for _ in range(2):
        env.reset(seed=0)
        steps = []
        for _ in range(3):
            *_, reward, terminated, truncated, info = env.step(np.zeros(1))
            steps.append((reward, terminated, truncated, info))
        assert steps == [
            (1 + 2 + 3 + 4, False, False, {"step": 4, "frames": 4}),
            (5 + 6 + 7 + 8, False, False, {"step": 8, "frames": 4}),
            (9 + 10, *end, {"step": 10, "frames": 2}),
        ]
    assert env.metadata["render_fps"] == 15
    assert env.unwrapped.metadata["render_fps"] == 60


def test_action_repeat_must_be_positive() -> None:
    with pytest.raises(SmrlError, match="an action is done at least once, not 0 times"):
        ActionRepeat(Toy(), 0)


class Square(gymnasium.Env[Any, Any]):
    """Observe integers on two axes."""

    observation_space = Box(-5, 7, (2, 3), np.int64)
    action_space = Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return np.arange(6).reshape(2, 3), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return -np.ones((2, 3), np.int64), 1.0, False, True, {}


def test_padded_ant_observes_111_numbers() -> None:
    """27 numbers of Ant-v4, then 84 contact forces of Ant-v2, which were always zero."""
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


def test_padding_flattens_boxes() -> None:
    env = append_zeros(Square(), 2)
    assert env.observation_space == Box(np.array([-5] * 6 + [0, 0]), np.array([7] * 6 + [0, 0]), dtype=np.int64)
    assert env.observation_space.contains(env.reset(seed=0)[0])
    environment = make(Square, pad_observations=2)
    assert environment.spec.obs.shape == (8,)
    assert environment.reset(0).tolist() == [0, 1, 2, 3, 4, 5, 0, 0]
    obs, reward, terminated, truncated = environment.step(np.zeros(1, np.float32))
    assert (obs.tolist(), reward, terminated, truncated) == ([-1] * 6 + [0, 0], 1.0, False, True)


def test_padding_follows_flattening_and_leaves_a_note() -> None:
    environment = make(broken_envs.Entries, action_repeat=2, max_episode_steps=5, pad_observations=3)
    bare = make(broken_envs.Entries, action_repeat=2, max_episode_steps=5)
    flattened, padded = environment.notes
    assert bare.notes == (flattened,)
    assert padded.what == "3 zeros are appended to the observations of Entries"
    assert environment.reset(2).tolist() == [*bare.reset(2).tolist(), 0, 0, 0]
    assert make(Square).notes == ()


def test_padded_spec_makes_the_same_environment() -> None:
    env = append_zeros(gymnasium.make("Pendulum-v1"), 4)
    assert env.spec is not None
    again = gymnasium.make(env.spec)
    assert again.observation_space == env.observation_space
    env.close()
    again.close()


def test_images_cannot_be_padded() -> None:
    closed: list[bool] = []

    class Pictures(broken_envs.Image):
        def close(self) -> None:
            closed.append(True)

    with pytest.raises(SmrlError, match=r"zeros cannot be appended to the images .*: leave pad_observations out"):
        make(Pictures, pad_observations=1)
    assert closed


@pytest.mark.parametrize("kind", [broken_envs.NanObservation, broken_envs.WrongKind, broken_envs.Raises])
def test_fault_messages_with_padding(kind: Any) -> None:
    environment = make(kind, pad_observations=3)
    environment.reset(0)
    with pytest.raises(EnvironmentFault, match=kind.__name__) as caught:  # noqa: PT012
        for _ in range(10):
            environment.step(np.zeros(1, np.float32))
    assert "\n" not in str(caught.value)
