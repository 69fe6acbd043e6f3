"""The PyBullet tasks of the paper, reimplemented from a description of pybullet-gym's "-MuJoCoEnv-v0" tasks.

Quirks of the original that change a task are kept by default, because published results include them; keywords that
begin with ``repair_`` remove them. Importing this module imports neither Gymnasium nor PyBullet.
"""

from typing import Any

TASKS: dict[str, tuple[str, dict[str, Any]]] = {  # class and its arguments, by Gymnasium id
    "HopperMuJoCoEnv-v0": ("PlanarEnv", {"robot": "hopper"}),
    "Walker2DMuJoCoEnv-v0": ("PlanarEnv", {"robot": "walker2d"}),
    "HalfCheetahMuJoCoEnv-v0": ("PlanarEnv", {"robot": "half_cheetah"}),
    "AntMuJoCoEnv-v0": ("AntEnv", {}),
}


def register() -> None:
    """Register the ids that Gymnasium does not know yet; it warns if an id is registered twice."""
    import gymnasium

    for id, (name, kwargs) in TASKS.items():
        if id not in gymnasium.registry:
            gymnasium.register(id, f"{__name__}.tasks:{name}", max_episode_steps=1000, kwargs=kwargs)
