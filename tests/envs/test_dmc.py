import hashlib
import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import broken_envs
import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from smrl.envs import check as checking
from smrl.envs.catalogue import canonical
from smrl.envs.environment import EnvironmentFault
from smrl.envs.make import make
from smrl.envs.suites import dmc
from smrl.envs.wrappers import ActionRepeat
from smrl.errors import SmrlError
from smrl.presets import resolve
from smrl.types import Continuous

if importlib.util.find_spec("dm_control") is None:
    pytest.skip("dm_control is an extra: pip install smrl[dmc]", allow_module_level=True)

SUITE = dmc.suite()
TASKS = SUITE.ALL_TASKS

# The paper's tasks: sizes of observation and action, and the authors' action repeat.
COMPARED = {
    "acrobot-swingup": (6, 1, 4),
    "cartpole-balance": (5, 1, 4),
    "cartpole-swingup": (5, 1, 4),
    "cartpole-swingup-sparse": (5, 1, 4),
    "cheetah-run": (17, 6, 4),
    "cup-catch": (8, 2, 4),
    "finger-spin": (9, 2, 2),
    "finger-turn-easy": (12, 2, 2),
    "finger-turn-hard": (12, 2, 2),
    "fish-swim": (24, 5, 4),
    "fish-upright": (21, 5, 4),
    "hopper-hop": (15, 4, 4),
    "hopper-stand": (15, 4, 4),
    "quadruped-run": (78, 12, 4),
    "quadruped-walk": (78, 12, 4),
    "reacher-easy": (6, 2, 4),
    "reacher-hard": (6, 2, 4),
    "walker-run": (24, 6, 2),
    "walker-stand": (24, 6, 2),
    "walker-walk": (24, 6, 2),
}

PATHS = [str(Path(__file__).parent), str(Path(broken_envs.__file__).parent)]  # let other processes import this module
DIGEST = """
import sys
from test_dmc import digest
print(*map(digest, sys.argv[1:]))
"""


def actions(env: gymnasium.Env[Any, Any], count: int) -> Iterator[np.ndarray]:
    space, draw = env.action_space, np.random.default_rng(0)
    assert isinstance(space, gymnasium.spaces.Box)
    return (draw.uniform(space.low, space.high) for _ in range(count))


def roll(env: gymnasium.Env[Any, Any], seed: int | None, count: int) -> list[Any]:
    """Return all results of an environment, observations as bytes."""
    seen = [env.reset(seed=seed)[0].tobytes()]
    for action in actions(env, count):
        obs, *rest, _ = env.step(action)
        seen.append((obs.tobytes(), *rest))
    return seen


def digest(name: str) -> str:
    return hashlib.sha256(repr(roll(dmc.make(name), 3, 200)).encode()).hexdigest()


def python(code: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code in another process without a screen and with all warnings."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM"):
        inherited.pop(name, None)
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", code, *words],
        env=inherited | {"PYTHONPATH": os.pathsep.join(PATHS)} | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )


def simulator(domain: str, task: str) -> Any:
    """Load dm_control's own environment."""
    with dmc._no_model_warnings():
        return SUITE.load(domain, task, task_kwargs={"random": 0})


def through_shimmy(domain: str, task: str) -> gymnasium.Env[Any, Any]:
    importlib.import_module("shimmy")
    with dmc._no_model_warnings():
        return gymnasium.make(f"dm_control/{domain}-{task}-v0", disable_env_checker=True)


def test_names_of_all_tasks() -> None:
    importlib.import_module("shimmy")
    for domain, task in TASKS:
        by_id = f"dm_control/{domain}-{task}-v0"
        assert by_id in gymnasium.registry
        short = f"dmc/{domain}-{task}"
        for name in (by_id, by_id[:-3], short, short.replace("_", "-"), short.replace("dmc/", "dmc-pixels/")):
            assert dmc.find(name) == (domain, task)
        for name in (by_id, by_id[:-3], short.replace("_", "-"), short.replace("-", "_"), short):
            assert canonical(name) == short  # also a domain that a later dm_control adds must be in the table
        assert canonical(f"my_module:dmc-pixels/{domain}_{task}") == f"my_module:dmc-pixels/{domain}-{task}"
    assert len(dmc.names()) == len(set(dmc.names())) == len(TASKS)
    assert dmc.find("dmc/cup-catch") == dmc.find("dmc/ball_in_cup-catch") == ("ball_in_cup", "catch")
    assert dmc.find("dmc/cartpole-swingup-sparse") == dmc.find("dmc/cartpole-swingup_sparse")
    others = [id for id in gymnasium.registry if id.startswith("dm_control/") and dmc.find(id) is None]
    assert "dm_control/stack_2_bricks_features-v0" in others
    assert list(map(canonical, others)) == others
    assert {"dmc/point_mass-easy", "dmc/humanoid_CMU-run"} <= set(dmc.names())
    assert dmc.find("Hopper-v4") is None


WRONG = [
    ("dmc/cheeta-run", "did you mean dmc/cheetah-run?"),
    ("dmc/cup-cacth", "did you mean dmc/cup-catch?"),
    ("dmc/humanoid_cmu-run", "did you mean dmc/humanoid_CMU-run?"),
    ("dmc/walker-walk-v0", "did you mean dmc/walker-walk?"),
    ("dm_control/walker-wolk-v0", "did you mean dm_control/walker-walk-v0?"),
    ("dm_control/walker-walk-v7", "did you mean dm_control/walker-walk-v0?"),
    ("dmc/" + 30 * "?", "the domains are acrobot, ball_in_cup, cartpole,"),
]


@pytest.mark.parametrize(("name", "message"), WRONG)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(SmrlError) as caught:
        dmc.make(name)
    assert str(caught.value).startswith(f"there is no environment {name!r}; ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    with pytest.raises(SmrlError, match=r'dmc/cheetah-run needs an extra .*: pip install "smrl\[dmc\]"'):
        dmc.make("dmc/cheetah-run")


@pytest.mark.parametrize("name", COMPARED)
def test_sizes_and_repeats_equal_the_papers(name: str) -> None:
    environment = make(f"dmc/{name}")
    domain, task = dmc.find(f"dmc/{name}") or ("", "")
    repeat = resolve("sac", f"dmc/{name}").action_repeat
    action = environment.spec.action
    assert isinstance(action, Continuous)
    assert (*environment.spec.obs.shape, action.size, repeat) == COMPARED[name]
    assert repeat == resolve("sac", f"dm_control/{domain}-{task}-v0").action_repeat
    assert environment.name == f"dmc/{domain}-{task}"
    assert environment.reset(0).dtype == np.float32


FIRST = dict(reversed(TASKS))  # of each domain; the others are left to `make test-slow`


@pytest.mark.parametrize(
    ("domain", "task"),
    [pytest.param(*pair, marks=[pytest.mark.slow] * (pair[1] != FIRST[pair[0]] or pair[0] == "dog")) for pair in TASKS],
)
def test_episode_is_determined_by_seed_and_actions(domain: str, task: str) -> None:
    count = 10 if domain == "dog" else 30
    fresh, used = dmc.make(f"dmc/{domain}-{task}"), dmc.make(f"dm_control/{domain}-{task}-v0")
    first = roll(fresh, 3, count)
    for seed in (1, None, 2):
        assert roll(used, seed, count)[0] != first[0]
    assert roll(used, 3, count) == first
    assert roll(fresh, None, count)[0] != first[0]
    assert fresh.spec == used.spec
    assert fresh.spec is not None
    assert fresh.spec.max_episode_steps == 1000
    assert isinstance(fresh.action_space, gymnasium.spaces.Box)
    assert np.abs([fresh.action_space.low, fresh.action_space.high]).max() <= 10


def test_episodes_repeat_in_another_silent_process() -> None:
    names = ("dmc/cheetah-run", "dm_control/quadruped-escape-v0", "dmc/fish-swim", "dmc/lqr-lqr_6_2")
    other = python(DIGEST, *names)
    assert other.stdout.split() == [digest(name) for name in names]
    assert other.stderr == ""


def test_seeds() -> None:
    env, other = dmc.make("dmc/reacher-easy"), dmc.make("dmc/reacher-easy")
    assert roll(env, None, 1)[0] != roll(other, None, 1)[0]
    starts = [roll(env, seed, 1)[0] for seed in (0, 1, 2**32 - 1, 2**32, 2**33, 2**100)]
    assert len(set(starts)) == len(starts)
    assert starts == [roll(other, seed, 1)[0] for seed in (0, 1, 2**32 - 1, 2**32, 2**33, 2**100)]


@pytest.mark.parametrize(
    ("domain", "task", "count"),
    [
        ("cheetah", "run", 1000),
        ("ball_in_cup", "catch", 1000),
        ("finger", "turn_hard", 200),
        ("fish", "swim", 200),
        ("humanoid", "run", 50),
        ("manipulator", "bring_ball", 50),
        ("point_mass", "hard", 200),
        ("quadruped", "fetch", 50),
        ("walker", "walk", 200),
    ],
)
def test_steps_equal_shimmys(domain: str, task: str, count: int) -> None:
    ours, shimmys = dmc.make(f"dmc/{domain}-{task}"), through_shimmy(domain, task)
    assert ours.action_space == shimmys.action_space
    expected = shimmys.reset(seed=5)[0]
    obs = ours.reset(seed=5)[0]
    for action in actions(ours, count):
        # Not FlattenObservation: Gymnasium's Dict spaces are sorted by name, which is not dm_control's order.
        np.testing.assert_array_equal(obs, np.concatenate([np.ravel(entry) for entry in expected.values()]))
        expected, *others, _ = shimmys.step(action)
        obs, *rest, _ = ours.step(action)
        assert rest == others
    assert rest[1:] == [False, count == 1000]


@pytest.mark.parametrize("name", ["dmc/cartpole-swingup", "dm_control/finger-spin-v0", "dmc/lqr-lqr_2_1"])
def test_episodes_are_truncated_after_1000_frames(name: str) -> None:
    env = dmc.make(name)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(1))
    for _ in range(2):
        ends = [tuple(result[2:]) for result in roll(env, 0, 1000)[1:]]
        assert ends == [(False, False)] * 999 + [(False, True)]
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(np.zeros(1))


def test_lqr_terminates_at_the_goal() -> None:
    env: Any = dmc.make("dmc/lqr-lqr_2_1")
    env.reset(seed=0)
    np.testing.assert_array_equal(env.action_space.high, [10])
    with env._physics.reset_context():  # move it to the goal
        env._physics.data.qpos[:] = 0
    assert env.step(np.zeros(1))[2:4] == (True, False)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(1))


@pytest.mark.parametrize("task", ["lqr_2_1", "lqr_6_2"])
def test_lqr_bounds_contain_optimal_actions(task: str) -> None:
    env: Any = dmc.make(f"dmc/lqr-{task}")
    _, gain, _ = importlib.import_module("dm_control.suite.lqr_solver").solve(env._env)
    largest = []
    for seed in range(20):
        state = env.reset(seed=seed)[0]
        for _ in range(30):
            largest.append(np.abs(gain @ state).max())
            state = env.step(gain @ state)[0]
    assert 1 < max(largest) < env.action_space.high.min() == 10


@pytest.mark.filterwarnings("ignore:The 'warn' function is deprecated")  # by which dm_control logs
@pytest.mark.parametrize("value", [np.nan, 1e30])
def test_invalid_states_raise_as_dm_control(value: float, in_tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ours: Any = dmc.make("dmc/lqr-lqr_2_1")
    bare = simulator("lqr", "lqr_2_1")
    ours.reset(seed=0)
    bare.reset()
    messages = []
    for env in (bare, ours):
        with pytest.raises(RuntimeError) as caught:
            env.step(np.array([value]))
        messages.append((type(caught.value), str(caught.value)))
    assert messages[0] == messages[1]
    ours.reset(seed=0)
    ours.step(np.zeros(1))  # earlier warnings do not count
    with ours._physics.suppress_physics_errors():
        ours.step(np.array([value]))
    assert messages[0][1] in caplog.text
    environment = make("dmc/cheetah-run")
    environment.reset(0)
    with pytest.raises(EnvironmentFault, match="not the environment but the policy has diverged"):
        environment.step(np.full(6, np.nan, np.float32))
    assert list(in_tmp_path.iterdir()) == []  # no MUJOCO_LOG.TXT


@pytest.mark.filterwarnings("ignore:.*WARN")  # that observations have no bounds
@pytest.mark.parametrize("name", ["cheetah-run", "quadruped-escape", "finger-turn_easy", "lqr-lqr_6_2"])
def test_gymnasium_checker_passes(name: str) -> None:
    check_env(dmc.make(f"dmc/{name}"), skip_render_check=True)
    check_env(ActionRepeat(dmc.make(f"dmc/{name}"), 4), skip_render_check=True)


def test_check_env_has_only_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "SECONDS", 60.0)  # enough for all steps on a busy machine
    findings = checking.check("dmc/cheetah-run")
    assert [finding.level for finding in findings] == ["note"] * 3
    assert "5 episodes of 1000 steps, 0 terminated" in findings[1].what


def test_spec_makes_the_same_environment() -> None:
    env = dmc.make("dmc/fish-upright")
    assert env.spec is not None
    assert roll(gymnasium.make(env.spec), 1, 20) == roll(env, 1, 20)
    repeated = ActionRepeat(env, 3)
    assert repeated.spec is not None
    assert roll(gymnasium.make(repeated.spec), 1, 20) == roll(repeated, 1, 20)


def can_draw() -> bool:
    return importlib.import_module("dm_control._render").BACKEND is not None


@pytest.mark.skipif(not can_draw(), reason="no OpenGL")
def test_render(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = make("dmc/cheetah-run", render_mode="rgb_array")
    environment.reset(0)
    before = environment.render()
    for _ in range(20):
        environment.step(np.ones(6, np.float32))
    assert before.shape == (240, 320, 3)
    assert before.dtype == np.uint8
    assert not np.array_equal(before, environment.render())
    assert environment.env.metadata["render_fps"] == 100
    environment.close()

    terrain = dmc.make("dmc/quadruped-escape", render_mode="rgb_array")
    assert roll(terrain, 0, 5) == roll(dmc.make("dmc/quadruped-escape"), 0, 5)
    assert terrain.render().shape == (240, 320, 3)  # type: ignore[union-attr]
    terrain.close()

    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    shown = dmc.make("dmc/cartpole-balance", render_mode="human")
    shown.reset(seed=0)
    shown.step(np.zeros(1))
    shown.close()


def test_invalid_render_modes() -> None:
    env = dmc.make("dmc/cheetah-run")
    assert env.render() is None
    with pytest.raises(ValueError, match="rgb_array or none, not 'ansi'"):
        dmc.make("dmc/cheetah-run", render_mode="ansi")


@pytest.mark.skipif(not can_draw(), reason="no OpenGL")
def test_rendering_prints_nothing() -> None:
    code = """
from smrl.envs.suites import dmc
env = dmc.make("dmc/walker-walk", render_mode="rgb_array")  # never closed
env.reset(seed=0)
print(env.render().mean() > 10)
"""
    done = python(code)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_training_without_renderer() -> None:
    # With this variable dm_control cannot use EGL, and it fails if OSMesa is not installed.
    done = python(DIGEST, "dmc/quadruped-escape", PYOPENGL_PLATFORM="osmesa")
    assert (done.stdout.strip(), done.stderr) == (digest("dmc/quadruped-escape"), "")


def test_invalid_backend() -> None:
    code = """
import sys
from smrl.envs.suites import dmc
assert "dm_control" not in sys.modules
try:
    dmc.make("dmc/walker-walk")
except dmc.SmrlError as error:
    print(error)
"""
    messages = python(code, MUJOCO_GL="opengl").stdout
    reason = "RuntimeError: Environment variable MUJOCO_GL must be one of"
    assert messages.startswith(f"the module 'dm_control._render' cannot be imported ({reason}")
    assert messages.endswith("choose another MUJOCO_GL than 'opengl': egl, osmesa, glfw or off\n")


def test_action_repeat_equals_repeated_steps() -> None:
    bare, repeated = dmc.make("dmc/reacher-easy"), ActionRepeat(dmc.make("dmc/reacher-easy"), 3)
    repeated.reset(seed=0)
    bare.reset(seed=0)
    lengths = []
    for action in actions(bare, 334):
        obs, reward, _, truncated, info = repeated.step(action)
        lengths.append(info["frames"])
        results = [bare.step(action) for _ in range(info["frames"])]
        assert reward == sum(float(result[1]) for result in results)
        np.testing.assert_array_equal(obs, results[-1][0])
        assert truncated == results[-1][3]
    assert lengths == [3] * 333 + [1]
    assert truncated
