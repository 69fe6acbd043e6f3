"""SAC from images: one full update against NumPy in float64 on small images; resets, initial weights, presets."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy_images import Floats, Named, assert_first_step, augmented, batch, encode, leaves, mlp

from smrl.algorithms.sac_pixels import SACPixels, State, sac_pixels
from smrl.errors import SmrlError
from smrl.presets import resolve
from smrl.types import ArraySpec, Continuous, Spec, UpdateContext

SPEC = Spec(ArraySpec((9, 9, 2), "uint8"), Continuous(2))
RATE, REACH, TAU = 1e-3, 2, 0.005
SIZES: dict[str, Any] = {
    **{"filters": (3, 4), "kernels": (3, 2), "strides": (2, 1), "features": 5, "actor_hidden": (7, 6)},
    **{"critic_hidden": (6, 7), "learning_rate": RATE, "shift": REACH},
}
KEY, BATCH_KEY = jax.random.key(0), jax.random.key(9)
TICK = UpdateContext(jnp.int32(1), jnp.int32(0), 1, BATCH_KEY, jnp.int32(0))


def features(params: Named, images: Any) -> Floats:
    return mlp(params, "MLP_0", encode(params, "Encoder_0", images, SIZES["strides"]))


def sample(params: Named, h: Floats, key: Any) -> tuple[Floats, Floats]:
    """tanh of a Gaussian and its log-probability."""
    mean, log_std = np.split(mlp(params, "MLP_0", h), 2, axis=1)
    log_std = np.clip(log_std, -20, 2)
    noise = np.asarray(jax.random.normal(key, mean.shape), np.float64)
    action = np.tanh(mean + np.exp(log_std) * noise)
    log_gaussian = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi)
    return action, (log_gaussian - np.log(1 - action**2)).sum(1)


def critics(both: tuple[Named, Named], h: Floats, action: Any) -> Floats:  # (2, batch)
    return np.stack([mlp(params, "MLP_0", np.concatenate([h, action], 1))[:, 0] for params in both])


def members(params: Any) -> tuple[Named, Named]:
    return leaves(params[0]), leaves(params[1])


@pytest.mark.parametrize("augmentation", ["none", "reuse", "batch"])
def test_one_update_is_that_of_numpy(augmentation: Any) -> None:
    algorithm, data = sac_pixels(SACPixels(**SIZES, augmentation=augmentation), SPEC), batch(SPEC)
    first = algorithm.init(KEY)
    other = jax.tree.map(lambda leaf: leaf * 1.3 + 0.01, (first.target_encoder, first.target_critics))
    alpha = 0.6
    state = first._replace(
        target_encoder=other[0],
        target_critics=other[1],
        log_alpha=first.log_alpha._replace(params=jnp.log(jnp.float32(alpha))),
    )
    new, metrics = jax.jit(algorithm.update)(state, data, TICK, KEY)

    shift_key, target_key, _, actor_key = jax.random.split(KEY, 4)
    data = augmented(data, augmentation, shift_key, BATCH_KEY, REACH)
    obs, next_obs = data.obs, data.next_obs
    eyes, actor, q = leaves(state.encoder.params), leaves(state.actor.params), members(state.critics.params)
    next_action, log_prob = sample(actor, features(eyes, next_obs), jax.random.split(target_key)[0])
    next_q = critics(members(state.target_critics), features(leaves(state.target_encoder), next_obs), next_action)
    y = np.asarray(data.reward + data.discount * (next_q.min(0) - alpha * log_prob), np.float64)

    def critic_loss(eyes: Named, both: tuple[Named, Named]) -> float:
        return float(((critics(both, features(eyes, obs), data.action) - y) ** 2).mean(1).sum())

    assert float(metrics["critic_loss"]) == pytest.approx(critic_loss(eyes, q), rel=1e-5)
    assert_first_step(lambda params: critic_loss(params, q), eyes, state.encoder, new.encoder, RATE)

    def loss_by_path(params: Named) -> float:
        both = tuple({name.removeprefix(f"[{i}]"): v for name, v in params.items() if f"[{i}]" in name} for i in (0, 1))
        return critic_loss(eyes, (both[0], both[1]))

    assert_first_step(loss_by_path, leaves(state.critics.params), state.critics, new.critics, RATE)

    h, new_q = features(eyes, obs), members(new.critics.params)  # the features of before the step
    action_key = jax.random.split(actor_key)[0]

    def actor_loss(params: Named) -> float:
        action, log_prob = sample(params, h, action_key)
        return float((alpha * log_prob - critics(new_q, h, action).min(0)).mean())

    assert float(metrics["actor_loss"]) == pytest.approx(actor_loss(actor), rel=1e-5)
    assert_first_step(actor_loss, actor, state.actor, new.actor, RATE)
    entropy = -sample(actor, h, action_key)[1].mean()
    moment = float(new.log_alpha.optimiser[0].mu)
    assert moment * 10 == pytest.approx(alpha * (entropy + 2), rel=1e-4)  # the target entropy is −2
    for online, target, followed in (
        (new.encoder.params, state.target_encoder, new.target_encoder),
        (new.critics.params, state.target_critics, new.target_critics),
    ):
        expected = {name: TAU * value + (1 - TAU) * leaves(target)[name] for name, value in leaves(online).items()}
        for name, value in leaves(followed).items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-7)


def test_a_reset_keeps_the_encoder_its_optimiser_and_its_target() -> None:
    algorithm = sac_pixels(SACPixels(**SIZES), SPEC)
    state, _ = jax.jit(algorithm.update)(algorithm.init(KEY), batch(SPEC), TICK, KEY)
    assert algorithm.reset is not None
    new, fresh = algorithm.reset(state, jax.random.key(5)), algorithm.init(jax.random.key(5))

    def same(left: Any, right: Any) -> bool:
        return bool(jax.tree.all(jax.tree.map(np.array_equal, left, right)))

    for name in State._fields:
        kept = name in ("encoder", "target_encoder")
        assert same(getattr(new, name), getattr(state, name)) == kept, name
        assert same(getattr(new, name), getattr(fresh, name)) != kept, name


def test_initial_weights() -> None:
    """Orthogonal weights have gain √2 in convolutions and 1 in linear layers; PyTorch's are bounded by 1/√fan-in."""

    def found(initialisation: Any) -> Named:
        return leaves(sac_pixels(SACPixels(**SIZES, initialisation=initialisation), SPEC).init(KEY).encoder.params)

    paths = [f"['params']{path}['kernel']" for path in ("['Encoder_0']['Conv_0']", "['MLP_0']['Dense_0']")]
    for path, gain in zip(paths, (2**0.5, 1.0), strict=True):
        weights = found("orthogonal")[path]
        flat = weights.reshape(-1, weights.shape[-1])
        np.testing.assert_allclose(flat.T @ flat, gain**2 * np.eye(flat.shape[1]), atol=1e-5)
    convolution = found("torch")[paths[0]]
    assert 0.8 / 18**0.5 < np.abs(convolution).max() <= 1 / 18**0.5


def test_the_paper() -> None:
    settings = resolve("sac_pixels", "dmc-pixels/finger-spin")
    assert (settings.reuse, settings.steps, settings.action_repeat, settings.batch_size) == ("5", 100_000, 2, 256)
    algorithm = sac_pixels(settings.hyper, Spec(ArraySpec((84, 84, 9), "uint8"), Continuous(2)))
    encoder = jax.eval_shape(algorithm.init, KEY).encoder.params
    shapes = {jax.tree_util.keystr(path): leaf.shape for path, leaf in jax.tree_util.tree_leaves_with_path(encoder)}
    assert shapes["['params']['MLP_0']['Dense_0']['kernel']"] == (288, 200)


def test_images_that_are_too_small() -> None:
    with pytest.raises(SmrlError, match=r"images of 30×30 are too small for convolutions of 7×, 5×, 3×, 3×; choose"):
        sac_pixels(SACPixels(), Spec(ArraySpec((30, 30, 9), "uint8"), Continuous(1)))
