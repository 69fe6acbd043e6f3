"""DrQ-v2: one full update against NumPy in float64 on small images; noise, resets, augmentation, what it refuses."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy_images import Floats, Named, assert_first_step, augmented, batch, disturbed, encode, leaves, mlp, part

from smrl.algorithms.drqv2 import DrQv2, State, drqv2
from smrl.errors import SmrlError
from smrl.presets import resolve
from smrl.types import ArraySpec, Continuous, Spec, UpdateContext

SPEC = Spec(ArraySpec((9, 9, 2), "uint8"), Continuous(2))
RATE, REACH, CLIP = 1e-3, 2, 0.3
SIZES: dict[str, Any] = {
    **{"filters": (3, 4), "kernels": (3, 2), "strides": (2, 1), "features": 5, "actor_hidden": (7, 6)},
    **{"critic_hidden": (6, 7), "learning_rate": RATE, "shift": REACH, "noise_steps": 100},
}
KEY, BATCH_KEY = jax.random.key(0), jax.random.key(9)
AGENT_STEP = 30  # σ = 0.7 · 1 + 0.3 · 0.1


def context(agent_step: int = AGENT_STEP) -> UpdateContext:
    return UpdateContext(jnp.int32(1), jnp.int32(0), 1, BATCH_KEY, jnp.int32(agent_step))


def trunk(params: Named, h: Floats) -> Floats:
    x = mlp(params, "MLP_0", h, "Trunk_0")
    x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    scale, bias = (part(params, "Trunk_0", "LayerNorm_0", name) for name in ("scale", "bias"))
    return np.tanh(x * scale + bias)


def policy(params: Named, h: Floats) -> Floats:
    return np.tanh(head(params, "MLP_0", trunk(params, h)))


def head(params: Named, module: str, x: Floats) -> Floats:
    """An MLP outside the trunk, which has one of the same name."""
    return mlp({name: value for name, value in params.items() if "Trunk" not in name}, module, x)


def critics(params: Named, h: Floats, action: Any) -> Floats:  # (2, batch)
    x = np.concatenate([trunk(params, h), action], 1)
    return np.stack([head(params, f"MLP_{index}", x)[:, 0] for index in range(2)])


def features(params: Named, images: Any) -> Floats:
    return encode(params, None, images, SIZES["strides"], centre=0.5)


def noise(key: Any, count: int) -> Any:
    return np.clip(0.73 * np.asarray(jax.random.normal(key, (count, 2)), np.float64), -CLIP, CLIP)


@pytest.mark.parametrize("augmentation", ["none", "reuse", "batch"])
def test_one_update_is_that_of_numpy(augmentation: Any) -> None:
    algorithm, data = drqv2(DrQv2(**SIZES, augmentation=augmentation), SPEC), batch(SPEC)
    first = algorithm.init(KEY)
    encoder, actor_now, critics_now = (part._replace(params=disturbed(part.params)) for part in first[:3])
    state = State(encoder, actor_now, critics_now, target_critics=disturbed(first.target_critics, seed=1))
    new, metrics = jax.jit(algorithm.update)(state, data, context(), KEY)

    shift_key, target_key, actor_key = jax.random.split(KEY, 3)
    data = augmented(data, augmentation, shift_key, BATCH_KEY, REACH)
    obs, next_obs = data.obs, data.next_obs
    eyes, actor, q, target_q = (
        leaves(tree) for tree in (state.encoder.params, state.actor.params, state.critics.params, state.target_critics)
    )
    next_h = features(eyes, next_obs)
    next_action = np.clip(policy(actor, next_h) + noise(target_key, 5), -1 + 1e-6, 1 - 1e-6)
    y = np.asarray(data.reward + data.discount * critics(target_q, next_h, next_action).min(0), np.float64)

    def critic_loss(params: Named) -> float:
        return float(((critics(params, features(params, obs), data.action) - y) ** 2).mean(1).sum())

    assert float(metrics["critic_loss"]) == pytest.approx(critic_loss(eyes | q), rel=1e-5)
    assert_first_step(critic_loss, eyes | q, state.encoder, new.encoder, RATE)
    assert_first_step(critic_loss, eyes | q, state.critics, new.critics, RATE)

    h, new_q = features(eyes, obs), leaves(new.critics.params)
    bounded = policy(actor, h) + noise(actor_key, 5)
    cut = np.clip(bounded, -1 + 1e-6, 1 - 1e-6) - bounded  # a constant for the gradient

    def actor_loss(params: Named) -> float:
        return float(-critics(new_q, h, policy(params, h) + noise(actor_key, 5) + cut).min(0).mean())

    assert float(metrics["actor_loss"]) == pytest.approx(actor_loss(actor), rel=1e-5)
    assert_first_step(actor_loss, actor, state.actor, new.actor, RATE)
    for name, value in leaves(new.target_critics).items():
        np.testing.assert_allclose(value, 0.01 * new_q[name] + 0.99 * target_q[name], rtol=1e-5, atol=1e-7)


def test_q_values_are_of_plain_images() -> None:
    algorithm, data = drqv2(DrQv2(**SIZES), SPEC), batch(SPEC)
    state = algorithm.init(KEY)
    eyes, actor, q = (leaves(part.params) for part in (state.encoder, state.actor, state.critics))
    h = features(eyes, data.obs)
    assert algorithm.q_values is not None
    assert algorithm.policy_sample is not None
    np.testing.assert_allclose(
        algorithm.q_values(state, data.obs, data.action), critics(q, h, data.action), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(algorithm.policy_sample(state, data.obs, KEY)[0], policy(actor, h), rtol=1e-4, atol=1e-5)


def test_noise_falls_over_agent_steps() -> None:
    algorithm = drqv2(DrQv2(**SIZES), SPEC)
    state, obs = algorithm.init(KEY), np.zeros((4_000, 9, 9, 2), np.uint8)
    state = state._replace(actor=jax.tree.map(jnp.zeros_like, state.actor))  # π = 0
    for step, scale in ((0, 1.0), (50, 0.55), (100, 0.1), (10_000, 0.1)):
        actions = np.asarray(algorithm.explore(algorithm.policy_params(state), obs, jnp.int32(step), KEY))
        assert np.abs(actions).max() <= 1
        # A share of 0.3829 of a Gaussian lies within half its standard deviation.
        assert np.mean(np.abs(actions) < scale / 2) == pytest.approx(0.3829, abs=0.03)
    assert algorithm.learn_every == 2


def test_a_reset_keeps_the_encoder_and_its_optimiser() -> None:
    algorithm, data = drqv2(DrQv2(**SIZES), SPEC), batch(SPEC)
    state, _ = jax.jit(algorithm.update)(algorithm.init(KEY), data, context(), KEY)
    assert algorithm.reset is not None
    new, fresh = algorithm.reset(state, jax.random.key(5)), algorithm.init(jax.random.key(5))

    def same(left: Any, right: Any) -> bool:
        return bool(jax.tree.all(jax.tree.map(np.array_equal, left, right)))

    for name in State._fields:
        assert same(getattr(new, name), getattr(state, name)) == (name == "encoder"), name
        assert same(getattr(new, name), getattr(fresh, name)) == (name != "encoder"), name


@pytest.mark.slow
def test_shifts_are_drawn_anew_in_every_reuse_or_once_per_batch() -> None:
    state = drqv2(DrQv2(**SIZES), SPEC).init(KEY)
    cases: Any = (("reuse", False), ("batch", True))
    for augmentation, is_same in cases:
        algorithm = drqv2(DrQv2(**SIZES, augmentation=augmentation, first_noise=0.0, last_noise=0.0), SPEC)
        update = jax.jit(algorithm.update)
        losses = [float(update(state, batch(SPEC), context(), jax.random.key(m))[1]["critic_loss"]) for m in range(3)]
        assert (len(set(losses)) == 1) == is_same
        assert (len(set(losses)) == 3) == (not is_same)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("cartpole-swingup", {"n_step": 3, "batch_size": 256, "noise_steps": 100_000}),
        ("cheetah-run", {"n_step": 3, "batch_size": 256, "noise_steps": 500_000}),
        ("reacher-easy", {"n_step": 3, "batch_size": 256, "noise_steps": 500_000}),
        ("walker-walk", {"n_step": 1, "batch_size": 512, "noise_steps": 100_000}),
        ("humanoid-run", {"n_step": 3, "noise_steps": 2_000_000, "learning_rate": 8e-5, "features": 100}),
    ],
)
def test_presets(task: str, expected: dict[str, Any]) -> None:
    settings = resolve("drqv2", f"dmc-pixels/{task}")
    common = {"reuse": "5", "steps": 500_000, "action_repeat": 2, "windows": "full", "warmup": 4_000}
    for name, value in (expected | common).items():
        found = getattr(settings, name) if hasattr(settings, name) else getattr(settings.hyper, name)
        assert found == value, name


def test_images_that_are_too_small() -> None:
    with pytest.raises(SmrlError, match=r"images of 8×8 are too small for convolutions of 3×, 3×, 3×, 3×; choose"):
        drqv2(DrQv2(), Spec(ArraySpec((8, 8, 9), "uint8"), Continuous(1)))
