"""The running average of a policy, which acts greedily instead of the newest one."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from specs import DISCRETE, FROM_IMAGES, vectors

import smrl
from smrl.algorithms import registry
from smrl.errors import SmrlError
from smrl.settings import make_settings
from smrl.training.agent import Agent, averaged, load_policy
from smrl.types import ArraySpec, Continuous, Discrete, Spec

OBS = np.random.default_rng(0).standard_normal((5, 3), np.float32)
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,), "batch_size": 8}
QUICK: dict[str, Any] = {**SMALL, "reuse": 2, "steps": 60, "warmup": 20, "eval_every": 30, "eval_episodes": 1}
WEIGHT = 0.1


def agent(algorithm: str = "sac", **settings: Any) -> Agent:
    made = Agent(make_settings(algorithm, "Some-v0", **SMALL, **settings), vectors(3, 2))
    made.start()
    return made


def equal(left: Any, right: Any) -> bool:
    return jax.tree.all(jax.tree.map(lambda a, b: np.array_equal(a, b), left, right))


def shifted(made: Agent, average: float) -> None:
    """Move the average away from the newest policy."""
    made.state = made.state._replace(average=jax.tree.map(lambda leaf: leaf + average, made.state.average))


def test_it_is_the_recursion_in_float64(tmp_path: Path) -> None:
    newest: list[Any] = []
    found: list[Any] = []

    def remember(status: smrl.Status) -> None:
        acting = status.policy.loaded.acting
        newest.append(jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), acting.params))
        found.append(acting.average)

    smrl.train("sac", "Pendulum-v1", runs=tmp_path, on_step=remember, average_policy=WEIGHT, **QUICK)
    average = newest[0]
    for params, mine in zip(newest[1:], found[1:], strict=True):
        average = jax.tree.map(lambda old, new: (1 - WEIGHT) * old + WEIGHT * new, average, params)
        jax.tree.map(lambda want, got: np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6), average, mine)
    assert not equal(newest[-1], found[-1])


def test_it_changes_nothing_that_is_learned(tmp_path: Path) -> None:
    runs = [
        smrl.train("sac", "Pendulum-v1", runs=tmp_path, average_policy=weight, **QUICK) for weight in (None, WEIGHT)
    ]
    tables = [{name: run.training[name] for name in ("critic_loss", "actor_loss", "alpha")} for run in runs]
    for name, column in tables[0].items():
        np.testing.assert_array_equal(column, tables[1][name])
    plain, averaging = (run.evaluations for run in runs)
    assert not np.array_equal(plain["mean"], averaging["mean"])
    np.testing.assert_array_equal(averaging["newest"], plain["mean"])
    assert "newest" not in plain


def test_it_acts_greedily_and_the_newest_explores() -> None:
    made = agent(average_policy=WEIGHT)
    greedy, explored = made.exploit(OBS), made.explore(OBS, 0)
    shifted(made, 0.5)
    assert not np.array_equal(made.exploit(OBS), greedy)
    np.testing.assert_array_equal(made.explore(OBS, 0), explored)
    copied, loaded = made.copy_policy(), made.loaded_policy()
    np.testing.assert_array_equal(made.exploit(OBS, copied), made.exploit(OBS))
    np.testing.assert_array_equal(made.explore(OBS, 0, copied), explored)
    np.testing.assert_array_equal(loaded.act(OBS), made.exploit(OBS))


def test_saved_policies_are_averages() -> None:
    made = agent(average_policy=WEIGHT)
    shifted(made, 0.5)
    best, best_action = made.policy_arrays(), made.exploit(OBS)
    shifted(made, 0.5)
    arrays = made.arrays() | best
    newest, kept = (load_policy(made.settings, vectors(3, 2), arrays, best=best) for best in (False, True))
    np.testing.assert_array_equal(newest.act(OBS), made.exploit(OBS))
    np.testing.assert_array_equal(newest.sample(OBS, 0, 0), agent().loaded_policy().sample(OBS, 0, 0))
    np.testing.assert_array_equal(kept.act(OBS), best_action)
    exported, expected = newest.layers(), made.algorithm.network(jax.device_get(made.state.average))  # type: ignore[misc]
    assert all(equal(vars(layer), vars(other)) for layer, other in zip(exported, expected, strict=True))


def test_it_continues_from_a_checkpoint() -> None:
    made, other = agent(average_policy=WEIGHT), agent(average_policy=WEIGHT)
    shifted(made, 0.5)
    other.restore(made.arrays())
    assert equal(other.state, made.state)
    with pytest.raises(SmrlError, match="does not fit this algorithm at \\['average'\\]"):
        other.restore(agent().arrays())


def test_a_reset_and_other_networks_begin_it_again() -> None:
    made = agent(average_policy=WEIGHT)
    shifted(made, 0.5)
    arrays = made.arrays()
    made.reset(step=100)
    assert equal(made.state.average, made.state.algorithm.actor.params)
    made.start(arrays)
    assert equal(made.state.average, made.state.algorithm.actor.params)
    np.testing.assert_array_equal(made.exploit(OBS), agent().exploit(OBS))


def test_without_it_a_checkpoint_holds_nothing_new() -> None:
    assert not any("average" in name for name in agent().arrays())


@pytest.mark.parametrize("name", registry.names())
def test_every_policy_can_be_averaged(name: str) -> None:
    obs = ArraySpec((84, 84, 3), "uint8") if name in FROM_IMAGES else ArraySpec((3,))
    entry = registry.find(name)
    algorithm = entry.make(entry.config(), Spec(obs, Discrete(2) if name in DISCRETE else Continuous(2)))
    params = jax.eval_shape(lambda key: algorithm.policy_params(algorithm.init(key)), jax.random.key(0))
    result = jax.eval_shape(lambda old, new: averaged(old, new, WEIGHT), params, params)
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), result) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), params
    )


def test_counts_and_keys_of_a_custom_policy_are_not_averaged() -> None:
    old = {"weights": jnp.zeros(2), "count": jnp.int32(1), "key": jax.random.key(1)}
    new = {"weights": jnp.ones(2), "count": jnp.int32(5), "key": jax.random.key(2)}
    result = averaged(old, new, 0.25)
    np.testing.assert_array_equal(result["weights"], [0.25, 0.25])
    assert int(result["count"]) == 5
    assert result["key"] == new["key"]


@pytest.mark.parametrize("weight", [0, -0.1, 1.5, "much"])
def test_other_weights_are_refused(weight: Any) -> None:
    with pytest.raises(SmrlError, match="average_policy"):
        make_settings("sac", "Some-v0", average_policy=weight)
