"""The DeepMind Control suite observed in images."""

import hashlib
import importlib
from collections.abc import Iterator
from ctypes.util import find_library
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from test_dmc import TASKS, python

from smrl.envs.environment import Environment
from smrl.envs.make import make
from smrl.envs.suites import dmc
from smrl.envs.suites.dmc import Pixels
from smrl.envs.wrappers import ActionRepeat
from smrl.errors import SmrlError
from smrl.settings import make_settings
from smrl.types import ArraySpec, Continuous

if importlib.import_module("dm_control._render").BACKEND is None:
    pytest.skip("needs EGL or OSMesa", allow_module_level=True)

DIGEST = """
import sys
from test_dmc_pixels import digest
print(digest(sys.argv[1]))
"""


def roll(environment: Environment, seed: int, count: int) -> Iterator[np.ndarray]:
    yield environment.reset(seed)
    for action in environment.spec.action.random(np.random.default_rng(seed), count):
        yield environment.step(action)[0]


def digest(name: str) -> str:
    environment = make(name, action_repeat=2, image_size=40)
    bits = b"".join(obs.tobytes() for obs in roll(environment, 3, 6))
    environment.close()
    return hashlib.sha256(bits).hexdigest()


def test_observations_are_stacks_of_three_images() -> None:
    environment = make("dmc-pixels/cup-catch", action_repeat=2)
    bare = dmc.make("dmc/ball_in_cup-catch")
    assert environment.name == "dmc-pixels/ball_in_cup-catch"
    assert environment.spec.obs == ArraySpec((84, 84, 9), "uint8", 3)
    assert isinstance(environment.spec.action, Continuous)
    assert environment.spec.action.size == 2
    drawn = Pixels(bare)
    images = [drawn.reset(seed=5)[0]] * 3
    np.testing.assert_array_equal(environment.reset(5), np.concatenate(images, axis=-1))
    assert images[0].std() > 10
    for action in environment.spec.action.random(np.random.default_rng(0), 10):
        obs, reward, *_ = environment.step(action)
        rewards = [float(bare.step(action)[1]) for _ in range(2)]
        images.append(drawn.observation(None))
        np.testing.assert_array_equal(obs, np.concatenate(images[-3:], axis=-1))
        assert reward == sum(rewards)
    assert len({image.tobytes() for image in images}) == 11
    environment.close()
    bare.close()


def test_an_action_repeat_draws_one_image() -> None:
    environment = make("dmc-pixels/cartpole-balance", action_repeat=4, image_size=30)
    assert isinstance(environment.env.env, Pixels)  # type: ignore[attr-defined]
    assert isinstance(environment.env.env.env, ActionRepeat)  # type: ignore[attr-defined]
    environment.reset(0)
    ends = [environment.step(np.zeros(1, np.float32))[3] for _ in range(250)]
    assert ends == [False] * 249 + [True]
    environment.close()


@pytest.mark.parametrize("name", ["dmc-pixels/walker-walk", "dmc-pixels/quadruped-escape"])
def test_episode_is_determined_by_seed_and_actions(name: str) -> None:
    first = digest(name)
    other = make(name, action_repeat=2, image_size=40)
    for seed in (4, 5):
        list(roll(other, seed, 3))
    again = b"".join(obs.tobytes() for obs in roll(other, 3, 6))
    other.close()
    assert hashlib.sha256(again).hexdigest() == first
    done = python(DIGEST, name)
    assert (done.stdout.strip(), done.stderr) == (first, "")


@pytest.mark.parametrize(("domain", "task"), dict(TASKS).items())
def test_every_domain_renders(domain: str, task: str) -> None:
    environment = make(f"dmc-pixels/{domain}-{task}", image_size=32)
    obs = environment.reset(0)
    assert (obs.shape, environment.name) == ((32, 32, 9), f"dmc-pixels/{domain}-{task}")
    assert obs.std() > 2, "the image is not empty"
    environment.close()


def test_camera_equals_drq_v2s() -> None:
    """It is the first camera of a task, and the third of the quadruped."""
    for name, camera in {"quadruped-walk": 2, "walker-walk": 0}.items():
        environment, bare = make(f"dmc-pixels/{name}"), dmc.make(f"dmc/{name}", render_mode="rgb_array")
        bare.reset(seed=0)
        wanted = bare._physics.render(84, 84, camera_id=camera)  # type: ignore[attr-defined]
        difference = np.abs(environment.reset(0)[..., :3].astype(float) - wanted)
        assert np.median(difference) < 15, "images differ only in shadows"
        environment.close()
        bare.close()


def test_shadows_option() -> None:
    images = []
    for shadows in (False, True):
        env = Pixels(dmc.make("dmc/walker-walk", render_mode="rgb_array"), shadows=shadows)
        images.append(env.reset(seed=0)[0].astype(float))
        assert env.spec is not None
        env.close()
    assert (np.abs(images[0] - images[1]) > 5).any()


@pytest.mark.parametrize("size", [1, 84, 700])
def test_image_sizes(size: int) -> None:
    """Some sizes are larger than the buffer that the model requests."""
    environment = make("dmc-pixels/cartpole-swingup", image_size=size)
    assert environment.reset(0).shape == (size, size, 9)
    environment.close()


def test_render_is_independent_of_image_size() -> None:
    environment = make("dmc-pixels/cheetah-run", render_mode="rgb_array", image_size=20)
    environment.reset(0)
    before = environment.render()
    assert before.shape == (240, 320, 3)
    for _ in range(10):
        obs = environment.step(np.ones(6, np.float32))[0]
    assert obs.shape == (20, 20, 9)
    assert not np.array_equal(before, environment.render())
    environment.close()


def test_unknown_names() -> None:
    with pytest.raises(
        SmrlError, match=r"no environment 'dmc-pixels/walkr-walk'; did you mean dmc-pixels/walker-walk\?"
    ):
        make("dmc-pixels/walkr-walk")
    with pytest.raises(SmrlError, match=r"no environment 'dmc-pixels/cup-cacth'; did you mean dmc-pixels/cup-catch\?"):
        make("dmc-pixels/cup-cacth")


@pytest.mark.parametrize("env", ["dmc/walker-walk", "Pendulum-v1", "smrl/Catch-v0"])
def test_image_size_needs_drawn_images(env: str) -> None:
    with pytest.raises(SmrlError, match="has no images whose size could be chosen: leave image_size out"):
        make(env, image_size=48)


def test_image_size_setting() -> None:
    settings = make_settings("sac", "dmc-pixels/walker-walk", image_size=48)
    assert settings.env_options["image_size"] == 48
    with pytest.raises(SmrlError, match="image_size must be a whole number of at least 1 or None, not 0"):
        make_settings("sac", "dmc-pixels/walker-walk", image_size=0)


def test_images_cannot_be_padded() -> None:
    message = "zeros cannot be appended to the images that dmc-pixels/walker-walk observes"
    with pytest.raises(SmrlError, match=message):
        make("dmc-pixels/walker-walk", pad_observations=3)


DRAW = """
import sys
from smrl.envs.make import make
from smrl.envs.suites import dmc
from smrl.errors import SmrlError
dmc.RENDERERS = tuple(sys.argv[1:])
make("dmc/walker-walk").reset(0)
try:
    environment = make("dmc-pixels/walker-walk", image_size=32)
    print(sys.modules["dm_control._render"].BACKEND, environment.reset(0).std() > 2)
    environment.close()
except SmrlError as error:
    print(error)
"""


def test_error_without_renderer() -> None:
    reason = "cannot draw images (RuntimeError: No OpenGL rendering backend is available.)"
    advice = "install a system renderer (Debian: apt-get install libegl1 libgl1 libosmesa6)"
    done = python(DRAW)
    assert (done.stdout, done.stderr) == (f"{reason}: {advice}\n", "")
    done = python(DRAW, MUJOCO_GL="off")
    assert done.stdout == f"{reason}: choose another MUJOCO_GL than 'off', or {advice}\n"


@pytest.mark.skipif(find_library("OSMesa") is None, reason="needs OSMesa")
def test_first_working_renderer_is_chosen(tmp_path: Path) -> None:
    """OSMesa is used where EGL has no driver, as in a container without a GPU."""
    done = python(DRAW, "egl", "osmesa", __EGL_VENDOR_LIBRARY_DIRS=str(tmp_path))
    assert (done.stdout, done.stderr) == ("osmesa True\n", "")


def test_defaults_equal_drq_v2s() -> None:
    assert (dmc.SIZE, dmc.STACK) == (84, 3)
    env: gymnasium.Env[Any, Any] = Pixels(dmc.make("dmc/walker-walk", render_mode="rgb_array"))
    assert env.observation_space.shape == (84, 84, 3)
    env.close()
