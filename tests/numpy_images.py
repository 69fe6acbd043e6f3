"""Networks of images in NumPy and float64, by loops over pixels, and gradients by finite differences."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import pytest

from smrl.nn.optimiser import TrainState
from smrl.types import Spec, Transition

Floats = npt.NDArray[np.float64]
Named = dict[str, Floats]  # parameters by path


def leaves(params: Any) -> Named:
    """Parameters by path, in float64."""
    named = jax.tree_util.tree_leaves_with_path(params)
    return {jax.tree_util.keystr(path): np.asarray(leaf, np.float64) for path, leaf in named}


def part(params: Named, *names: str) -> Floats:
    return params["['params']" + "".join(f"['{name}']" for name in names)]


def encode(params: Named, module: str | None, images: Any, strides: Sequence[int], centre: float = 0.0) -> Floats:
    """Convolutions without padding, ReLU after each; the features of an image in the order row, column, filter."""
    x = np.asarray(images, np.float64) / 255 - centre
    path = (module,) if module else ()
    for index, stride in enumerate(strides):
        kernel, bias = (part(params, *path, f"Conv_{index}", name) for name in ("kernel", "bias"))
        side = (x.shape[1] - len(kernel)) // stride + 1
        y = np.zeros((len(x), side, side, kernel.shape[-1]))
        for row in range(side):
            for column in range(side):
                top, left = row * stride, column * stride
                patch = x[:, top : top + len(kernel), left : left + len(kernel), :]
                y[:, row, column] = np.einsum("nijc,ijcf->nf", patch, kernel) + bias
        x = np.maximum(y, 0)
    return x.reshape(len(x), -1)


def mlp(params: Named, module: str, x: Any, *path: str) -> Floats:
    """Linear layers with ReLU between them."""
    x = np.asarray(x, np.float64)
    count = sum(f"['{module}']" in name and "kernel" in name for name in params if all(p in name for p in path))
    for index in range(count):
        kernel, bias = (part(params, *path, module, f"Dense_{index}", name) for name in ("kernel", "bias"))
        x = x @ kernel + bias
        x = np.maximum(x, 0) if index + 1 < count else x
    return x


def _shifted(images: Any, corners: Any, reach: int) -> npt.NDArray[np.uint8]:
    """Every image moved so that this corner of the padded image becomes its own."""
    batch, height, width, _ = images.shape
    moved = np.empty_like(images)
    for index in range(batch):
        for row in range(height):
            for column in range(width):
                source_row = min(max(row + corners[index][0] - reach, 0), height - 1)
                source_column = min(max(column + corners[index][1] - reach, 0), width - 1)
                moved[index, row, column] = images[index, source_row, source_column]
    return moved


def batch(spec: Spec, size: int = 5) -> Transition:
    """A batch of random experience, with some terminations."""
    rng = np.random.default_rng(3)

    def obs() -> Any:
        if spec.obs.dtype == "uint8":
            return rng.integers(0, 256, (size, *spec.obs.shape)).astype(np.uint8)
        return rng.normal(size=(size, *spec.obs.shape)).astype(np.float32)

    discount = np.where(rng.random(size) < 0.3, 0, 0.9).astype(np.float32)
    reward = rng.normal(size=size).astype(np.float32)
    return Transition(obs(), spec.action.random(rng, size), reward, discount, obs())


def disturbed(params: Any, seed: int = 0) -> Any:
    """Parameters off zero: where all biases are zero, a ReLU may stand at its kink, which has no gradient."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: leaf + 0.05 * rng.normal(size=leaf.shape).astype(np.float32), params)


def augmented(data: Transition, augmentation: str, shift_key: Any, batch_key: Any, reach: int) -> Transition:
    """The batch with its images shifted as the algorithms draw it: from the key of the batch or of the update."""
    if augmentation == "none":
        return data
    keys = jax.random.split(batch_key if augmentation == "batch" else shift_key)
    obs, next_obs = (
        _shifted(images, np.asarray(jax.random.randint(key, (len(images), 2), 0, 2 * reach + 1)), reach)
        for images, key in zip((data.obs, data.next_obs), keys, strict=True)
    )
    return data._replace(obs=obs, next_obs=next_obs)


def assert_first_step(
    loss: Callable[[Named], float], params: Named, before: TrainState, after: TrainState, learning_rate: float
) -> None:
    """Adam's first step down the loss: its first moment is a tenth of the gradient, and every parameter moves by the
    learning rate against the sign of its gradient. Some places of every array are tried."""
    moments, updated = leaves(after.optimiser[0].mu), leaves(after.params)
    own = leaves(before.params)
    assert own.keys() <= params.keys()
    rng, seen = np.random.default_rng(4), 0
    for name, values in own.items():
        scale = np.abs(moments[name]).max() * 10
        for place in rng.integers(0, values.size, min(values.size, 8)):
            index = np.unravel_index(place, values.shape)
            sides = []
            for change in (1e-6, -1e-6):
                moved = values.copy()
                moved[index] += change
                sides.append(loss(params | {name: moved}))
            gradient = (sides[0] - sides[1]) / 2e-6
            assert moments[name][index] * 10 == pytest.approx(gradient, rel=1e-3, abs=1e-4 * scale + 1e-7), name
            if abs(gradient) > 1e-3 * scale:
                step = -learning_rate * np.sign(gradient)
                assert updated[name][index] - values[index] == pytest.approx(step, rel=1e-2), name
                seen += 1
    assert seen > 20
