"""The rules of Catch, the small task with images."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from smrl.envs import check as checking
from smrl.envs.make import make
from smrl.envs.suites.catch import Catch
from smrl.types import ArraySpec, Continuous, Discrete, Spec


def places(image: np.ndarray) -> list[tuple[int, int]]:
    """Return rows and columns of the bright pixels."""
    assert set(image.ravel().tolist()) == {0, 255}
    return [(int(row), int(column)) for row, column, _ in np.argwhere(image)]


@pytest.mark.parametrize("seed", range(20))
def test_following_the_ball_catches_it(seed: int) -> None:
    environment = make("smrl/Catch-v0")
    assert (environment.name, environment.spec) == ("smrl/Catch-v0", Spec(ArraySpec((10, 10, 1), "uint8"), Discrete(3)))
    obs, rewards = environment.reset(seed), list[float]()
    assert places(obs)[1] == (9, 5)
    while not environment.over:
        (row, ball), (bottom, paddle) = places(obs)
        assert (row, bottom) == (len(rewards), 9)
        obs, reward, terminated, truncated = environment.step(np.array(1 + np.sign(ball - paddle)))
        rewards.append(reward)
        assert (terminated, truncated) == (environment.over, False)
    assert rewards == [0.0] * 8 + [1.0]
    assert places(obs) == [(9, ball)]


@pytest.mark.parametrize("seed", range(5))
def test_continuous_actions_are_rounded(seed: int) -> None:
    """Rounded actions make the two tasks the same."""
    one, other = make("smrl/Catch-v0"), make("smrl/CatchContinuous-v0")
    assert other.spec == Spec(ArraySpec((10, 10, 1), "uint8"), Continuous(1, (-1.0,), (1.0,), (1,)))
    np.testing.assert_array_equal(one.reset(seed), other.reset(seed))
    numbers = np.random.default_rng(seed).uniform(-1, 1, 9).astype(np.float32)
    for number in numbers:
        step = one.step(np.array(1 + (number > 0.5) - (number < -0.5)))
        for left, right in zip(step, other.step(np.array([number])), strict=True):
            np.testing.assert_array_equal(left, right)


def test_fixed_paddle_misses_most_balls() -> None:
    environment, totals = make("smrl/Catch-v0"), list[float]()
    for seed in range(300):
        environment.reset(seed)
        totals.append(sum(environment.step(np.array(0))[1] for _ in range(9)))
    assert np.mean(np.array(totals) == 1) == pytest.approx(0.1, abs=0.05), "the ball falls into the first column"
    assert set(totals) == {-1.0, 1.0}


def test_checks_and_render() -> None:
    check_env(Catch(), skip_render_check=True)
    warned = [finding.what for finding in checking.check("smrl/Catch-v0") if finding.level != "note"]
    # The check cannot know that all episodes of Catch should have the same length.
    assert [what.split(" episodes ")[1] for what in warned] == ["terminated at step 9"]
    environment = make("smrl/Catch-v0", render_mode="rgb_array")
    obs, picture = environment.reset(3), environment.render()
    assert (picture.shape, picture.dtype) == ((160, 160, 3), np.uint8)
    np.testing.assert_array_equal(picture[8::16, 8::16], np.repeat(obs, 3, axis=2))
