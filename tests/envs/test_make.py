from collections.abc import Callable
from pathlib import Path
from typing import Any

import broken_envs
import gymnasium
import numpy as np
import pytest
from broken_envs import Toy
from gymnasium import spaces
from gymnasium.spaces import Box, Dict, Text, Tuple
from gymnasium.wrappers import FrameStackObservation, NormalizeObservation, NormalizeReward, RecordEpisodeStatistics

from smrl.envs import check as checking
from smrl.envs.environment import EnvironmentFault
from smrl.envs.make import make
from smrl.errors import SmrlError
from smrl.types import ArraySpec, Continuous, Discrete, Entry, Spec

FAR = float(np.finfo(np.float32).max)


class Grid(Toy):
    """Observations of 2×2, actions of 2×1 with different bounds, reward and flags of NumPy types."""

    def __init__(self) -> None:
        low, high = np.array([[0.0], [-3.0]]), np.array([[10.0], [1.0]])
        super().__init__(observations=Box(-20, 20, (2, 2), np.float64), actions=Box(low, high, dtype=np.float64))
        self.got: list[Any] = []

    def observed(self, obs: np.ndarray) -> Any:
        return np.outer(obs, [1, 2])

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.got.append(action)
        obs, reward, *_ = super().step(action)
        return obs, np.float32(reward), np.bool_(True), 0, {}


class Secretive(Toy):
    observation_space = property(lambda self: 1 / 0, lambda self, space: None)


def of_spaces(**given: gymnasium.Space[Any]) -> Callable[[], Toy]:
    return lambda: Toy(5, **given)


def vector(size: int, action: Continuous | Discrete, *entries: Entry) -> Spec:
    return Spec(ArraySpec((size,), "float32"), action, entries)


UNIT = Continuous(1, (-1.0,), (1.0,), (1,))
HOPPER = vector(11, Continuous(3, (-1.0,) * 3, (1.0,) * 3, (3,)))
PENDULUM = vector(3, Continuous(1, (-2.0,), (2.0,), (1,)))


@pytest.mark.parametrize(
    ("env", "name", "spec"),
    [
        ("Pendulum-v1", "Pendulum-v1", PENDULUM),
        ("Hopper-v4", "Hopper-v4", HOPPER),  # Gymnasium warns about its age
        ("broken_envs:Broken/Toy-v0", "Broken/Toy-v0", vector(2, UNIT)),
        ("broken_envs:Toy", "Toy", vector(2, UNIT)),
        ("broken_envs:make_toy", "Toy", vector(2, UNIT)),
        ("broken_envs:Toy.like_this", "Toy", vector(2, UNIT)),
        (Toy, "Toy", vector(2, UNIT)),
        (Grid, "Grid", vector(4, Continuous(2, (0.0, -3.0), (10.0, 1.0), (2, 1), "float64"), Entry((), (2, 2)))),
        (lambda: gymnasium.make("Pendulum-v1"), "Pendulum-v1", PENDULUM),
        ("CartPole-v1", "CartPole-v1", vector(4, Discrete(2))),
        ("Acrobot-v1", "Acrobot-v1", vector(6, Discrete(3))),
        (of_spaces(actions=spaces.Discrete(3, start=-1)), "Toy", vector(2, Discrete(3, -1))),
        (broken_envs.Image, "Image", Spec(ArraySpec((6, 8, 3), "uint8"), UNIT)),
        (broken_envs.Entries, "Entries", vector(4, UNIT, Entry(("place",), (1, 2)), Entry(("speed",), (2,)))),
        (
            *(broken_envs.Nested, "Nested"),
            vector(5, UNIT, Entry(("0",), (2,)), Entry(("1", "a"), (1,)), Entry(("1", "b"), (2, 1))),
        ),
    ],
)
def test_make(env: Any, name: str, spec: Spec) -> None:
    made = make(env)
    obs = made.reset(seed=1)
    assert (made.name, made.spec) == (name, spec)
    assert Spec.from_json(made.spec.to_json()) == spec
    for _ in range(3):
        assert obs.dtype == spec.obs.dtype
        assert obs.shape == spec.obs.shape
        obs, *_ = made.step(spec.action.random(np.random.default_rng(0), 1)[0])
    made.close()


REJECTED = [
    ("Hoper-v4", "no environment 'Hoper-v4'; did you mean Hopper-v4?"),
    ("Hopper-v2", "use Hopper-v4"),
    ("Hopper", "Hopper has no version, and results and presets depend on it: write Hopper-v5"),
    ("broken_envs:Hopper", "Hopper has no version, and results and presets depend on it: write Hopper-v5"),
    ("InvertedPendulum-v3", "use InvertedPendulum-v4"),
    ("not an id, is it?", "no environment 'not an id, is it?'; see gymnasium.pprint_registry()"),
    ("no_such_module:Foo-v0", "'no_such_module' cannot be imported (ModuleNotFoundError: No module named"),
    ("broken_envs:Nothing/AtAll-v0", "there is no environment 'Nothing/AtAll-v0'"),
    ("Broken/RaisesInConstructor-v0", "its constructor raised FileNotFoundError: model.xml"),
    (broken_envs.RaisesInConstructor, "it raised FileNotFoundError: model.xml"),
    (lambda: None, "must return a gymnasium.Env, it returned None"),
    (lambda: gymnasium.make_vec("Pendulum-v1", 2), "must return a gymnasium.Env, it returned SyncVectorEnv"),
    (
        of_spaces(observations=spaces.Dict(eye=Box(0, 255, (64, 64, 3), np.uint8), joints=Box(-1, 1, (7,)))),
        "Toy observes a Dict with the image eye (64, 64, 3), and smrl one image or a vector: observe only the image, "
        "or only the others, by gymnasium.wrappers.TransformObservation, or one vector of all 12,295 numbers by",
    ),
    (
        of_spaces(observations=spaces.Tuple([spaces.Dict(eye=Box(0, 255, (8, 8, 1), np.uint8))])),
        "Toy observes a Tuple with the image 0.eye (8, 8, 1)",
    ),
    (lambda size: Toy(size), "missing a required argument: 'size'"),
    (3, "not by 3"),
    (Secretive, "Secretive failed to return its spaces, with ZeroDivisionError: division by zero"),
    ("broken_envs:mak_toy", "the module 'broken_envs' has no 'mak_toy'; did you mean make_toy?"),
    ("broken_envs:LIMIT", "by a function that makes it, not by 50"),
    ("__main__:make_env", "make_env is not in the running program: move it into a module, and name that"),
    ("broken_envs:RaisesInConstructor", "it raised FileNotFoundError: model.xml"),
    (gymnasium.make("Pendulum-v1"), "by a function that makes it, not by <TimeLimit"),
    (
        of_spaces(actions=Box(0, 255, (1,), np.uint8)),
        "Box of floats or a Discrete action space, Toy has Box(0, 255, (1,)",
    ),
    (of_spaces(actions=spaces.MultiDiscrete([2, 3])), "Toy has MultiDiscrete([2 3]): wrap it in a gymnasium.ActionWr"),
    (of_spaces(actions=spaces.MultiBinary(4)), "a Discrete action space, Toy has MultiBinary(4)"),
    (of_spaces(actions=Dict(a=Box(0, 1))), "a Discrete action space, Toy has Dict('a': Box(0.0, 1.0, (1,), float32))"),
    (of_spaces(actions=Box(0, 1, (0,))), "a Discrete action space, Toy has Box([], [], (0,), float32)"),
    (of_spaces(actions=spaces.Discrete(1)), "Toy has only one action, Discrete(1): there is nothing to choose"),
    (
        of_spaces(actions=Box(-np.inf, np.inf, (1,))),
        "has Box(-inf, inf, (1,), float32): give its action_space finite bounds",
    ),
    (of_spaces(actions=Box(-FAR, FAR, (1,))), "with low < high"),
    (of_spaces(actions=Box(np.float32(0), np.float32(0), (2,))), "with low < high"),
    (of_spaces(observations=spaces.Discrete(3)), "has Discrete(3): wrap it in gymnasium.wrappers.FlattenObservation"),
    (of_spaces(observations=Text(3)), "smrl observes a Box, or a Dict or Tuple of them, Toy has Text(1, 3,"),
    (of_spaces(observations=spaces.Sequence(Box(0, 1))), "observe a Box of numbers"),
    (
        of_spaces(observations=Dict(a=Box(0, 1), b=spaces.Discrete(3))),
        "Toy has Dict observations with Discrete(3): wrap it in gymnasium.wrappers.FlattenObservation",
    ),
    (of_spaces(observations=Tuple([Box(0, 1), Dict(b=spaces.Discrete(3))])), "has Tuple observations with Discrete(3)"),
    (of_spaces(observations=Tuple([Box(0, 1), spaces.Sequence(Box(0, 1))])), "observe a Box of numbers"),
    (of_spaces(observations=Dict({})), "nothing to observe"),
    (of_spaces(observations=Box(0, 255, (0, 8, 3), np.uint8)), "nothing to observe"),
    (of_spaces(observations=Box(0, 1, (0,))), "nothing to observe"),
]


@pytest.mark.parametrize(("env", "message"), REJECTED)
def test_make_error_messages(env: Any, message: str) -> None:
    with pytest.raises(SmrlError) as caught:
        make(env)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [(finding.level, finding.what) for finding in checking.check(env)] == [("error", str(caught.value))]


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("dm_control/nothing-v0", "dmc"),
        ("dmc/nothing", "dmc"),
        ("ALE/Nothing-v5", "atari"),
        ("NothingNoFrameskip-v4", "atari"),
        ("NothingBulletEnv-v0", "pybullet"),
        ("NothingMuJoCoEnv-v0", "pybullet"),
    ],
)
def test_missing_extras_are_named(name: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    with pytest.raises(SmrlError, match=rf'{name} needs an extra .*: pip install "smrl\[{extra}\]"'):
        make(name)


def test_extras_register_their_tasks_when_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extras = (("Good/.*", "good", "good_extra"), ("Bad/.*", "bad", "bad_extra"))
    monkeypatch.setattr("smrl.envs.make.EXTRAS", extras)
    monkeypatch.syspath_prepend(tmp_path)
    code = "import gymnasium\ngymnasium.register('Good/Toy-v0', 'broken_envs:Toy')"
    (tmp_path / "good_extra.py").write_text(code)
    (tmp_path / "bad_extra.py").write_text("raise OSError('no libGL')")
    assert make("Good/Toy-v0").name == "Good/Toy-v0"
    with pytest.raises(SmrlError, match=r"'bad_extra' cannot be imported \(OSError: no libGL\): pip install"):
        make("Bad/Toy-v0")


def test_decoded_actions_stay_within_any_bounds() -> None:
    draw = np.random.default_rng(0)
    low, high = np.sort(draw.normal(0, 10, (2, 10_000)).astype(np.float32), axis=0)
    decode = make(of_spaces(actions=Box(low, high))).spec.action.decoder()
    for action in (np.full(10_000, -1, np.float32), np.ones(10_000, np.float32), np.tanh(low)):
        decoded = decode(action)
        assert decoded.dtype == np.float32
        assert (decoded >= low).all()
        assert (decoded <= high).all()
        np.testing.assert_allclose(decoded, low + (action + 1) / 2 * (high - low), atol=1e-5)


def test_grid_is_flattened_and_its_actions_scaled() -> None:
    grid = Grid()
    environment = make(lambda: grid)
    np.testing.assert_array_equal(environment.reset(0), np.float32(np.outer(grid.state, [1, 2]).reshape(-1)))
    for action in ([-1, -1], [0, 0], [1, 1]):
        result = environment.step(np.array(action, np.float32))
    np.testing.assert_array_equal(np.array(grid.got)[..., 0], [[0, -3], [5, -1], [10, 1]])
    assert [type(value) for value in result] == [np.ndarray, float, bool, bool]
    assert result[2:] == (True, False)


@pytest.mark.parametrize("name", ["Hopper-v4", "Pendulum-v1", "CartPole-v1"])
def test_steps_equal_the_bare_environments(name: str) -> None:
    environment, bare = make(name), make(name).env
    np.testing.assert_array_equal(environment.reset(7), np.float32(bare.reset(seed=7)[0]))
    decode = environment.spec.action.decoder()
    for action in environment.spec.action.random(np.random.default_rng(0), 9):
        obs, *rest = environment.step(action)
        expected, *others, _ = bare.step(decode(action))
        np.testing.assert_array_equal(obs, np.float32(expected))
        assert rest == others


class Recording(Toy):
    """Record the actions."""

    def __init__(self, actions: gymnasium.Space[Any]) -> None:
        super().__init__(actions=actions)
        self.got: list[Any] = []

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.got.append(action)
        return super().step(action)


def test_discrete_actions_count_from_the_start_of_their_space() -> None:
    toy = Recording(spaces.Discrete(3, start=-1))
    environment = make(lambda: toy)
    environment.reset(0)
    for action in range(3):
        environment.step(np.array(action, np.int32))
    assert toy.got == [-1, 0, 1]
    assert dict.fromkeys(toy.got, 0)  # an environment may look them up in a dictionary


@pytest.mark.parametrize("high", [1.0, 3.0])
def test_box_without_axes(high: float) -> None:
    toy = Recording(Box(-high, high, (), np.float64))
    environment = make(lambda: toy)
    environment.reset(0)
    environment.step(np.ones(1, np.float32))
    assert (toy.got[0].shape, toy.got[0].dtype, float(toy.got[0])) == ((), np.float64, high)


def test_entries_are_flattened_with_a_note() -> None:
    environment, bare = make(broken_envs.Entries, action_repeat=2), broken_envs.Entries()
    entries, _ = bare.reset(seed=3)
    for _ in range(3):
        obs = environment.reset(3) if bare.steps == 0 else environment.step(np.ones(1, np.float32))[0]
        np.testing.assert_array_equal(obs, np.concatenate([entries["place"][0], entries["speed"]]).astype(np.float32))
        for _ in range(2):
            entries = bare.step(np.ones(1, np.float32))[0]
    wrapper = "gymnasium.wrappers.FlattenObservation"
    (note,), (other,) = environment.notes, make(broken_envs.Nested).notes
    assert note.what == f"the Dict observations of Entries are flattened to vectors by {wrapper}"
    assert other.what == f"the Tuple observations of Nested are flattened to vectors by {wrapper}"
    assert note.level == other.level == "note"
    assert make(Toy).notes == ()


@pytest.mark.parametrize(
    ("space", "what", "advice"),
    [
        (Box(0, 255, (3, 64, 64), np.uint8), "the shape (3, 64, 64), as if the channels came first", "moveaxis"),
        (Box(0, 255, (9, 84, 84), np.uint8), "the shape (9, 84, 84), as if the channels came first", "moveaxis"),
        (Box(0, 255, (84, 84), np.uint8), "(84, 84) of uint8, become vectors of 7,056 numbers", "FrameStack"),
        (Box(0, 255, (4, 84, 84, 1), np.uint8), "of uint8, become vectors of 28,224 numbers", "FrameStack"),
        (Box(0, 1, (64, 64, 3)), "of float32, become vectors of 12,288 numbers", "Only uint8"),
        (spaces.Dict(a=Box(0, 1, (64, 64, 3)), b=Box(0, 1, (2,))), "become vectors of 12,288 numbers", "Only uint8"),
    ],
)
def test_doubtful_images_leave_a_warning(space: Any, what: str, advice: str) -> None:
    warning, *others = make(of_spaces(observations=space)).notes
    assert warning.level == "warning"
    assert what in warning.what
    assert advice in warning.meaning
    assert [note.level for note in others] == ["note"] * isinstance(space, spaces.Dict)


@pytest.mark.parametrize("shape", [(64, 64, 3), (84, 84, 12), (10, 10, 12), (6, 8, 3), (48, 64, 1)])
def test_images_with_the_channels_last_leave_no_warning(shape: tuple[int, ...]) -> None:
    assert make(of_spaces(observations=Box(0, 255, shape, np.uint8))).notes == ()
    assert make(of_spaces(observations=Box(-1, 1, (2000,)))).notes == ()
    assert make(of_spaces(observations=Box(-1, 1, (10, 3)))).notes == ()


def normalised(wrapper: Any, is_fixed: bool) -> gymnasium.Env[Any, Any]:
    env = wrapper(gymnasium.make("Pendulum-v1"))
    if is_fixed:
        statistics = env.obs_rms if wrapper is NormalizeObservation else env.return_rms
        statistics.mean, statistics.var, env.update_running_mean = statistics.mean + 1, 4 * statistics.var, False
    return RecordEpisodeStatistics(env)


@pytest.mark.parametrize(
    ("wrapper", "flag"),
    [(NormalizeObservation, "--normalise-observations"), (NormalizeReward, "--normalise-rewards")],
)
def test_running_statistics_are_refused_and_fixed_ones_are_not(wrapper: Any, flag: str) -> None:
    with pytest.raises(SmrlError) as caught:
        make(lambda: normalised(wrapper, is_fixed=False))
    assert f"Pendulum-v1 has a {wrapper.__name__}, whose running statistics" in str(caught.value)
    assert f"train with {flag} instead, or set the wrapper's statistics" in str(caught.value)
    fixed, bare = make(lambda: normalised(wrapper, is_fixed=True)), make("Pendulum-v1")
    first = fixed.reset(0)
    _, reward, *_ = fixed.step(np.ones(1, np.float32))
    np.testing.assert_array_equal(fixed.reset(0), first)
    if wrapper is NormalizeObservation:
        np.testing.assert_allclose(first, (bare.reset(0) - 1) / 2, rtol=1e-5)
    else:
        bare.reset(0)
        assert reward == pytest.approx(bare.step(np.ones(1, np.float32))[1] / 2, rel=1e-5)


def test_stacked_and_recorded_environments_are_accepted() -> None:
    """The state of these wrappers begins again with every episode, or does not change what is learned from."""
    environment = make(lambda: RecordEpisodeStatistics(FrameStackObservation(gymnasium.make("Pendulum-v1"), 3)))
    assert (environment.spec.obs.shape, environment.spec.entries) == ((9,), (Entry((), (3, 3)),))


def test_images_are_copied_unchanged() -> None:
    environment, bare = make(broken_envs.Image), broken_envs.Image()
    seen = [environment.reset(1), *(environment.step(np.ones(1, np.float32))[0] for _ in range(2))]
    wanted = [bare.reset(seed=1)[0].copy(), *(bare.step(np.ones(1, np.float32))[0].copy() for _ in range(2))]
    np.testing.assert_array_equal(seen, wanted)  # although the environment changes its own array
    assert len({obs.tobytes() for obs in seen}) == 3


def test_observations_and_actions_are_copied() -> None:
    environment = make(broken_envs.LiveArray)
    action = np.array([0.5], np.float32)
    action.flags.writeable = False  # like arrays from JAX
    seen = [environment.reset(0), *(environment.step(action)[0] for _ in range(3))]
    assert len({obs.tobytes() for obs in seen}) == 4


FAULTS = [
    (broken_envs.Raises, "Raises failed in step() with ValueError: the simulator exploded"),
    (broken_envs.Exits, "Exits failed in step() with SystemExit: the licence has expired"),
    (broken_envs.NanObservation, "NanObservation returned an observation from step() with nan at index 1"),
    (broken_envs.HugeObservation, "with 1e+300 at index 0, which is no finite float32 number"),
    (broken_envs.WrongShape, "of shape (2, 1) from step() instead of the shape (2,)"),
    (broken_envs.WrongKind, "from step(), which is no array of numbers"),
    (broken_envs.InfReward, "returned the reward inf"),
    (broken_envs.VectorReward, "which is not one number"),
    (broken_envs.NoReward, "returned the reward None, which is not one number"),
    (broken_envs.OldStep, "from step() instead of an observation, a reward, terminated, truncated and an info"),
    (broken_envs.OldReset, "from reset() instead of an observation and an info"),
    (broken_envs.NoSeed, "failed in reset(seed=0) with TypeError"),
    (
        broken_envs.ImageOfFloats,
        "ImageOfFloats returned an image of float32 from step() instead of the uint8 of its space",
    ),
    (broken_envs.SmallerImage, "of shape (3, 8, 3) from step() instead of the shape (6, 8, 3)"),
    (broken_envs.LacksAnEntry, "LacksAnEntry failed in step() with KeyError: 'speed'"),
    ("Broken/RaisesInReset-v0", "Broken/RaisesInReset-v0 failed in reset(seed=1) with OSError: no more episodes"),
]


@pytest.mark.parametrize(("env", "message"), FAULTS)
def test_fault_messages(env: Any, message: str) -> None:
    environment = make(env)
    with pytest.raises(EnvironmentFault) as caught:  # noqa: PT012
        for seed in range(2):
            environment.reset(seed)
            for _ in range(10):
                environment.step(np.zeros(1, np.float32))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert any(finding.level == "error" and message in finding.what for finding in checking.check(env))


@pytest.mark.parametrize("reward", [1e39, -np.inf, np.nan, np.float32(np.nan), "1", [1.0], 1j])
def test_invalid_rewards(reward: Any) -> None:
    environment = make(Toy)
    environment.reset(0)
    environment.env.rewarded = lambda _: reward  # type: ignore[attr-defined]
    with pytest.raises(EnvironmentFault, match="returned the reward"):
        environment.step(np.zeros(1, np.float32))


def test_large_but_finite_values_pass() -> None:
    environment = make(Toy)
    environment.env.observed = lambda _: [FAR, -FAR]  # type: ignore[attr-defined]
    environment.env.rewarded = lambda _: np.array(-3)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(environment.reset(None), np.array([FAR, -FAR], np.float32))
    assert environment.step(np.zeros(1, np.float32))[1] == -3.0


def test_fault_message_of_a_diverged_policy() -> None:
    environment = make(Toy)
    environment.reset(0)
    with pytest.raises(EnvironmentFault, match="not the environment but the policy has diverged"):
        environment.step(np.array([np.nan], np.float32))


def test_render_and_close() -> None:
    environment = make("Pendulum-v1", render_mode="rgb_array")
    environment.reset(0)
    assert environment.render().shape == (500, 500, 3)
    environment.close()
    with pytest.raises(SmrlError, match="without a render mode"):
        make("Pendulum-v1").render()
    with pytest.raises(SmrlError, match="needs a parameter render_mode"):
        make(lambda: Toy(), render_mode="rgb_array")
    environment.env.close = None  # type: ignore[assignment]
    environment.close()
