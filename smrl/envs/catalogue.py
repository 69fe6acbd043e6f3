"""What can be trained on without writing an environment. Importing this module imports no environments."""

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

from smrl.envs.suites.bullet.registration import IDS
from smrl.errors import nearest, require

OWN = "your own"
OLDEST_MUJOCO = 4  # version of Gymnasium's tasks; earlier ones need a simulator that Gymnasium no longer has
TOO_OLD = "Pusher-v4"  # Gymnasium refuses it with the MuJoCo of today


@dataclass(frozen=True)
class Family:
    """Tasks that come together: those of the paper, how the others are named, and what must be installed."""

    tasks: tuple[str, ...]
    others: str
    find: Callable[[], list[str]]  # all ids
    package: str = "gymnasium"
    extra: str = ""

    @property
    def is_there(self) -> bool:
        """Whether the package is installed, found out without importing it."""
        return importlib.util.find_spec(self.package) is not None

    def __str__(self) -> str:
        return ", ".join(self.tasks) + self.others + ("" if self.is_there else f"; needs smrl[{self.extra}]")


def families() -> dict[str, str]:
    """A description of each family of environments."""
    own = "any Gymnasium id, module:id or module:function; smrl check-env tells whether it is fit"
    return {name: str(family) for name, family in FAMILIES.items()} | {OWN: own}


def ids(family: str) -> list[str]:
    """The ids of all tasks of a family, which is imported for it; none if it is not installed."""
    require(family in families(), f"there is no family of environments {family!r}{nearest(family, families())}")
    return FAMILIES[family].find() if family != OWN and FAMILIES[family].is_there else []


def _mujoco() -> list[str]:
    return [id for id, version in _registered("mujoco") if version >= OLDEST_MUJOCO and id != TOO_OLD]


def _classic() -> list[str]:
    return [id for id, _ in _registered("classic_control")]


def _registered(suite: str) -> list[tuple[str, int]]:
    """Ids and versions of one of Gymnasium's own suites."""
    import gymnasium

    specs = [
        spec for spec in gymnasium.registry.values() if str(spec.entry_point).startswith(f"gymnasium.envs.{suite}.")
    ]
    return sorted((spec.id, spec.version or 0) for spec in specs)


def _bullet() -> list[str]:
    import gymnasium

    from smrl.envs.suites.bullet.simulator import simulator

    simulator()  # without what PyBullet prints when another package imports it
    if importlib.util.find_spec("pybullet_envs_gymnasium"):
        importlib.import_module("pybullet_envs_gymnasium")
    return [*IDS, *sorted(id for id in gymnasium.registry if id.endswith("BulletEnv-v0"))]


def _dmc() -> list[str]:
    from smrl.envs.suites import dmc

    return dmc.names()


def _pixels() -> list[str]:
    from smrl.envs.suites import dmc

    return dmc.names(dmc.PIXELS)


def _atari() -> list[str]:
    import gymnasium

    importlib.import_module("ale_py")
    return sorted(id for id in gymnasium.registry if id.startswith("ALE/") or id.endswith("NoFrameskip-v4"))


FAMILIES = {
    "Gym MuJoCo": Family(
        ("Hopper-v4", "HalfCheetah-v4", "Walker2d-v4", "Ant-v4"),
        "; also Humanoid, HumanoidStandup, InvertedPendulum, InvertedDoublePendulum, Pusher, Reacher, Swimmer; "
        "-v4 or -v5",
        _mujoco,
    ),
    "classic control": Family(
        ("Pendulum-v1", "MountainCarContinuous-v0"),
        "; with discrete actions Acrobot-v1, CartPole-v0, CartPole-v1, MountainCar-v0",
        _classic,
    ),
    "PyBullet": Family(IDS, "; also HopperBulletEnv-v0 and others", _bullet, "pybullet", "pybullet"),
    "DeepMind Control": Family(
        (
            *("dmc/acrobot-swingup", "dmc/ball_in_cup-catch", "dmc/cartpole-balance", "dmc/cartpole-swingup"),
            *("dmc/cartpole-swingup_sparse", "dmc/cheetah-run", "dmc/finger-spin", "dmc/finger-turn_easy"),
            *("dmc/finger-turn_hard", "dmc/fish-swim", "dmc/fish-upright", "dmc/hopper-hop", "dmc/hopper-stand"),
            *("dmc/quadruped-run", "dmc/quadruped-walk", "dmc/reacher-easy", "dmc/reacher-hard"),
            *("dmc/walker-run", "dmc/walker-stand", "dmc/walker-walk"),
        ),
        "; also dmc/DOMAIN-TASK of all other tasks",
        _dmc,
        "dm_control",
        "dmc",
    ),
    "DeepMind Control in images": Family(
        (
            *("dmc-pixels/ball_in_cup-catch", "dmc-pixels/cartpole-swingup", "dmc-pixels/cheetah-run"),
            *("dmc-pixels/finger-spin", "dmc-pixels/reacher-easy", "dmc-pixels/walker-walk"),
        ),
        "; also dmc-pixels/DOMAIN-TASK of all other tasks",
        _pixels,
        "dm_control",
        "dmc",
    ),
    "Atari": Family(
        ("PongNoFrameskip-v4", "BreakoutNoFrameskip-v4", "BeamRiderNoFrameskip-v4", "SpaceInvadersNoFrameskip-v4"),
        "; also all other games, and all of them as ALE/Pong-v5",
        _atari,
        "ale_py",
        "atari",
    ),
    "small images": Family(
        ("smrl/Catch-v0", "smrl/CatchContinuous-v0"),
        ": a ball to catch in 10×10 pixels, for first tries",
        lambda: ["smrl/Catch-v0", "smrl/CatchContinuous-v0"],
    ),
}
