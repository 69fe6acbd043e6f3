"""A trained policy: observations in, actions in the environment's units out."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from smrl.types import Spec


@dataclass(frozen=True)
class Policy:
    """The greedy policy of a run, for one observation or a batch of them."""

    spec: Spec
    act: Callable[[np.ndarray], np.ndarray]  # (batch, *obs) → (batch, *action) as the algorithm has them
    decode: Callable[[np.ndarray], np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "decode", self.spec.action.decoder())

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Choose actions; an observation may have the environment's shape or be flat.

        >>> action = policy(obs)                                                  # doctest: +SKIP
        """
        given = np.asarray(obs, self.spec.obs.dtype)
        is_one = given.size == np.prod(self.spec.obs.shape) and given.ndim <= len(self.spec.obs.shape)
        actions = self.decode(self.act(given.reshape(-1, *self.spec.obs.shape)))
        return actions[0] if is_one else actions
