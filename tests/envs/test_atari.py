"""Atari games: preprocessing compared with its definition, and lives."""

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing

from smrl.envs.environment import Environment
from smrl.envs.make import make
from smrl.envs.suites import atari
from smrl.errors import SmrlError
from smrl.types import ArraySpec, Discrete, Spec

if importlib.util.find_spec("ale_py") is None:
    pytest.skip("ale_py is an extra: pip install smrl[atari]", allow_module_level=True)


def area(image: np.ndarray, size: int) -> np.ndarray:
    """Average over areas by dividing both images into the same small pixels."""
    for axis in (0, 1):
        times = np.lcm(image.shape[axis], size) // image.shape[axis]
        image = np.repeat(image, times, axis).astype(np.int64)
    rows, columns = image.shape
    return np.rint(image.reshape(size, rows // size, size, columns // size).mean(axis=(1, 3))).astype(np.uint8)


def act(environment: Environment, count: int, seed: int = 0) -> list[Any]:
    """Return all results of random actions, over several games if one ends early."""
    seen: list[Any] = [(environment.reset(seed).tobytes(), 0.0, False, False, False)]
    for action in environment.spec.action.random(np.random.default_rng(seed), count):
        if environment.over:
            environment.reset(seed := seed + 1)
        obs, *rest = environment.step(action)
        seen.append((obs.tobytes(), *rest, environment.over))
    return seen


@pytest.mark.parametrize("size", [84, 48, 7, 100])
def test_screen_averages_over_areas(size: int) -> None:
    screen = atari.Screen(atari.Game(Emulator(fire=False)), size)
    image = np.random.default_rng(0).integers(0, 256, (210, 160, 1), np.uint8)
    got = screen.observation(image)
    assert got.shape == (size, size, 1)
    np.testing.assert_array_equal(got[..., 0], area(image[..., 0], size), strict=True)


def test_preprocessing_equals_gymnasiums_without_lives_and_fire(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gymnasium's wrapper needs OpenCV only to resize."""
    resize = SimpleNamespace(resize=lambda image, size, interpolation: area(image, size[0]), INTER_AREA=None)
    monkeypatch.setitem(sys.modules, "cv2", resize)
    environment = make("FreewayNoFrameskip-v4")
    assert environment.spec == Spec(ArraySpec((84, 84, 4), "uint8", 4), Discrete(3))
    theirs: gymnasium.Env[Any, Any] = AtariPreprocessing(gymnasium.make("FreewayNoFrameskip-v4"))
    for seed in (0, 1):
        images = [theirs.reset(seed=seed)[0]] * 4
        np.testing.assert_array_equal(environment.reset(seed), np.stack(images, axis=-1))
        for action in environment.spec.action.random(np.random.default_rng(seed), 150):
            obs, *rest = environment.step(action)
            image, *others, _ = theirs.step(action)
            images.append(image)
            np.testing.assert_array_equal(obs, np.stack(images[-4:], axis=-1))
            assert rest == others


class Emulator(gymnasium.Env[Any, Any]):
    """A game of numbered screens that loses a life in every 50th frame, the last of three in the 150th."""

    observation_space = gymnasium.spaces.Box(0, 255, (210, 160), np.uint8)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, fire: bool, limit: int = 10_000, end: int = 150) -> None:
        self.end = end
        self.meanings = ["NOOP", "FIRE" if fire else "UP", "RIGHT", "LEFT"]
        self.limit = limit
        self.pressed: list[int] = []

    def get_action_meanings(self) -> list[str]:
        return self.meanings

    def info(self) -> dict[str, Any]:
        return {"lives": max(0, 3 - len(self.pressed) // 50)}

    def screen(self) -> np.ndarray:
        flickering = 7 * len(self.pressed) % 10
        return np.full((210, 160), 100 + flickering, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.pressed = []
        return self.screen(), self.info()

    def step(self, action: Any) -> Any:
        self.pressed.append(int(action))
        return self.screen(), 2.0, len(self.pressed) >= self.end, len(self.pressed) >= self.limit, self.info()


def test_reset_presses_no_ops_and_fire() -> None:
    emulator = Emulator(fire=True)
    game, counts = atari.Game(emulator), set[int]()
    for seed in range(200):
        game.reset(seed=seed)
        no_ops = len(emulator.pressed) - 8
        assert emulator.pressed == [0] * no_ops + [1] * 4 + [2] * 4
        counts.add(no_ops)
    assert counts == set(range(1, 31))
    emulator.meanings[1] = "UP"
    game = atari.Game(emulator)
    game.reset(seed=0)
    assert set(emulator.pressed) == {0}


def test_step_takes_four_frames_and_the_maximum_of_two() -> None:
    emulator = Emulator(fire=False)
    game = atari.Game(emulator)
    game.reset(seed=0)
    for _ in range(4):
        before = len(emulator.pressed)
        screen, reward, *_ = game.step(3)
        assert emulator.pressed[before:] == [3] * 4
        assert reward == 8.0
        assert screen[0, 0, 0] == 100 + max(7 * (before + 3) % 10, 7 * (before + 4) % 10)


@pytest.mark.parametrize("training", [False, True])
def test_lost_life_terminates_only_in_training(training: bool) -> None:
    emulator = Emulator(fire=True)
    game: Any = atari.Game(emulator)
    environment = Environment(atari.Lives(game) if training else game, "game")
    environment.reset(seed=5)
    began, total = len(emulator.pressed), 0.0
    lost, frames = list[int](), [began]
    while not environment.over:
        _, reward, terminated, truncated = environment.step(np.array(3))
        assert not truncated
        assert reward == np.sign(reward) if training else reward >= 2.0
        total += reward
        frames.append(len(emulator.pressed))
        if frames[-1] - frames[-2] > 4:
            assert terminated == training
            assert emulator.pressed[-12:] == [0] * 4 + [1] * 4 + [2] * 4, "the next life begins as the first did"
            lost.append(len(emulator.pressed) // 50)
        else:
            assert terminated == environment.over
    assert lost == [1, 2]
    assert len(emulator.pressed) == 150
    assert total == (len(frames) - 1 if training else 2.0 * (150 - began))


def test_game_that_ends_frames_after_the_last_life() -> None:
    emulator = Emulator(fire=True, end=170)
    environment = Environment(atari.Lives(atari.Game(emulator)), "game")
    environment.reset(seed=5)
    terminations = 0
    while not environment.over:
        terminations += environment.step(np.array(3))[2]
    assert terminations == 3
    assert set(emulator.pressed[-30:]) == {3}, "no life begins"


def test_game_that_ends_while_a_life_begins() -> None:
    emulator = Emulator(fire=True, limit=55)
    environment = Environment(atari.Lives(atari.Game(emulator)), "game")
    environment.reset(seed=5)
    while not environment.over:
        _, _, terminated, truncated = environment.step(np.array(3))
    assert (terminated, truncated, len(emulator.pressed)) == (False, True, 55)


@pytest.mark.parametrize("name", ["BreakoutNoFrameskip-v4", "ALE/SpaceInvaders-v5"])
@pytest.mark.parametrize("training", [False, True])
def test_game_is_determined_by_seed_and_actions(name: str, training: bool) -> None:
    environment, other = make(name, training=training), make(name, training=training)
    assert environment.spec.obs == ArraySpec((84, 84, 4), "uint8", 4)
    first = act(environment, 250)
    act(other, 20, seed=9)
    assert act(other, 250) == first
    if "Invaders" in name:
        rewards = {reward for _, reward, *_ in first} - {0.0}
        assert rewards == {1.0} if training else min(rewards) >= 5.0
    assert len({hashlib.sha256(obs).digest() for obs, *_ in first}) > 100


def test_evaluation_plays_full_games_unclipped() -> None:
    """With the same seed and actions, games differ only in rewards and terminations."""
    played, learned = (make("BreakoutNoFrameskip-v4", training=training) for training in (False, True))
    pairs = list(zip(act(played, 200), act(learned, 200), strict=True))
    for left, right in pairs:
        assert (left[0], left[3:]) == (right[0], right[3:])
        assert np.sign(left[1]) == right[1]
        assert left[2] == left[4]
    assert sum(right[2] and not right[4] for _, right in pairs) > 3


def test_image_size_and_render() -> None:
    environment = make("PongNoFrameskip-v4", render_mode="rgb_array", image_size=50, action_repeat=2)
    assert environment.reset(0).shape == (50, 50, 4)
    assert environment.render().shape == (210, 160, 3)


def test_unknown_game_and_missing_rom_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SmrlError, match=r"no environment 'PungNoFrameskip-v4'; did you mean PongNoFrameskip-v4\?"):
        make("PungNoFrameskip-v4")
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    message = (
        r"the ROM of PongNoFrameskip-v4 is missing or damaged \(FileNotFoundError.*\): pip install --force-reinstall"
    )
    with pytest.raises(SmrlError, match=message):
        make("PongNoFrameskip-v4")
    (tmp_path / "pong.bin").write_bytes(b"no game")
    with pytest.raises(SmrlError, match=r"the ROM of ALE/Pong-v5 is missing or damaged \(OSError: The hash of pong"):
        make("ALE/Pong-v5")
