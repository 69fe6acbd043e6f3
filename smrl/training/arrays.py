"""A pytree as named arrays and back; the names are the same for stacked ensembles (GPU) and unstacked ones (CPU)."""

from typing import Any

import jax
import numpy as np

from smrl.errors import SmrlError
from smrl.nn.networks import MEMBERS

Path = tuple[Any, ...]


def to_arrays(tree: Any) -> dict[str, np.ndarray]:
    """The leaves of a pytree by their path; a stacked leaf is split into those of its members."""
    arrays: dict[str, np.ndarray] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(jax.device_get(tree))[0]:
        if MEMBERS in path:
            arrays |= dict(zip(_member_names(path, len(leaf)), map(np.asarray, leaf), strict=True))
        else:
            arrays[jax.tree_util.keystr(path)] = np.asarray(leaf)
    return arrays


def from_arrays(template: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A pytree of the template's structure from `to_arrays`' answer."""

    def find(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        if name not in arrays or arrays[name].shape != shape or arrays[name].dtype != dtype:
            raise SmrlError(f"the checkpoint does not fit this algorithm at {name}; it is of another version.")
        return arrays[name]

    def leaf(path: Path, like: Any) -> jax.Array:
        if MEMBERS in path:
            names = _member_names(path, like.shape[0])
            return jax.numpy.array(np.stack([find(name, like.shape[1:], like.dtype) for name in names]))
        return jax.numpy.array(find(jax.tree_util.keystr(path), like.shape, like.dtype))

    return jax.tree_util.tree_map_with_path(leaf, template)


def _member_names(path: Path, size: int) -> list[str]:
    """Names of the members' leaves in the unstacked layout."""
    place = path.index(MEMBERS)
    before, after = (jax.tree_util.keystr(part) for part in (path[:place], path[place + 1 :]))
    return [f"{before}[{index}]{after}" for index in range(size)]
