import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import broken_envs
import gymnasium
import numpy as np
import pytest
from broken_envs import Toy
from gymnasium.spaces import Box, Dict, Discrete

from smrl.envs import Environment, EnvironmentFault, make, rescale
from smrl.envs import check as checking
from smrl.errors import SmrlError
from smrl.types import Spec

FAR = float(np.finfo(np.float32).max)


class Grid(Toy):
    """Observations of 2×2, actions of 2×1 with bounds of their own, a reward and flags that are NumPy's."""

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


def of_spaces(**spaces: gymnasium.Space[Any]) -> Callable[[], Toy]:
    return lambda: Toy(5, **spaces)


@pytest.mark.parametrize(
    ("env", "name", "spec"),
    [
        ("Pendulum-v1", "Pendulum-v1", Spec(3, 1)),
        ("Hopper-v4", "Hopper-v4", Spec(11, 3)),  # would warn of its age
        ("Hopper", "Hopper-v5", Spec(11, 3)),  # would warn of the choice
        ("broken_envs:Broken/Toy-v0", "Broken/Toy-v0", Spec(2, 1)),
        (Toy, "Toy", Spec(2, 1)),
        (Grid, "Grid", Spec(4, 2)),
        (lambda: gymnasium.make("Pendulum-v1"), "Pendulum-v1", Spec(3, 1)),
    ],
)
def test_make(env: Any, name: str, spec: Spec) -> None:
    made = make(env)
    obs = made.reset(seed=1)
    assert (made.name, made.spec) == (name, spec)
    assert obs.dtype == np.float32
    assert obs.shape == (spec.obs_size,)
    assert made.bounds[0].shape == made.bounds[1].shape == (spec.action_size,)
    made.close()


REJECTED = [
    ("Hoper-v4", "no environment 'Hoper-v4'; did you mean Hopper-v4?"),
    ("Hopper-v2", "use Hopper-v4"),
    ("InvertedPendulum-v3", "use InvertedPendulum-v4"),
    ("not an id, is it?", "no environment 'not an id, is it?'; see gymnasium.pprint_registry()"),
    ("no_such_module:Foo-v0", "'no_such_module' cannot be imported (ModuleNotFoundError: No module named"),
    ("broken_envs:Nothing/AtAll-v0", "there is no environment 'Nothing/AtAll-v0'"),
    ("Broken/RaisesInConstructor-v0", "its constructor raised FileNotFoundError: model.xml"),
    (broken_envs.RaisesInConstructor, "it raised FileNotFoundError: model.xml"),
    (lambda: None, "must return a gymnasium.Env, it returned None"),
    (lambda size: Toy(size), "missing a required argument: 'size'"),
    (3, "not by 3"),
    (Secretive, "Secretive fails to tell its spaces, by ZeroDivisionError: division by zero"),
    ("CartPole-v1", "need a bounded Box action space, CartPole-v1 has Discrete(2)"),
    (of_spaces(actions=Box(0, 255, (1,), np.uint8)), "Toy has Box(0, 255, (1,), uint8)"),
    (of_spaces(actions=Box(-np.inf, np.inf, (1,))), "with low < high, Toy has Box(-inf, inf, (1,), float32)"),
    (of_spaces(actions=Box(-FAR, FAR, (1,))), "with low < high"),
    (of_spaces(actions=Box(np.float32(0), np.float32(0), (2,))), "with low < high"),
    (of_spaces(observations=Dict(a=Box(0, 1))), "Dict observations, not one vector: wrap it in gymnasium.wrappers.Fl"),
    (of_spaces(observations=Discrete(3)), "FlattenObservation"),
    (of_spaces(observations=Box(0, 255, (84, 84, 3), np.uint8)), "images of shape (84, 84, 3)"),
    (of_spaces(observations=Box(0, 1, (0,))), "nothing to observe"),
]


@pytest.mark.parametrize(("env", "sentence"), REJECTED)
def test_make_rejects_in_one_sentence(env: Any, sentence: str) -> None:
    with pytest.raises(SmrlError) as caught:
        make(env)
    assert sentence in str(caught.value)
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
    extras = (("Good/.*", "good", ("good_extra",)), ("Bad/.*", "bad", ("bad_extra",)))
    monkeypatch.setattr("smrl.envs.EXTRAS", extras)
    monkeypatch.syspath_prepend(tmp_path)
    code = "import gymnasium\ngymnasium.register('Good/Toy-v0', 'broken_envs:Toy')"
    (tmp_path / "good_extra.py").write_text(code)
    (tmp_path / "bad_extra.py").write_text("raise OSError('no libGL')")
    assert make("Good/Toy-v0").name == "Good/Toy-v0"
    with pytest.raises(SmrlError, match=r"'bad_extra' cannot be imported \(OSError: no libGL\): pip install"):
        make("Bad/Toy-v0")


def test_rescale_stays_within_any_bounds() -> None:
    draw = np.random.default_rng(0)
    low, high = np.sort(draw.normal(0, 10, (2, 10_000)).astype(np.float32), axis=0)
    for action in (np.full(10_000, -1, np.float32), np.ones(10_000, np.float32), np.tanh(low)):
        scaled = rescale(action, low, high)
        assert scaled.dtype == np.float32
        assert (scaled >= low).all()
        assert (scaled <= high).all()
        np.testing.assert_allclose(scaled, low + (action + 1) / 2 * (high - low), atol=1e-5)
    unit = rescale(action, -np.ones(10_000), np.ones(10_000))
    assert unit.dtype == np.float64
    np.testing.assert_array_equal(unit, action)


def test_grid_is_flattened_and_its_actions_scaled() -> None:
    grid = Grid()
    environment = make(lambda: grid)
    np.testing.assert_array_equal(environment.reset(0), np.float32(np.outer(grid.state, [1, 2]).reshape(-1)))
    for action in ([-1, -1], [0, 0], [1, 1]):
        result = environment.step(np.array(action, np.float32))
    np.testing.assert_array_equal(np.array(grid.got)[..., 0], [[0, -3], [5, -1], [10, 1]])
    assert [type(value) for value in result] == [np.ndarray, float, bool, bool]
    assert result[2:] == (True, False)


@pytest.mark.parametrize("name", ["Hopper-v4", "Pendulum-v1"])
def test_steps_are_those_of_the_bare_environment(name: str) -> None:
    environment, bare = make(name), make(name).env
    np.testing.assert_array_equal(environment.reset(7), np.float32(bare.reset(seed=7)[0]))
    draw = np.random.default_rng(0)
    for _ in range(20):
        action = draw.uniform(-1, 1, environment.spec.action_size).astype(np.float32)
        obs, *rest = environment.step(action)
        expected, *others, _ = bare.step(rescale(action, *environment.bounds))
        np.testing.assert_array_equal(obs, np.float32(expected))
        assert rest == others


def test_neither_observation_nor_action_is_changed_later() -> None:
    environment = make(broken_envs.LiveArray)
    action = np.array([0.5], np.float32)
    action.flags.writeable = False  # as are the arrays that JAX hands over
    seen = [environment.reset(0), *(environment.step(action)[0] for _ in range(3))]
    assert len({obs.tobytes() for obs in seen}) == 4


FAULTS = [
    (broken_envs.Raises, "Raises failed in step() with ValueError: the simulator exploded"),
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
    ("Broken/RaisesInReset-v0", "Broken/RaisesInReset-v0 failed in reset(seed=1) with OSError: no more episodes"),
]


@pytest.mark.parametrize(("env", "sentence"), FAULTS)
def test_faults_are_named_in_one_sentence(env: Any, sentence: str) -> None:
    environment = make(env)
    with pytest.raises(EnvironmentFault) as caught:  # noqa: PT012
        for seed in range(2):
            environment.reset(seed)
            for _ in range(10):
                environment.step(np.zeros(1, np.float32))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert any(finding.level == "error" and sentence in finding.what for finding in checking.check(env))


@pytest.mark.parametrize("reward", [1e39, -np.inf, np.nan, np.float32(np.nan), "1", [1.0], 1j])
def test_no_reward_but_a_finite_number(reward: Any) -> None:
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


def test_a_diverged_policy_is_not_blamed_on_the_environment() -> None:
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


def test_little_time_is_spent_around_the_environment() -> None:
    def fastest(environment: Environment | gymnasium.Env[Any, Any]) -> float:
        action, times = np.zeros(3, np.float32), []
        for _ in range(50):
            start = time.perf_counter()
            for _ in range(100):
                environment.step(action)
            times.append((time.perf_counter() - start) / 100)
        return min(times)

    environment = make(of_spaces(actions=Box(-2, 2, (3,))))
    environment.reset(0)
    assert fastest(environment) - fastest(environment.env) < 30e-6  # about 5e-6 on an idle core


FOUND = [
    ("Broken/NeverEnds-v0", "no episode ended within 5000 steps", "TimeLimit"),
    ("Broken/TimeAsTermination-v0", "all 250 episodes terminated at step 20", "truncated"),
    ("Broken/NonDeterministic-v0", "gave another episode from step 0 on", "self.np_random"),
    ("Broken/Remembers-v0", "gave another episode from step 1 on after other episodes", "bit for bit"),
    ("Broken/Individual-v0", "gave another episode from step 1 on in a fresh instance", "constructor"),
    ("Broken/LiveArray-v0", "observation is changed by the next step", "return a copy"),
    ("Broken/ConstantReward-v0", "the reward was 0 in every step", "depend on the actions"),
    ("Broken/LargeReward-v0", "rewards lie in [-10000", "TransformReward"),
    ("Broken/LargeObservation-v0", "observation 1 reached ±", "normalise"),
    ("Broken/LargeObservation-v0", "outside its declared bounds [-10, 10]", "correct observation_space"),
    ("Broken/Slow-v0", "steps per second", "seconds"),
    (of_spaces(observations=Box(-10, 10, (2,))), "ndarray of float64, declared as ndarray of float32", "wrappers"),
    (of_spaces(actions=Box(-1e9, 1e9, (1,))), "actions reach 1e+09", "Declare bounds"),
]


@pytest.mark.parametrize(("env", "what", "meaning"), FOUND)
def test_check_warns(env: Any, what: str, meaning: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "Slow" in str(env):
        monkeypatch.setattr(checking, "SECONDS", 0.3)
        monkeypatch.setattr(checking, "REPEATED_SECONDS", 0.1)
    findings = checking.check(env)
    levels = [finding.level for finding in findings]
    assert levels == sorted(levels, key=["error", "warning", "note"].index)
    assert any(f.level == "warning" and what in f.what and meaning in f.meaning for f in findings), findings


def test_check_finds_one_environment_made_twice() -> None:
    toy = Toy()
    assert "one and the same Toy" in checking.check(lambda: toy)[0].what


def test_check_explains_a_missing_seed() -> None:
    assert "super().reset(seed=seed)" in checking.check("Broken/NoSeed-v0")[0].meaning


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        (
            "Pendulum-v1",
            ["observation size 3, action size 1 in [-2, 2]", "25 episodes of 200 to 200 steps", "per second"],
        ),
        ("Hopper-v4", ["observation size 11, action size 3 in [-1, 1]", "terminated", "per second"]),
        ("InvertedPendulum-v4", ["observation size 4", "terminated", "the reward was 1", "per second"]),
        ("Broken/Toy-v0", ["observation size 2", "100 episodes of 50 to 50 steps, 0 terminated", "per second"]),
    ],
)
def test_check_has_only_notes_on_sound_environments(name: str, facts: list[str]) -> None:
    findings = checking.check(name)
    assert [finding.level for finding in findings] == ["note"] * len(facts)
    assert all(fact in finding.what for fact, finding in zip(facts, findings, strict=True))
