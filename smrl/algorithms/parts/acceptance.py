"""Checks that an algorithm can handle an environment."""

from smrl.errors import SmrlError
from smrl.types import Continuous, Discrete, Spec


def continuous_control(spec: Spec, algorithm: str) -> int:
    """Check that observations are vectors and actions continuous; return the number of action dimensions."""
    size = _continuous_actions(spec, algorithm)
    if len(spec.obs.shape) != 1:
        raise SmrlError(
            f"{algorithm} needs a vector of observations, but this environment gives {_described(spec)}; sac_pixels "
            "and drqv2 learn from images."
        )
    return size


def image_control(spec: Spec, algorithm: str) -> int:
    """Check that observations are images and actions continuous; return the number of action dimensions."""
    size = _continuous_actions(spec, algorithm)
    if len(spec.obs.shape) != 3:
        raise SmrlError(f"{algorithm} needs images, but this environment gives {_described(spec)}.")
    return size


def discrete_control(spec: Spec, algorithm: str) -> int:
    """Check that observations are vectors or images and actions discrete; return the number of actions."""
    if not isinstance(spec.action, Discrete):
        raise SmrlError(f"{algorithm} needs discrete actions, but this environment has {spec.action}.")
    if len(spec.obs.shape) not in (1, 3):
        raise SmrlError(f"{algorithm} needs vectors or images, but this environment gives {_described(spec)}.")
    return spec.action.count


def _continuous_actions(spec: Spec, algorithm: str) -> int:
    if not isinstance(spec.action, Continuous):
        raise SmrlError(f"{algorithm} needs continuous actions, but this environment has {spec.action}.")
    return spec.action.size


def _described(spec: Spec) -> str:
    shape = spec.obs.shape
    if len(shape) == 1:
        return f"vectors of {shape[0]} numbers"
    return f"{spec.obs.dtype} images of {'×'.join(map(str, shape))}"
