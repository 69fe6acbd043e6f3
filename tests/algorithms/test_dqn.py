"""DQN: one update against NumPy in float64, on vectors and on images; ε, the target network, and what it refuses."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy_images import Floats, Named, assert_first_step, batch, encode, leaves, mlp

from smrl.algorithms.dqn import DQN, State, dqn
from smrl.errors import SmrlError
from smrl.settings import make_settings
from smrl.types import ArraySpec, Continuous, Discrete, Spec, Transition, UpdateContext

VECTORS = Spec(ArraySpec((4,)), Discrete(3))
IMAGES = Spec(ArraySpec((9, 9, 2), "uint8"), Discrete(3))
SIZES: dict[str, Any] = {"hidden": (11,), "filters": (3, 4), "kernels": (3, 2), "strides": (2, 1)}
KEY = jax.random.key(0)
TICK = UpdateContext(jnp.int32(1), jnp.int32(0), 1, KEY, jnp.int32(0))


def q_values(params: Named, obs: Any) -> Floats:
    if np.asarray(obs).ndim == 4:
        obs = encode(params, "Encoder_0", obs, SIZES["strides"])
    return mlp(params, "MLP_0", obs)


def loss(params: Named, target: Named, data: Transition) -> float:
    """Mean (Q(s, a) − r − γ (1 − d) max Q′(s′, ·))²."""
    y = np.asarray(data.reward + data.discount * q_values(target, data.next_obs).max(axis=1), np.float64)
    q = q_values(params, data.obs)[np.arange(len(y)), data.action]
    return float(np.mean((q - y) ** 2))


@pytest.mark.parametrize("spec", [VECTORS, IMAGES], ids=["vectors", "images"])
def test_one_update_is_that_of_numpy(spec: Spec) -> None:
    algorithm, data = dqn(DQN(**SIZES, learning_rate=1e-3), spec), batch(spec, 8)
    first = algorithm.init(KEY)
    state = first._replace(target_critics=jax.tree.map(lambda leaf: leaf * 1.3 + 0.01, first.target_critics))
    new, metrics = jax.jit(algorithm.update)(state, data, TICK, KEY)
    params, target = leaves(state.critics.params), leaves(state.target_critics)
    assert float(metrics["critic_loss"]) == pytest.approx(loss(params, target, data), rel=1e-5)
    assert_first_step(lambda params: loss(params, target, data), params, state.critics, new.critics, learning_rate=1e-3)
    assert all(np.array_equal(a, b) for a, b in zip(target.values(), leaves(new.target_critics).values(), strict=True))


def test_the_target_is_copied_once_after_all_updates_of_its_step() -> None:
    """Every 1,000th agent step is every 250th learning step."""
    algorithm = dqn(DQN(**SIZES), VECTORS)
    assert algorithm.learn_every == 4
    state = algorithm.init(KEY)
    moved = State(state.critics._replace(params=jax.tree.map(lambda leaf: leaf + 1, state.critics.params)), *state[1:])
    for step, is_copied in ((249, False), (250, True), (251, False), (500, True)):
        settled = algorithm.after_updates(moved, TICK._replace(step=jnp.int32(step)))
        expected = moved.critics.params if is_copied else moved.target_critics
        assert jax.tree.all(jax.tree.map(np.array_equal, settled.target_critics, expected))


def test_epsilon_falls_over_a_tenth_of_the_run() -> None:
    settings = make_settings("dqn", "CartPole-v1", steps=50_000)
    assert settings.hyper.epsilon_steps == 5_000
    assert make_settings("dqn", "CartPole-v1", steps=50_000, epsilon_steps=7).hyper.epsilon_steps == 7
    algorithm = dqn(settings.hyper, VECTORS)
    state, obs = algorithm.init(KEY), np.zeros((20_000, 4), np.float32)
    greedy = int(algorithm.exploit(state.critics.params, obs)[0])
    for step, epsilon in ((0, 1.0), (2_500, 0.505), (5_000, 0.01), (40_000, 0.01)):
        actions = np.asarray(algorithm.explore(state.critics.params, obs, jnp.int32(step), KEY))
        assert np.mean(actions != greedy) == pytest.approx(epsilon * 2 / 3, abs=0.01)
        assert set(np.unique(actions)) == {0, 1, 2}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (Spec(ArraySpec((4,)), Continuous(2)), "DQN needs discrete actions, but this environment has 2 continuous"),
        (Spec(ArraySpec((4, 4), "uint8"), Discrete(2)), "DQN needs vectors or images, but"),
        (
            Spec(ArraySpec((10, 10, 1), "uint8"), Discrete(2)),
            "images of 10×10 are too small for convolutions of 8×, 4×",
        ),
    ],
)
def test_what_it_cannot_learn(spec: Spec, message: str) -> None:
    with pytest.raises(SmrlError, match=message):
        dqn(DQN(), spec)


@pytest.mark.parametrize(
    ("hyper", "message"),
    [
        ({"target_every": 10}, "target_every must be a multiple of the 4 agent steps per learning step, not 10"),
        ({"filters": (8, 8)}, "filters, kernels and strides must have the same length, not 2, 3 and 3"),
        ({"epsilon": 2.0}, r"epsilon must be a number in \[0, 1\]"),
    ],
)
def test_what_contradicts_itself(hyper: dict[str, Any], message: str) -> None:
    with pytest.raises(SmrlError, match=message):
        DQN(**hyper)
