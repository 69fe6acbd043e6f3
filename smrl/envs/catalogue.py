"""What can be trained on without writing an environment."""

import importlib.util

import gymnasium

from smrl.envs import dmc
from smrl.envs.bullet.registration import IDS

FAMILIES = {"Gym MuJoCo": "gymnasium.envs.mujoco.", "classic control": "gymnasium.envs.classic_control."}
DISCRETE = ("Acrobot", "CartPole", "MountainCar-", "phys2d")
TOO_OLD = ("Pusher-v4",)  # Gymnasium refuses it with the simulator of today
OLDEST_MUJOCO = 4  # earlier versions need a simulator of their own, and Gymnasium only says so


def families() -> dict[str, str]:
    """Ids with continuous actions by family, and how to name any other."""
    found = {title: ", ".join(_ids(module)) for title, module in FAMILIES.items()}
    found["PyBullet"] = ", ".join(IDS) + ("" if importlib.util.find_spec("pybullet") else "; needs smrl[pybullet]")
    is_there = importlib.util.find_spec("dm_control")
    found["DeepMind Control"] = ", ".join(dmc.names()) if is_there else "dmc/cheetah-run and others; needs smrl[dmc]"
    return found | {"your own": "any Gymnasium id, or module:id; smrl check-env tells whether it is fit"}


def _ids(module: str) -> list[str]:
    specs = [spec for spec in gymnasium.registry.values() if str(spec.entry_point).startswith(module)]
    return sorted(
        spec.id
        for spec in specs
        if not spec.id.startswith(DISCRETE + TOO_OLD)
        and ("mujoco" not in module or (spec.version or 0) >= OLDEST_MUJOCO)
    )
