"""What the hyperparameters that all or several algorithms share do to their networks and updates."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from specs import CONTINUOUS, SOFT, vectors

from smrl.algorithms import registry
from smrl.errors import SmrlError
from smrl.nn.networks import ACTIVATIONS
from smrl.types import Algorithm, Transition, UpdateContext

SPEC = vectors(3, 2)
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,)}
FEW: dict[str, dict[str, Any]] = {"tqc": {"critics": 2, "atoms": 5}, "redq": {"critics": 2}}
KEY = jax.random.key(0)


def made(name: str, **hyper: Any) -> Algorithm[Any]:
    entry = registry.find(name)
    return entry.make(entry.config(**SMALL | FEW.get(name, {}) | hyper), SPEC)


def batch() -> Transition:
    rng = np.random.default_rng(0)
    shapes = ((16, 3), (16, 2), (16,), (16,), (16, 3))
    return Transition(*(rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes))


def updated(algorithm: Algorithm[Any], steps: int = 1) -> Any:
    state, update = jax.jit(algorithm.init)(KEY), jax.jit(algorithm.update)
    for step in range(1, steps + 1):
        context = UpdateContext(jnp.int32(step), jnp.int32(0), 1, KEY, jnp.int32(0))
        state, _ = update(state, batch(), context, jax.random.fold_in(KEY, step))
    return state


def flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def q_values(algorithm: Algorithm[Any], state: Any) -> Any:
    assert algorithm.q_values is not None
    return algorithm.q_values(state, batch().obs, batch().action)


@pytest.mark.parametrize(
    ("name", "activation"),
    [
        *(("sac", "elu"), ("ddpg", "tanh")),
        *(pytest.param("sac", one, marks=pytest.mark.slow) for one in ACTIVATIONS if one != "elu"),
        pytest.param("darc", "tanh", marks=pytest.mark.slow),
    ],
)
def test_the_activation_is_that_of_actor_and_critics(name: str, activation: str) -> None:
    """The same weights give other actions and other values."""
    algorithm, usual = made(name, activation=activation), made(name)
    state, obs = usual.init(KEY), batch().obs
    policy = usual.policy_params(state)
    for one, other in (
        (algorithm.exploit(policy, obs), usual.exploit(policy, obs)),
        (q_values(algorithm, state), q_values(usual, state)),
    ):
        assert np.allclose(one, other) == (activation == "relu")


@pytest.mark.parametrize("name", SOFT)
def test_a_fixed_temperature_stays(name: str) -> None:
    fixed, learned = updated(made(name, temperature=0.3), 3), updated(made(name), 3)
    assert np.exp(fixed.log_alpha.params) == pytest.approx(0.3, rel=1e-6)
    assert int(optax.tree.get(fixed.log_alpha.optimiser, "count")) == 0
    assert int(optax.tree.get(learned.log_alpha.optimiser, "count")) == 3
    assert float(learned.log_alpha.params) != 0


@pytest.mark.parametrize("name", SOFT)
def test_log_std_is_bounded(name: str) -> None:
    """With nearly no spread a sample is the greedy action, and with much of it tanh is 1 or −1."""
    obs = batch().obs
    narrow, wide = made(name, log_std_min=-30, log_std_max=-20), made(name, log_std_min=5, log_std_max=6)
    policy = narrow.policy_params(narrow.init(KEY))
    np.testing.assert_allclose(narrow.explore(policy, obs, jnp.int32(0), KEY), narrow.exploit(policy, obs), atol=1e-6)
    assert np.median(np.abs(wide.explore(policy, obs, jnp.int32(0), KEY))) > 0.999
    with pytest.raises(SmrlError, match="log_std_min must be below log_std_max, but 3 is not below 2"):
        made(name, log_std_min=3)


def test_sac_moves_its_targets_at_every_interval_th_learning_step() -> None:
    algorithm = made("sac", target_interval=3)
    start = flat(algorithm.init(KEY).target_critics)
    assert np.array_equal(flat(updated(algorithm, 2).target_critics), start)
    moved = updated(algorithm, 3)
    np.testing.assert_allclose(
        flat(moved.target_critics), 0.005 * flat(moved.critics.params) + 0.995 * start, rtol=1e-5, atol=1e-7
    )
    assert not np.array_equal(flat(updated(made("sac"), 1).target_critics), start)


@pytest.mark.parametrize(
    ("name", "flag", "value"),
    [
        *(("ddpg", flag, value) for flag, value in (("adam_beta1", 0.5), ("adam_beta2", 0.9), ("weight_decay", 0.1))),
        *((name, "adam_epsilon", 0.1) for name in ("ddpg", "sac")),
        *(
            pytest.param(name, "adam_epsilon", 0.1, marks=pytest.mark.slow)
            for name in CONTINUOUS
            if name not in ("ddpg", "sac")
        ),
        ("ddpg", "gradient_clip", 1e-6),
    ],
)
def test_adam_s_flags_reach_actor_and_critics(name: str, flag: str, value: float) -> None:
    """After two updates, since the first step of Adam is the same for all β."""
    one, other = updated(made(name, **{flag: value}), 2), updated(made(name), 2)
    for part in ("actors" if name == "darc" else "actor", "critics"):
        assert not np.array_equal(flat(getattr(one, part)), flat(getattr(other, part))), part


@pytest.mark.parametrize("name", ["ddpg", "sac", "darc"])
def test_xavier_has_no_biases(name: str) -> None:
    state = jax.jit(made(name, initialisation="xavier").init)(KEY)
    for part in ("actors" if name == "darc" else "actor", "critics"):
        named = jax.tree_util.tree_leaves_with_path(getattr(state, part).params)
        biases = [leaf for path, leaf in named if "bias" in str(path)]
        assert biases
        assert not any(np.any(bias) for bias in biases)


@pytest.mark.slow
def test_tqc_s_huber_parameter() -> None:
    """Where it is as small as this, every error is beyond it and the loss shrinks with it."""
    metrics = [made("tqc", huber=huber) for huber in (1e-3, 2e-3)]
    state = metrics[0].init(KEY)
    context = UpdateContext(jnp.int32(1), jnp.int32(0), 1, KEY, jnp.int32(0))
    small, large = (float(one.update(state, batch(), context, KEY)[1]["critic_loss"]) for one in metrics)
    assert large / small == pytest.approx(2, rel=0.05)


SIMBA: dict[str, Any] = {"network": "simba"}
OWN_PARTS = "network simba has ReLU, its own layer normalisation and no dropout: leave out"


@pytest.mark.parametrize(
    ("hyper", "message"),
    [
        (SIMBA | {"layer_norm": True}, OWN_PARTS),
        (SIMBA | {"dropout": 0.1}, OWN_PARTS),
        (
            SIMBA | {"activation": "elu"},
            OWN_PARTS,
        ),
        (
            SIMBA | {"critic_hidden": (8, 16)},
            "blocks of network simba must have the same width, not 8,16; critic_hidden 8,8 is 2 of width 8",
        ),
        ({"weight_projection": True}, "add layer_norm, or network simba"),
        ({"temperature": 0.2, "initial_temperature": 0.1}, "temperature fixes it at 0.2: leave out one of them"),
        ({"target_entropy": -1.0, "target_entropy_factor": -0.5}, "both set the target entropy: leave out one of them"),
        ({"initial_temperature": 0}, "initial_temperature must be a positive number, not 0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(hyper: dict[str, Any], message: str) -> None:
    with pytest.raises(SmrlError, match=message):
        made("sac", **hyper)


def test_simba_s_initial_weights() -> None:
    """Orthogonal in the first and the last layer, of variance 2/fan_in in the blocks, and zero biases."""
    state = made("sac", network="simba", actor_hidden=(16,), critic_hidden=(64, 64)).init(KEY)
    params = state.critics.params[0]["params"]["MLP_0"]
    dense = [params[f"Dense_{index}"] for index in range(6)]
    assert [layer["kernel"].shape for layer in dense] == [(5, 64), (64, 256), (256, 64), (64, 256), (256, 64), (64, 1)]
    first, last = dense[0]["kernel"], dense[-1]["kernel"]
    np.testing.assert_allclose(first @ first.T, np.eye(5), atol=1e-5)
    np.testing.assert_allclose(last.T @ last, np.eye(1), atol=1e-5)
    for layer in dense[1:-1]:
        np.testing.assert_allclose(np.var(layer["kernel"]), 2 / len(layer["kernel"]), rtol=0.1)
    assert not any(np.any(layer["bias"]) for layer in dense)
    assert sorted(name for name in params if name.startswith("LayerNorm")) == [f"LayerNorm_{k}" for k in range(3)]


def test_the_target_entropy_has_a_factor() -> None:
    """The temperature falls where the entropy is above the target: one update moves it otherwise for another target."""
    alphas = [
        float(updated(made("sac", initial_temperature=0.1, target_entropy_factor=factor)).log_alpha.params)
        for factor in (-50.0, 50.0)
    ]
    assert alphas[0] < np.log(0.1) < alphas[1]
    same = [updated(made("sac", **given)) for given in ({"target_entropy_factor": -0.5}, {"target_entropy": -1.0})]
    assert np.array_equal(flat(same[0]), flat(same[1]))
