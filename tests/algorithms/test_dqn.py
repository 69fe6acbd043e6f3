"""DQN: one update against NumPy in float64, on vectors and on images; ε, the target network, and what it refuses."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest

from smrl.algorithms.dqn import DQN, State, dqn
from smrl.errors import SmrlError
from smrl.runs.settings import make_settings
from smrl.types import ArraySpec, Continuous, Discrete, Spec, Tick, Transition

Floats = npt.NDArray[np.float64]
VECTORS = Spec(ArraySpec((4,)), Discrete(3))
IMAGES = Spec(ArraySpec((9, 9, 2), "uint8"), Discrete(3))
SIZES: dict[str, Any] = {"hidden": (11,), "filters": (3, 4), "kernels": (3, 2), "strides": (2, 1)}
KEY = jax.random.key(0)
TICK = Tick(jnp.int32(1), jnp.int32(0), 1, KEY)


def batch(spec: Spec, size: int = 6) -> Transition:
    rng = np.random.default_rng(3)

    def obs() -> Any:
        if spec.obs.dtype == "uint8":
            return rng.integers(0, 256, (size, *spec.obs.shape)).astype(np.uint8)
        return rng.normal(size=(size, *spec.obs.shape)).astype(np.float32)

    discount = np.where(rng.random(size) < 0.3, 0, 0.9).astype(np.float32)
    action = rng.integers(0, 3, size).astype(np.int32)
    return Transition(obs(), action, rng.normal(size=size).astype(np.float32), discount, obs())


def leaves(params: Any) -> dict[str, Floats]:
    """Parameters by path, in float64."""
    named = jax.tree_util.tree_leaves_with_path(params)
    return {jax.tree_util.keystr(path): np.asarray(leaf, np.float64) for path, leaf in named}


def q_values(params: dict[str, Floats], obs: Any) -> Floats:
    """The network by loops over pixels; layers in the order of their names."""
    x = np.asarray(obs, np.float64)
    if x.ndim == 4:
        x = x / 255
        for index, stride in enumerate(SIZES["strides"]):
            kernel, bias = (params[f"['params']['Encoder_0']['Conv_{index}']['{part}']"] for part in ("kernel", "bias"))
            side = (x.shape[1] - len(kernel)) // stride + 1
            y = np.zeros((len(x), side, side, kernel.shape[-1]))
            for row in range(side):
                for column in range(side):
                    top, left = row * stride, column * stride
                    patch = x[:, top : top + len(kernel), left : left + len(kernel), :]
                    y[:, row, column] = np.einsum("nijc,ijcf->nf", patch, kernel) + bias
            x = np.maximum(y, 0)
        x = x.reshape(len(x), -1)
    for index, relu in ((0, True), (1, False)):
        kernel, bias = (params[f"['params']['MLP_0']['Dense_{index}']['{part}']"] for part in ("kernel", "bias"))
        x = x @ kernel + bias
        x = np.maximum(x, 0) if relu else x
    return x


def loss(params: dict[str, Floats], target: dict[str, Floats], data: Transition) -> float:
    """Mean (Q(s, a) − r − γ (1 − d) max Q′(s′, ·))²."""
    y = np.asarray(data.reward + data.discount * q_values(target, data.next_obs).max(axis=1), np.float64)
    q = q_values(params, data.obs)[np.arange(len(y)), data.action]
    return float(np.mean((q - y) ** 2))


@pytest.mark.parametrize("spec", [VECTORS, IMAGES], ids=["vectors", "images"])
def test_one_update_is_that_of_numpy(spec: Spec) -> None:
    """The loss and its gradient by finite differences in float64; Adam's first moment is a tenth of the gradient."""
    algorithm, data = dqn(DQN(**SIZES, learning_rate=1e-3), spec), batch(spec)
    first = algorithm.init(KEY)
    state = first._replace(target_critics=jax.tree.map(lambda leaf: leaf * 1.3 + 0.01, first.target_critics))
    new, metrics = jax.jit(algorithm.update)(state, data, TICK, KEY)
    params, target = leaves(state.critics.params), leaves(state.target_critics)
    assert float(metrics["critic_loss"]) == pytest.approx(loss(params, target, data), rel=1e-5)
    moments = leaves(new.critics.optimiser[0].mu)
    updated = leaves(new.critics.params)
    rng, seen = np.random.default_rng(4), 0
    for name, values in params.items():
        scale = np.abs(moments[name]).max() * 10
        for place in rng.integers(0, values.size, min(values.size, 8)):
            index = np.unravel_index(place, values.shape)
            sides = []
            for change in (1e-6, -1e-6):
                moved = values.copy()
                moved[index] += change
                sides.append(loss(params | {name: moved}, target, data))
            gradient = (sides[0] - sides[1]) / 2e-6
            assert moments[name][index] * 10 == pytest.approx(gradient, rel=1e-3, abs=1e-4 * scale + 1e-7)
            if abs(gradient) > 1e-3 * scale:  # Adam's first step is the learning rate in the gradient's direction
                assert updated[name][index] - values[index] == pytest.approx(-1e-3 * np.sign(gradient), rel=1e-2)
                seen += 1
    assert seen > 20
    assert all(np.array_equal(a, b) for a, b in zip(target.values(), leaves(new.target_critics).values(), strict=True))


def test_the_td_error_is_that_of_the_loss() -> None:
    algorithm, data = dqn(DQN(**SIZES), VECTORS), batch(VECTORS)
    state = algorithm.init(KEY)
    errors = algorithm.td_error(state, data, KEY)
    assert float((errors**2).mean()) == pytest.approx(float(algorithm.update(state, data, TICK, KEY)[1]["critic_loss"]))


def test_the_target_is_copied_once_after_all_updates_of_its_step() -> None:
    """Every 1,000th agent step is every 250th learning step."""
    algorithm = dqn(DQN(**SIZES), VECTORS)
    assert algorithm.learn_every == 4
    state = algorithm.init(KEY)
    moved = State(state.critics._replace(params=jax.tree.map(lambda leaf: leaf + 1, state.critics.params)), *state[1:])
    for step, is_copied in ((249, False), (250, True), (251, False), (500, True)):
        settled = algorithm.settle(moved, TICK._replace(step=jnp.int32(step)))
        expected = moved.critics.params if is_copied else moved.target_critics
        assert jax.tree.all(jax.tree.map(np.array_equal, settled.target_critics, expected))


def test_epsilon_falls_over_a_tenth_of_the_run() -> None:
    settings = make_settings("dqn", "CartPole-v1", steps=50_000)
    assert settings.hyper.epsilon_steps == 5_000
    assert make_settings("dqn", "CartPole-v1", steps=50_000, epsilon_steps=7).hyper.epsilon_steps == 7
    algorithm = dqn(settings.hyper, VECTORS)
    state, obs = algorithm.init(KEY), np.zeros((20_000, 4), np.float32)
    greedy = int(algorithm.exploit(state, obs)[0])
    for step, epsilon in ((0, 1.0), (2_500, 0.505), (5_000, 0.01), (40_000, 0.01)):
        actions = np.asarray(algorithm.explore(state, obs, jnp.int32(step), KEY))
        assert np.mean(actions != greedy) == pytest.approx(epsilon * 2 / 3, abs=0.01)
        assert set(np.unique(actions)) == {0, 1, 2}


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (Spec(ArraySpec((4,)), Continuous(2)), "DQN needs discrete actions, but this environment has 2 continuous"),
        (Spec(ArraySpec((4, 4), "uint8"), Discrete(2)), "DQN needs vectors or images, but"),
        (
            Spec(ArraySpec((10, 10, 1), "uint8"), Discrete(2)),
            "images of 10×10 are too small for convolutions of 8×, 4×",
        ),
    ],
)
def test_what_it_cannot_learn(spec: Spec, sentence: str) -> None:
    with pytest.raises(SmrlError, match=sentence):
        dqn(DQN(), spec)


@pytest.mark.parametrize(
    ("hyper", "sentence"),
    [
        ({"target_every": 10}, "target_every must be a multiple of the 4 agent steps per learning step, not 10"),
        ({"filters": (8, 8)}, "filters, kernels and strides must be as many, not 2, 3 and 3"),
        ({"epsilon": 2.0}, r"epsilon must be a number in \[0, 1\]"),
    ],
)
def test_what_contradicts_itself(hyper: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SmrlError, match=sentence):
        DQN(**hyper)
