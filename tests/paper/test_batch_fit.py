"""The fit of a batch after M updates: against closed forms, for every algorithm, and without changing the run."""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from specs import vectors

import smrl
from smrl.algorithms import registry
from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.paper import batch_fit as study
from smrl.paper.batch_fit import FILE, batch_fit, draw, measure_of, measure_run, read, write
from smrl.paper.batch_fit_results import Fit
from smrl.settings import RunOptions, make_settings
from smrl.studies.launch import Outcome
from smrl.types import Algorithm, Transition

UPDATES = (1, 2, 5, 20)
RATE, DISCOUNT, Q, TARGET = 0.1, 0.9, 3.0, 5.0
SMALL: dict[str, Any] = {"actor_hidden": (16,), "critic_hidden": (16,), "learning_rate": 1e-2}
BUILT_IN: dict[str, dict[str, Any]] = {
    "ddpg": {},
    "td3": {},
    "sac": {},
    "darc": {},
    "tqc": {"critics": 2, "atoms": 5},
    "redq": {"critics": 3},
}


class Constant(NamedTuple):
    """Q is the same number everywhere, or the mean of several that learn in turns."""

    q: Any  # (rounds,)
    target: Any  # what the updates bootstrap from; the measured target bootstraps from q


def constant(rounds: int = 1, offset: float = 0.0, alpha: float = 0.0, noise: float = 0.0) -> Algorithm[Constant]:
    """Make gradient descent on (q − y)² / 2, whose target network never moves.

    ``offset`` is added once after all updates. log π is 1, plus random numbers of the scale ``noise``.
    """

    def update(state: Constant, batch: Transition, context: Any, key: Any) -> tuple[Constant, dict[str, Any]]:
        own = state.q[context.round]
        own = own - RATE * (own - batch.reward - batch.discount * state.target).mean()
        return Constant(state.q.at[context.round].set(own), state.target), {"q": own}

    unused: Any = None
    return Algorithm(
        *(unused, update, unused, unused),
        after_updates=lambda state, context: state._replace(q=state.q + offset),
        rounds=rounds,
        q_values=lambda state, obs, action: jnp.broadcast_to(state.q[:, None], (rounds, len(obs))),
        policy_sample=lambda state, obs, key: (obs, 1 + noise * jax.random.normal(key, (len(obs),))),
        temperature=lambda state: jnp.float32(alpha),
    )


def transitions(reward: float, size: int = 4) -> Transition:
    """Return equal transitions."""
    scalars = np.ones(size, np.float32)
    obs = np.zeros((size, 1), np.float32)
    return Transition(obs, obs, reward * scalars, DISCOUNT * scalars, obs)


def measured(algorithm: Algorithm[Constant], batch: Transition, held_out: Transition) -> np.ndarray:
    state = Constant(jnp.full(algorithm.rounds, Q), jnp.asarray(TARGET))
    found = measure_of(algorithm, "constant")(state, batch, held_out, UPDATES, 1, jax.random.key(0))
    assert state.q.tolist() == [Q] * algorithm.rounds, "the state is not donated"
    return found


TIMES = np.array([0, *UPDATES])


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_fixed_and_moving_target(rounds: int, alpha: float) -> None:
    """Compare with q_M = y + (1 − RATE)^M (q − y); with two rounds both numbers learn from the batch."""
    y = 1 + DISCOUNT * TARGET
    q = y + (1 - RATE) ** TIMES * (Q - y)
    found = measured(constant(rounds, alpha=alpha), transitions(1.0), transitions(2.0))
    fixed, moving = q - DISCOUNT * (Q - alpha), q - DISCOUNT * (q - alpha)  # without the reward
    np.testing.assert_allclose(found.T, np.abs([fixed - 1, moving - 1, fixed - 2, moving - 2]), rtol=1e-5)


def test_after_updates_is_called() -> None:
    plain, shifted = (measured(constant(offset=offset), transitions(0.0), transitions(0.0)) for offset in (0.0, 1.0))
    np.testing.assert_allclose(shifted[0], plain[0])
    np.testing.assert_allclose(shifted[1:, 0] - plain[1:, 0], 1, rtol=1e-4)


def test_random_targets_are_equal_before_and_after() -> None:
    """Check that the moving target differs from the fixed one by Q alone: the noise is the same in both."""
    noisy = measured(constant(alpha=0.1, noise=1.0), transitions(0.0, 1), transitions(0.0, 1))
    still = measured(constant(alpha=0.1), transitions(0.0, 1), transitions(0.0, 1))
    np.testing.assert_allclose(noisy[:, 0] - noisy[:, 1], still[:, 0] - still[:, 1], rtol=1e-3, atol=1e-4)
    assert noisy[0, 0] != pytest.approx(still[0, 0], abs=1e-3), "there is noise"


def random_transitions(seed: int, size: int = 32) -> Transition:
    source = np.random.default_rng(seed)
    obs, next_obs, action = (source.uniform(-1, 1, (size, width)).astype(np.float32) for width in (3, 3, 2))
    reward, discount = (source.uniform(0, 1, size).astype(np.float32) for _ in range(2))
    return Transition(obs, action, 2 + reward, discount, next_obs)


def made(name: str) -> tuple[Algorithm[Any], Any]:
    """A small algorithm and its first state."""
    algorithm = registry.find(name).make(make_settings(name, "Test-v0", **SMALL, **BUILT_IN[name]).hyper, vectors(3, 2))
    return algorithm, jax.jit(algorithm.init)(jax.random.key(0))


def without_future(transitions: Transition) -> Transition:
    return transitions._replace(discount=np.zeros_like(transitions.discount))


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in BUILT_IN if name != "sac"]


@pytest.mark.parametrize("name", ["sac", *SLOW])
def test_every_algorithm(name: str) -> None:
    """Without a future, updates approach the one target there is; with one, fixed and moving targets differ."""
    algorithm, state = made(name)
    measure, key = measure_of(algorithm, name), jax.random.key(3)
    batch, held_out = random_transitions(1), random_transitions(2)
    found = measure(state, without_future(batch), without_future(held_out), UPDATES, 2, key)
    np.testing.assert_allclose(found[:, [0, 2]], found[:, [1, 3]], rtol=1e-4)
    assert (np.diff(found[:, 0]) < 0).all()
    assert found[-1, 0] < 0.9 * found[0, 0]
    found = measure(state, batch, held_out, UPDATES, 2, key)
    assert found[0, [0, 2]].tolist() == pytest.approx(found[0, [1, 3]].tolist())
    assert found[-1, 0] != pytest.approx(found[-1, 1], rel=1e-4)


def memory(rows: int) -> Replay:
    """A replay memory with rows that all differ."""
    replay = Replay(1000, vectors(1, 1), gamma=0.9)
    for row in range(rows):
        replay.add(np.array([row]), np.zeros(1), float(row), np.array([row + 1]), terminated=False, truncated=False)
    return replay


def test_held_out_transitions_are_not_in_the_batch() -> None:
    replay = memory(40)
    for seed in range(20):
        batch, held_out = draw(replay, np.random.default_rng(seed), 32)
        assert set(batch.reward).isdisjoint(held_out.reward)
        assert len(held_out.reward) == len(held_out.next_obs) == 32
        np.testing.assert_array_equal(held_out.obs[:, 0], held_out.reward)
        as_in_training = replay.sample(np.random.default_rng(seed), 1, 32)
        np.testing.assert_array_equal(batch.reward, as_in_training.reward[0])


def test_replay_without_held_out_transitions_is_refused() -> None:
    with pytest.raises(SmrlError, match=r"of 3 rows .* a batch of 32; lower --batch-size"):
        draw(memory(3), np.random.default_rng(0), 32)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> smrl.Run:
    """A short run on Pendulum."""
    settings = SMALL | {"steps": 60, "warmup": 20, "eval_every": 20, "eval_episodes": 1, "batch_size": 8, "reuse": 2}
    return smrl.train("td3", "Pendulum-v1", runs=tmp_path_factory.mktemp("runs"), quiet=True, **settings)


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.slow
def test_measuring_changes_nothing_in_the_run(run: smrl.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[bytes] = []

    def noted(*given: Any) -> tuple[Transition, Transition]:
        batch, held_out = draw(*given)
        drawn.append(batch.obs.tobytes())
        return batch, held_out

    monkeypatch.setattr(study, "draw", noted)
    before = digests(run.path)
    fit = measure_run(run, UPDATES, 3, print)
    assert digests(run.path) == before
    assert (fit.step, fit.updates, fit.errors.shape) == (60, (0, *UPDATES), (3, 5, 4))
    assert len(set(drawn)) == len(drawn) == 3, "all batches differ"
    targets_moved = ~np.isclose(fit.errors[..., 0], fit.errors[..., 1], rtol=1e-6)
    assert targets_moved.tolist() == [[False, True, True, True, True]] * 3, "the target moves with the critics"


def test_diverged_run_is_refused(run: smrl.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "measure_of", lambda algorithm, name: lambda *given: np.full((5, 4), np.nan))
    with pytest.raises(SmrlError, match=r"seed0 at step 60 are 0 or not finite"):
        measure_run(run, UPDATES, 3, print)


def test_run_without_checkpoint_is_refused(run: smrl.Run, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((run.path / "config.json").read_bytes())
    with pytest.raises(SmrlError, match="has no checkpoint yet; train it first"):
        measure_run(smrl.load(tmp_path), UPDATES, 3, print)


def a_fit(step: int, value: float, updates: tuple[int, ...] = (0, 1, 10), batches: int = 2) -> Fit:
    errors = value + np.arange(batches * len(updates) * 4, dtype=np.float64).reshape(batches, len(updates), 4)
    return Fit({}, step, updates, errors)


def test_table_round_trip(run: smrl.Run, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((run.path / "config.json").read_bytes())
    assert read(tmp_path, (1, 10), 2) == []
    for fit in (a_fit(20, 0.5), a_fit(40, 1.5), a_fit(40, 2.5)):
        write(tmp_path, fit)
    assert len((tmp_path / FILE).read_text().splitlines()) == 1 + 2 * 2 * 3, "a step has its rows once"
    first, second = read(tmp_path, (1, 10), 2)
    assert (first.step, second.step, first.updates) == (20, 40, (0, 1, 10))
    np.testing.assert_allclose(second.errors, a_fit(40, 2.5).errors)
    assert first.settings["algorithm"] == "td3"
    assert first.settings["critic_hidden"] == [16]
    (part, _) = read(tmp_path, (10,), 1)
    np.testing.assert_allclose(part.errors, first.errors[:1, [0, 2]])
    assert read(tmp_path, (1, 20), 2) == read(tmp_path, (1, 10), 3) == []
    write(tmp_path, a_fit(60, 3.5))
    table = tmp_path / FILE
    table.write_bytes(table.read_bytes()[:-3])
    assert [fit.step for fit in read(tmp_path, (1, 10), 2)] == [20, 40], "a kill has truncated the last line"


@pytest.mark.parametrize("content", ["step,batch\n20,0\n", "step,batch,updates\n20,x,1\n"])
def test_damaged_table_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(SmrlError, match=f"{FILE} is damaged; delete it"):
        read(tmp_path, (1,), 1)


def test_failed_run_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(study, "run_all", lambda *given: Outcome([], {"SAC, seed 0": "the robot is on fire."}))
    settings = make_settings("sac", "Pendulum-v1")
    with pytest.raises(SmrlError, match="SAC, seed 0 failed: the robot is on fire"):
        batch_fit([[settings]], RunOptions(runs=tmp_path), (1,), 1)
