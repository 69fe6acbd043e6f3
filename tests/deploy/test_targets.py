"""Every layer in every target, against the policy that JAX computes."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from specs import CONTINUOUS, vectors
from untrained_runs import IMAGES, SMALL, observations, random_state

from smrl.algorithms import registry
from smrl.deploy.description import Description, describe_policy
from smrl.deploy.export import TARGETS, TOLERANCE, compare
from smrl.deploy.policy import Network
from smrl.errors import SmrlError
from smrl.layers import Activation, Dense, Layer, LayerNorm, Normalise
from smrl.nn.networks import ACTIVATIONS
from smrl.types import ArraySpec, Continuous, Discrete, Spec

IMAGE = ArraySpec((21, 17, 6), "uint8", 2)
SCALED = Spec(ArraySpec((5,)), Continuous(3, (-2.0, 0.0, -30.0), (2.0, 1.0, 10.0)))
DOUBLE = Spec(ArraySpec((5,)), Continuous(4, (-0.1,) * 4, (0.3,) * 4, (2, 2), "float64"))
HALF = Spec(ArraySpec((5,)), Continuous(2, (-1.0,) * 2, (3.0,) * 2, (2,), "float16"))
CASES: dict[str, tuple[str, Spec, dict[str, Any]]] = {
    **{name: (name, vectors(5, 3), SMALL) for name in CONTINUOUS},
    "scaled actions": ("sac", SCALED, SMALL | {"activation": "elu"}),
    "darc, own critic": ("darc", SCALED, SMALL | {"acting": "own-critic", "layer_norm": True, "dropout": 0.1}),
    "simba": ("sac", SCALED, {"network": "simba", "actor_hidden": (6, 6), "critic_hidden": (6,)}),
    "darc, simba": ("darc", SCALED, {"network": "simba", "actor_hidden": (6,), "critic_hidden": (6, 6)}),
    "double actions": ("td3", DOUBLE, SMALL),
    "half actions": ("td3", HALF, SMALL),
    "dqn": ("dqn", Spec(ArraySpec((5,)), Discrete(4, start=-3)), {"hidden": (16, 8)}),
    "dqn from images": ("dqn", Spec(IMAGE, Discrete(4, start=2)), IMAGES | {"hidden": (16,)}),
    "sac_pixels": ("sac_pixels", Spec(IMAGE, SCALED.action), IMAGES | SMALL | {"features": 8, "activation": "gelu"}),
    "drqv2": ("drqv2", Spec(IMAGE, SCALED.action), IMAGES | SMALL | {"features": 8}),
}
# Algorithms that share the code of another one's policy, and dtypes, are left to `make test-slow`.
SLOW = ("td3", "sac", "tqc", "redq", "darc, own critic", "darc, simba", "half actions", "sac_pixels")


def policy(algorithm: str, spec: Spec, hyper: dict[str, Any]) -> tuple[Description, np.ndarray, np.ndarray]:
    """Return a policy's description, observations, and its actions for them."""
    entry = registry.find(algorithm)
    made = entry.make(entry.config(**hyper), spec)
    params = made.policy_params(random_state(made))
    assert made.network is not None
    description = describe_policy(made.network(params), spec, algorithm, {"algorithm": algorithm})
    obs = observations(spec, np.random.default_rng(0), 200)
    return description, obs, spec.action.decoder()(np.asarray(jax.jit(made.exploit)(params, obs)))


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CASES]
)
def test_every_target_computes_the_policy(case: str, tmp_path: Path) -> None:
    description, obs, wanted = policy(*CASES[case])
    assert len(np.unique(wanted, axis=0)) > 1, "the actions depend on the observations"
    for name, target in TARGETS.items():
        if name == "c" and description.is_image:
            with pytest.raises(SmrlError, match="sees images: export it with --to onnx"):
                target.write(tmp_path, description)
            continue
        target.write(tmp_path, description)
        act, _ = target.load(tmp_path, description)
        difference, ties = compare(description, obs, wanted, act(obs))
        assert difference < TOLERANCE / 3, name
        assert ties == 0
        one = act(obs[:1])
        assert one.dtype == wanted.dtype
        assert compare(description, obs[:1], wanted[:1], one)[0] < TOLERANCE / 3, "at batch 1"
        if isinstance(description.spec.action, Continuous):
            low, high = description.spec.action.bounds
            flat = act(1e6 * obs if not description.is_image else obs).reshape(len(obs), -1)
            assert ((flat >= low) & (flat <= high)).all(), "also where rounding would exceed a bound"


def test_actors_and_critics_of_darc_matter() -> None:
    """Both actors are chosen, and other critics choose otherwise."""
    description, obs, _ = policy(*CASES["darc"])
    (layer,), arrays = description.described
    best, own = (
        Network([layer | {"layer": "actor_values", "own_critic": own}], arrays)(obs).argmax(-1) for own in (False, True)
    )
    assert 0 < best.mean() < 1
    assert (best != own).mean() > 0.1


@pytest.mark.parametrize("name", TARGETS)
def test_activations_are_those_of_the_networks(name: str, tmp_path: Path) -> None:
    x = np.linspace(-8, 8, 64, dtype=np.float32)
    for function, wanted in ACTIVATIONS.items():
        description = describe_policy([Activation(function)], vectors(64, 64), "by hand", {})
        TARGETS[name].write(tmp_path, description)
        act, _ = TARGETS[name].load(tmp_path, description)
        np.testing.assert_allclose(act(x[None])[0], np.asarray(wanted(jnp.asarray(x))), atol=2e-6, err_msg=function)


@pytest.mark.parametrize("name", TARGETS)
def test_normalisation_clips(name: str, tmp_path: Path) -> None:
    """clip((obs − mean) · scale, ±limit), by hand."""
    mean, scale = np.array([1, -2, 0], np.float32), np.array([2, 0.5, 100], np.float32)
    layers: list[Layer] = [
        Normalise(mean, scale, 10.0),
        Dense(np.eye(3, dtype=np.float32) / 10, np.zeros(3, np.float32)),
    ]
    description = describe_policy(layers, vectors(3, 3), "by hand", {})
    TARGETS[name].write(tmp_path, description)
    act, _ = TARGETS[name].load(tmp_path, description)
    actions = act(np.array([[1, -2, 0], [2, 0, 0.01], [100, -100, 100], [-1e30, 1e30, -1e38]], np.float32))
    wanted = np.array([[0, 0, 0], [0.2, 0.1, 0.1], [1, -1, 1], [-1, 1, -1]])
    np.testing.assert_allclose(actions, wanted, atol=1e-6)


@pytest.mark.parametrize("name", TARGETS)
def test_layer_norm_of_equal_numbers_is_the_bias(name: str, tmp_path: Path) -> None:
    ones = np.ones(3, np.float32)
    description = describe_policy([LayerNorm(ones, ones / 4, 1e-5), Activation("relu")], vectors(3, 3), "by hand", {})
    TARGETS[name].write(tmp_path, description)
    act, _ = TARGETS[name].load(tmp_path, description)
    np.testing.assert_allclose(act(np.full((2, 3), 7, np.float32)), 0.25, atol=1e-6)
