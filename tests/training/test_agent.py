"""The agent's resets, its policy, and its state as named arrays: one layout for stacked and unstacked ensembles."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from specs import vectors

from smrl.errors import SmrlError
from smrl.nn.networks import Critic, Ensemble
from smrl.nn.optimiser import Adam, TrainState, apply_gradient
from smrl.settings import make_settings
from smrl.training.agent import Agent, from_arrays, load_policy, to_arrays
from smrl.types import Array, ArraySpec, Continuous, Spec

OBS: Any = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
ACTION: Any = np.ones((7, 2), np.float32)
ADAM = Adam(1e-2)
APART, STACKED = (Ensemble(Critic((16,)), 3, stacked=stacked) for stacked in (False, True))


class State(NamedTuple):
    critics: TrainState
    targets: Any
    scale: Array


@partial(jax.jit, static_argnums=0)
def start(critics: Ensemble) -> State:
    params = critics.init(jax.random.key(0), OBS, ACTION)
    return State(ADAM.start(params), params, jnp.ones(()))


@partial(jax.jit, static_argnums=0)
def learn(critics: Ensemble, state: State) -> State:
    """Three steps of Adam."""

    def step(_: Array, state: State) -> State:
        trained = apply_gradient(state.critics, lambda params: ((ask(critics, params) ** 2).sum(), {}), ADAM)[0]
        return state._replace(critics=trained, scale=state.scale + 1)

    return jax.lax.fori_loop(0, 3, step, state)


@partial(jax.jit, static_argnums=0)
def ask(critics: Ensemble, params: Any) -> Array:
    return critics(params, OBS, ACTION)


@partial(jax.jit, static_argnums=0)
def ask_subset(critics: Ensemble, params: Any) -> Array:
    return critics(params, OBS, ACTION, chosen=jnp.array([2, 0]))


def moved(state: State, critics: Ensemble) -> State:
    """The state in another layout, by way of the disk's."""
    template = jax.eval_shape(lambda: {"state": start(critics)})
    return from_arrays(template, to_arrays({"state": state}))["state"]


def structure(tree: Any) -> Any:
    return jax.tree.structure(tree)


def equal(left: Any, right: Any) -> bool:
    return structure(left) == structure(right) and all(
        jax.tree.leaves(jax.tree.map(lambda a, b: a.dtype == b.dtype and np.array_equal(a, b), left, right))
    )


def test_array_names_are_the_same_in_both_layouts() -> None:
    layers = [f"['params']['MLP_0']['Dense_{n}']['{part}']" for n in range(2) for part in ("kernel", "bias")]
    roots = [".critics.params", ".critics.optimiser[0].mu", ".critics.optimiser[0].nu", ".targets"]
    wanted = {f"['state']{root}[{member}]{layer}" for root in roots for member in range(3) for layer in layers}
    wanted |= {"['state'].critics.optimiser[0].count", "['state'].scale"}
    for critics in (APART, STACKED):
        arrays = to_arrays({"state": start(critics)})
        assert set(arrays) == wanted
        assert all(isinstance(array, np.ndarray) for array in arrays.values())
        assert arrays["['state'].critics.params[2]['params']['MLP_0']['Dense_0']['kernel']"].shape == (5, 16)


@pytest.mark.parametrize(("here", "there"), [(APART, STACKED), (STACKED, APART)], ids=["to stacked", "to apart"])
def test_a_state_moves_to_the_other_layout_and_back(here: Ensemble, there: Ensemble) -> None:
    state = learn(here, start(here))
    over = moved(state, there)
    assert structure(over) == structure(start(there))
    assert equal(moved(over, here), state)

    def nearly(left: Array, right: Array) -> bool:
        return np.allclose(left, right, rtol=1e-4, atol=1e-5)

    assert nearly(ask(here, state.critics.params), ask(there, over.critics.params))
    assert nearly(ask_subset(here, state.targets), ask_subset(there, over.targets))
    further = ask(here, learn(here, state).critics.params)
    assert nearly(further, ask(there, learn(there, over).critics.params))
    forgetful = over._replace(critics=ADAM.start(over.critics.params))
    assert not nearly(further, ask(there, learn(there, forgetful).critics.params)), "Adam's memory matters"


@pytest.mark.parametrize("critics", [APART, STACKED], ids=["apart", "stacked"])
def test_round_trip_in_one_layout(critics: Ensemble) -> None:
    state = learn(critics, start(critics))
    assert equal(moved(state, critics), state)


def test_leaves_without_other_axes() -> None:
    """Also a leaf that has no axis but that of the members."""
    tree = jax.tree.map(lambda leaf: leaf.sum(axis=tuple(range(1, leaf.ndim))), start(STACKED).targets)
    assert equal(from_arrays(tree, to_arrays(tree)), tree)


@pytest.mark.parametrize("wrong", [Ensemble(Critic((16,)), 4, True), Ensemble(Critic((17,)), 3, True)])
def test_arrays_of_another_shape_are_refused(wrong: Ensemble) -> None:
    with pytest.raises(SmrlError, match="does not fit"):
        moved(start(APART), wrong)
    with pytest.raises(SmrlError, match=r"does not fit this algorithm at \['x'\]"):
        from_arrays({"x": np.zeros(4, np.float32)}, to_arrays({"x": np.zeros(3, np.float32)}))


SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,), "batch_size": 4}
IMAGES = Spec(ArraySpec((9, 9, 2), "uint8"), Continuous(2))


def make_agent(algorithm: str, spec: Spec, **settings: Any) -> Agent:
    agent = Agent(make_settings(algorithm, "Some-v0", **SMALL, **settings), spec)
    agent.start()
    return agent


def test_reset_makes_new_networks_and_keeps_the_counts() -> None:
    agent = make_agent("sac", vectors(3, 2))
    agent.state = agent.state._replace(updates=jnp.int32(7))
    before = jax.tree.map(np.asarray, agent.state)
    agent.reset(step=100)
    first = agent.state
    assert not equal(first.algorithm.actor.params, before.algorithm.actor.params)
    assert agent.counts() == (0, 7)
    agent.reset(step=100)
    assert equal(agent.state, first)
    agent.reset(step=200)
    assert not equal(agent.state.algorithm, first.algorithm)


@pytest.mark.slow
def test_reset_keeps_what_the_algorithm_keeps() -> None:
    agent = make_agent("drqv2", IMAGES, filters=(4,), kernels=(3,), strides=(2,), features=4)
    before = jax.tree.map(np.asarray, agent.state.algorithm)
    agent.reset(step=100)
    assert equal(agent.state.algorithm.encoder, before.encoder)
    assert not equal(agent.state.algorithm.actor.params, before.actor.params)


def test_saved_policies_act_as_the_agent_did() -> None:
    agent = make_agent("td3", vectors(3, 2))
    obs = np.random.default_rng(0).standard_normal((5, 3), np.float32)
    best, best_action = agent.policy_arrays(), agent.exploit(obs)
    agent.reset(step=1)
    arrays = agent.arrays() | best
    newest, kept = (load_policy(agent.settings, vectors(3, 2), arrays, best=best).act for best in (False, True))
    np.testing.assert_array_equal(newest(obs), agent.exploit(obs))
    np.testing.assert_array_equal(kept(obs), best_action)
    assert not np.array_equal(newest(obs), kept(obs))
