"""Checks that an algorithm can handle an environment."""

from smrl.errors import SmrlError
from smrl.types import Continuous, Spec


def continuous_control(spec: Spec, algorithm: str) -> int:
    """Check that observations are vectors and actions continuous; return the number of action dimensions."""
    if not isinstance(spec.action, Continuous):
        raise SmrlError(f"{algorithm} needs continuous actions, but this environment has {spec.action}.")
    if len(spec.obs.shape) != 1:
        images = f"{spec.obs.dtype} images of {'×'.join(map(str, spec.obs.shape))}"
        raise SmrlError(f"{algorithm} needs a vector of observations, but this environment gives {images}.")
    return spec.action.size
