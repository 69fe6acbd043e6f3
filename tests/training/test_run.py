"""A trained run in Python: its environment, its policy, and what the policy refuses."""

import json
import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import broken_envs
import cloudpickle
import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics, RecordVideo, RenderCollection

import smrl
from smrl.errors import SmrlError
from smrl.randomness import Purpose, environment_seed
from smrl.runs.config import checksum
from smrl.settings import make_settings
from smrl.training.agent import ActingFunctions, ActingParams, LoadedPolicy
from smrl.training.run import Policy
from smrl.types import Algorithm, ArraySpec, Continuous, Discrete, Entry, Spec

SHORT: dict[str, Any] = {"steps": 30, "warmup": 20, "eval_every": 30, "eval_episodes": 1, "batch_size": 8, "reuse": 1}
SHORT |= {"quiet": True}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,)}
IMAGES: dict[str, Any] = {"filters": (4,), "kernels": (3,), "strides": (2,)}


def entries() -> gymnasium.Env[Any, Any]:
    """Dict observations, and actions in [-1, 3]."""
    env = gymnasium.wrappers.TimeLimit(broken_envs.Entries(), 20)
    return gymnasium.wrappers.RescaleAction(env, np.float32(-1), np.float32(3))


PENDULUM = SMALL | {"action_repeat": 3, "max_episode_steps": 20, "pad_observations": 2}
RUNS = {
    "repeated": ("ddpg", "Pendulum-v1", PENDULUM),
    "discrete actions and images": ("dqn", "smrl/Catch-v0", IMAGES | {"hidden": (8,)}),
    "entries": ("ddpg", entries, SMALL | {"pad_observations": 3}),
}
SLOW = {
    "discrete actions": ("dqn", "CartPole-v1", {"hidden": (8,), "n_step": 1}),
    "images": ("drqv2", "smrl/CatchContinuous-v0", SMALL | IMAGES | {"features": 8}),
}


class Recorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keep the actions that the innermost environment receives."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.received: list[Any] = []

    def step(self, action: Any) -> Any:
        self.received.append(np.copy(action))
        return self.env.step(action)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.mark.parametrize(
    ("algorithm", "env", "settings"),
    [
        *(pytest.param(*case, id=name) for name, case in RUNS.items()),
        *(pytest.param(*case, id=name, marks=pytest.mark.slow) for name, case in SLOW.items()),
    ],
)
def test_an_episode_of_make_env_has_the_return_of_the_evaluation(
    algorithm: str, env: str | Callable[[], Any], settings: dict[str, Any], folder: Path
) -> None:
    run = smrl.train(algorithm, env, **SHORT | settings, runs=folder)
    recorders: list[Recorder] = []

    def recorded() -> Recorder:
        recorders.append(Recorder(gymnasium.make(env) if isinstance(env, str) else env()))
        return recorders[-1]

    made = RecordEpisodeStatistics(run.make_env(recorded))
    assert made.observation_space == recorders[0].observation_space
    assert made.action_space == recorders[0].action_space
    obs, _ = made.reset(seed=environment_seed(run.settings.seed, Purpose.EVALUATE, 0))
    chosen: list[Any] = []
    info: dict[str, Any] = {}
    while "episode" not in info:
        assert made.observation_space.contains(obs)
        chosen.append(run.policy(obs))
        assert made.action_space.contains(chosen[-1])
        obs, _, _, _, info = made.step(chosen[-1])
    (expected,) = smrl.evaluate(run, 1, env=env).returns
    assert info["episode"]["r"] == expected
    received = recorders[0].received
    assert len(received) > 5
    np.testing.assert_array_equal(received, np.repeat(chosen, run.settings.action_repeat, axis=0)[: len(received)])


@pytest.mark.slow
def test_make_env_stacks_the_frames_of_a_game(folder: Path) -> None:
    options = IMAGES | {"hidden": (8,), "image_size": 20, "max_episode_steps": 200}
    run = smrl.train("dqn", "PongNoFrameskip-v4", **SHORT, **options, runs=folder)
    env = RecordEpisodeStatistics(run.make_env())
    assert env.observation_space.shape == (20, 20, 4)
    play(env, run.policy, environment_seed(run.settings.seed, Purpose.EVALUATE, 0))
    played = smrl.evaluate(run, 1)
    assert (list(env.return_queue), list(env.length_queue)) == (played.returns.tolist(), played.lengths.tolist())
    assert played.returns[0] < 0, "the return is not zero in any case"


def play(env: gymnasium.Env[Any, Any], policy: Callable[[Any], Any], seed: int = 0) -> None:
    obs, _ = env.reset(seed=seed)
    is_over = False
    while not is_over:
        obs, _, terminated, truncated, _ = env.step(policy(obs))
        is_over = terminated or truncated


@pytest.fixture
def pendulum(folder: Path) -> smrl.Run:
    return smrl.train("ddpg", "Pendulum-v1", **SHORT, **PENDULUM, runs=folder)


def test_gymnasium_records_pictures_of_make_env(pendulum: smrl.Run) -> None:
    env = RenderCollection(pendulum.make_env(render_mode="rgb_array"))
    play(env, pendulum.policy)
    pictures: Any = env.render()
    assert len(pictures) == 8, "of the first observation and of 20 / 3 steps"
    assert pictures[0].dtype == np.uint8


def test_gymnasium_records_a_video_of_make_env(pendulum: smrl.Run, tmp_path: Path) -> None:
    pytest.importorskip("moviepy", reason="Gymnasium needs moviepy to write videos")
    env = RecordVideo(pendulum.make_env(render_mode="rgb_array"), str(tmp_path))
    play(env, pendulum.policy)
    env.close()  # type: ignore[no-untyped-call]
    assert list(tmp_path.glob("*.mp4"))


@pytest.mark.slow
def test_stable_baselines3_evaluates_in_make_env(pendulum: smrl.Run) -> None:
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")

    class Model:
        def predict(self, obs: Any, **others: Any) -> Any:
            return pendulum.policy(obs), None

    mean, _ = evaluation.evaluate_policy(Model(), pendulum.make_env(), n_eval_episodes=2, warn=False)
    assert -200 < mean < 0


@pytest.mark.parametrize("other", ["CartPole-v1", "MountainCarContinuous-v0", lambda: rescaled(3.0)])
def test_an_environment_with_other_spaces_is_refused(pendulum: smrl.Run, other: Any) -> None:
    for use in (pendulum.make_env, lambda env: smrl.evaluate(pendulum, 1, env=env)):
        with pytest.raises(SmrlError, match=r"was trained with .* \(5,\) .* in \[-2, 2\]: give its own"):
            use(other)
    assert pendulum.make_env(lambda: rescaled(2.0)).action_space == pendulum.make_env().action_space


def rescaled(reach: float) -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.RescaleAction(gymnasium.make("Pendulum-v1"), np.float32(-reach), np.float32(reach))


def policy(obs: ArraySpec, *entries: Entry) -> Policy:
    """A policy whose action is the mean of the observation, in [0, 2]."""

    def exploit(params: Any, batch: Any) -> Any:
        assert batch.shape[1:] == obs.shape
        assert batch.dtype == obs.dtype
        return jnp.asarray(batch, jnp.float32).reshape(len(batch), -1).mean(axis=1, keepdims=True)

    return acting(Spec(obs, Continuous(1, (0.0,), (2.0,)), entries), exploit)


def acting(spec: Spec, exploit: Callable[[Any, Any], Any]) -> Policy:
    """A policy that needs no parameters."""
    unused: Any = None
    algorithm: Algorithm[Any] = Algorithm(unused, unused, lambda params, obs, step, key: exploit(params, obs), exploit)
    functions = ActingFunctions(lambda hyper, spec: algorithm, make_settings("ddpg", "Toy-v0"), spec)
    return Policy(spec, LoadedPolicy(functions, ActingParams(None, None)))


def test_a_policy_answers_for_one_observation_and_for_a_batch() -> None:
    flat, wide = policy(ArraySpec((6,))), policy(ArraySpec((6,)), Entry((), (2, 3)))
    np.testing.assert_array_equal(flat(np.full(6, 0.5)), [1.5])
    np.testing.assert_array_equal(flat([0.5] * 6), [1.5])
    np.testing.assert_array_equal(flat(np.full((4, 6), 0.5)), [[1.5]] * 4)
    np.testing.assert_array_equal(wide(np.full((2, 3), 0.5)), [1.5])
    np.testing.assert_array_equal(wide(np.full((1, 2, 3), 0.5)), [[1.5]])
    image = policy(ArraySpec((4, 4, 3), "uint8"))
    assert image(np.zeros((4, 4, 3), np.uint8)).shape == (1,)
    assert image(np.zeros((2, 4, 4, 3), np.uint8)).shape == (2, 1)


def test_a_discrete_action_is_a_number_of_the_environment() -> None:
    spec = Spec(ArraySpec((2,)), Discrete(3, 5))
    chosen = acting(spec, lambda params, batch: jnp.zeros(len(batch), jnp.int32))
    assert chosen(np.zeros(2)) == 5
    assert gymnasium.spaces.Discrete(3, start=5).contains(chosen(np.zeros(2)))
    assert chosen(np.zeros((1, 2))).tolist() == [5]


def test_a_policy_takes_observations_with_entries() -> None:
    """As the Dict of broken_envs.Entries and the Tuple of broken_envs.Nested have them; zeros are appended."""
    named = policy(ArraySpec((6,)), Entry(("place",), (1, 2)), Entry(("speed",), (2,)))
    one = {"place": np.full((1, 2), 0.6), "speed": np.full(2, 0.9, np.float32)}
    np.testing.assert_allclose(named(one), [1.5])
    np.testing.assert_allclose(named({name: np.stack([value] * 3) for name, value in one.items()}), [[1.5]] * 3)
    nested = policy(ArraySpec((5,)), Entry(("0",), (2,)), Entry(("1", "a"), (1,)), Entry(("1", "b"), (2, 1)))
    np.testing.assert_allclose(nested((np.ones(2), {"a": np.ones(1), "b": -np.ones((2, 1))})), [1.2])
    uneven = {"place": np.zeros((3, 1, 2)), "speed": np.zeros((2, 2))}
    for wrong in (
        uneven,
        {"place": one["place"]},
        {**one, "speed": np.zeros(3)},
        np.zeros(6),
        None,
        {**one, "place": {}},
    ):
        with pytest.raises(
            SmrlError, match=r"takes observations of shape place \(1, 2\), speed \(2,\), or with one more"
        ):
            named(wrong)


@pytest.mark.parametrize(
    ("shape", "given"),
    [
        ((3,), np.zeros(4)),
        ((3,), np.zeros((3, 1))),
        ((3,), np.zeros((1, 1, 3))),
        ((3,), np.zeros((0, 3))),
        ((3,), 1.0),
        ((3,), ["a", "b", "c"]),
        ((3,), [[1.0], [1.0, 2.0], [3.0]]),
        ((3,), {"position": np.zeros(3)}),
        ((3,), None),
        ((3,), np.zeros(3, complex)),
        ((2, 3), np.zeros(6)),
        ((2, 3), np.zeros((3, 2))),
    ],
)
def test_a_policy_refuses_other_observations(shape: tuple[int, ...], given: Any) -> None:
    refused = policy(ArraySpec((int(np.prod(shape)),)), Entry((), shape))
    with pytest.raises(SmrlError) as caught:
        refused(given)
    message = str(caught.value)
    assert f"the policy takes observations of shape {shape}, or with one more leading axis, not (" in message
    if isinstance(given, np.ndarray):
        assert message.endswith(f"not {given.shape} of {given.dtype}")


def test_a_policy_refuses_values_that_would_be_misread() -> None:
    image = policy(ArraySpec((4, 4, 3), "uint8"))
    with pytest.raises(SmrlError, match=r"takes uint8 images of shape \(4, 4, 3\), .* not \(4, 4, 3\) of float64"):
        image(np.full((4, 4, 3), 0.5))  # as uint8 all would be black
    for wrong in (np.nan, np.inf, 1e300):
        with pytest.raises(SmrlError, match="no finite float32 numbers"):
            policy(ArraySpec((3,)))([0.0, wrong, 0.0])


def test_entries_larger_than_the_observation_are_refused() -> None:
    with pytest.raises(SmrlError, match="entries of 4 numbers do not fit into observations of 3"):
        policy(ArraySpec((3,)), Entry((), (2, 2)))


def test_a_policy_samples_and_gives_values(pendulum: smrl.Run) -> None:
    policy, obs = pendulum.policy, np.linspace(-1, 1, 12).reshape(4, 3)
    sampled = policy.sample(obs, seed=3)
    np.testing.assert_array_equal(sampled, policy.sample(obs, seed=3))
    assert sampled.shape == (4, 1)
    assert not np.array_equal(sampled, policy.sample(obs, seed=4))
    assert not np.array_equal(sampled, policy(obs))
    assert policy.sample(obs[0], seed=3).shape == (1,)
    assert pendulum.best_policy.sample(obs, seed=3).shape == (4, 1)
    values = policy.q_values(obs)
    assert values.shape == (1, 4), "DDPG has one critic"
    np.testing.assert_allclose(policy.q_values(obs, policy(obs)), values, rtol=1e-5, atol=1e-6)
    assert np.abs(policy.q_values(obs, np.full((4, 1), 2.0)) - policy.q_values(obs, np.full((4, 1), -2.0))).max() > 1e-4
    np.testing.assert_allclose(policy.q_values(obs[1], policy(obs)[1]), values[:, 1], rtol=1e-5, atol=1e-6)
    with pytest.raises(SmrlError, match=r"kept without its critics, so it has no values: use run\.policy"):
        pendulum.best_policy.q_values(obs)
    for action in (np.zeros(1), np.zeros((4, 2)), "left", np.full((4, 1), np.nan)):
        with pytest.raises(SmrlError, match=r"the critics take 1 continuous action of shape \(4, 1\), not"):
            policy.q_values(obs, action)
    with pytest.raises(SmrlError, match="seed must be"):
        policy.sample(obs, seed=-1)
    with pytest.raises(SmrlError, match=r"takes observations of shape \(3,\)"):
        policy.q_values(np.zeros(4))


def test_values_of_discrete_actions() -> None:
    spec = Spec(ArraySpec((2,)), Discrete(3, 5))
    unused: Any = None
    algorithm: Algorithm[Any] = Algorithm(
        unused,
        unused,
        lambda params, obs, step, key: jnp.zeros(len(obs), jnp.int32),
        lambda params, obs: jnp.zeros(len(obs), jnp.int32),
        q_values=lambda state, obs, a: a[None],
    )
    functions = ActingFunctions(lambda hyper, spec: algorithm, make_settings("dqn", "Toy-v0"), spec)
    policy = Policy(spec, LoadedPolicy(functions, ActingParams(None, None), state=0))
    assert policy.q_values(np.zeros((2, 2)), [5, 7]).tolist() == [[0, 2]]
    assert policy.q_values(np.zeros(2)).tolist() == [0]
    for action in (4, 8, 5.0, True, [5]):
        with pytest.raises(SmrlError, match="the critics take 3 discrete actions"):
            policy.q_values(np.zeros(2), action)
    no_values = acting(spec, algorithm.exploit)
    with pytest.raises(SmrlError, match="the algorithm ddpg offers no values of its critics"):
        no_values.q_values(np.zeros(2))


@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
def test_a_policy_is_pickled(pendulum: smrl.Run, pickler: Any) -> None:
    policy, obs = pendulum.policy, np.linspace(-1, 1, 12).reshape(4, 3)
    before = policy(obs), policy.sample(obs, seed=1), policy.q_values(obs)
    copy = pickle.loads(pickler.dumps(policy))
    for mine, other in zip(before, (copy(obs), copy.sample(obs, seed=1), copy.q_values(obs)), strict=True):
        np.testing.assert_array_equal(mine, other)
    assert repr(copy) == repr(policy)
    assert pickle.loads(pickler.dumps(pendulum.best_policy))(obs).shape == (4, 1)


@pytest.mark.slow
def test_a_policy_acts_in_a_spawned_process(pendulum: smrl.Run) -> None:
    obs = np.linspace(-1, 1, 12).reshape(4, 3)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_allclose(pool.apply(pendulum.policy, (obs,)), pendulum.policy(obs), rtol=1e-5)


def test_reprs_are_short_and_never_fail(pendulum: smrl.Run, tmp_path: Path) -> None:
    spec = "observations of shape (5,) and dtype float32, 1 continuous action in [-2, 2]"
    assert repr(pendulum.policy) == f"Policy(DDPG, reuse 1, Pendulum-v1, seed 0, step 30; {spec})"
    shown = repr(pendulum)
    assert shown.startswith(f"Run({str(pendulum.path)!r}, DDPG, reuse 1, Pendulum-v1, seed 0, step 30 of 30, return -")
    assert len(shown) < 120 + len(str(pendulum.path))
    assert repr(smrl.Run(tmp_path / "none")) == f"Run({str(tmp_path / 'none')!r})"
    assert smrl.Run(tmp_path / "none")._repr_html_().startswith("<div><b></b>")
    run = tmp_path / "<script>alert(1)"
    run.mkdir()
    config = json.loads((pendulum.path / "config.json").read_text())
    config["settings"]["env"] = "<img src=x onerror=alert(1)>\x1b[31m"
    (run / "config.json").write_text(json.dumps(config | {"checksum": checksum(config)}))
    table = "step,episodes,mean\n30,1,5\n60,1,nan\n90,1,7\n"
    (run / "evaluations.csv").write_text(table)
    page = smrl.Run(run)._repr_html_()
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "\x1b" not in page + repr(smrl.Run(run))
    assert '<polyline points="2.0,38.0 198.0,2.0"' in page
    (run / "evaluations.csv").write_text("\0")
    assert "polyline" not in smrl.Run(run)._repr_html_()


def test_tables_of_a_run(pendulum: smrl.Run, tmp_path: Path) -> None:
    table = pendulum.evaluations
    assert table["step"].tolist() == [30]
    assert table["mean"].tolist() == pendulum.record.returns.tolist()
    assert {len(column) for column in table.values()} == {1}
    assert smrl.Run(tmp_path).evaluations == {}
    (tmp_path / "evaluations.csv").write_text("step,mean\n1,2\n2,\n3\n")
    assert smrl.Run(tmp_path).evaluations["mean"].tolist() == pytest.approx([2.0, np.nan, np.nan], nan_ok=True)
    for damaged in ("step,mean\n1,high\n", "mean\n1\n", "\0", "", f"step\n{10**30}\n"):
        (tmp_path / "evaluations.csv").write_text(damaged)
        with pytest.raises(SmrlError, match="its columns must hold numbers"):
            smrl.Run(tmp_path).evaluations  # noqa: B018
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(table)
    assert frame["mean"].iloc[-1] == pendulum.record.returns[-1]
