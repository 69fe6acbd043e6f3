"""List what can be trained on without writing an environment. Importing this module imports no environments."""

import importlib
import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass

from smrl.errors import nearest, require

OWN = "your own"
DMC_DOMAINS = (  # a table, because importing dm_control takes a second; humanoid_CMU comes before humanoid
    *("acrobot", "ball_in_cup", "cartpole", "cheetah", "dog", "finger", "fish", "hopper", "humanoid_CMU", "humanoid"),
    *("lqr", "manipulator", "pendulum", "point_mass", "quadruped", "reacher", "stacker", "swimmer", "walker"),
)


@dataclass(frozen=True)
class Family:
    """A suite of tasks: the paper's, how the others are named, and what must be installed."""

    tasks: tuple[str, ...]
    others: str
    find: Callable[[], list[str]]  # returns all ids
    package: str = "gymnasium"
    extra: str = ""

    @property
    def is_installed(self) -> bool:
        """Return whether the package is installed, without importing it."""
        return importlib.util.find_spec(self.package) is not None

    def __str__(self) -> str:
        return ", ".join(self.tasks) + self.others + ("" if self.is_installed else f"; needs smrl[{self.extra}]")


def families() -> dict[str, str]:
    """Return a description of each family of environments."""
    own = "any Gymnasium id, module:id or module:function; smrl check-env checks it for common problems"
    return {name: str(family) for name, family in FAMILIES.items()} | {OWN: own}


def ids(family: str) -> list[str]:
    """Import a family and return the ids of all its tasks; none if it is not installed."""
    require(family in families(), f"there is no family of environments {family!r}{nearest(family, families())}")
    return FAMILIES[family].find() if family != OWN and FAMILIES[family].is_installed else []


def canonical(env: str) -> str:
    """Return the one name of a task that `smrl list` prints; tasks of the DeepMind Control suite have several.

    >>> canonical("dmc/cheetah_run"), canonical("dm_control/cheetah-run-v0"), canonical("dmc-pixels/cup-catch")
    ('dmc/cheetah-run', 'dmc/cheetah-run', 'dmc-pixels/ball_in_cup-catch')
    """
    module, colon, name = env.rpartition(":")
    prefix, _, rest = name.partition("/")
    found = re.fullmatch(f"(cup|{'|'.join(DMC_DOMAINS)})_(.+)", rest.replace("-", "_"))
    if prefix not in ("dmc", "dmc-pixels", "dm_control") or not found:
        return env
    domain, task = found.groups()
    if prefix == "dm_control":  # Shimmy's ids have a version, which as in Shimmy may be left out
        prefix, task = "dmc", task.removesuffix("_v0")
    return f"{module}{colon}{prefix}/{'ball_in_cup' if domain == 'cup' else domain}-{task}"


def _registered(pattern: str, entry_point: str = "") -> list[str]:
    """Return the registered ids that match a pattern and whose entry point begins with this."""
    import gymnasium

    specs = gymnasium.registry.values()
    return sorted(
        spec.id for spec in specs if re.fullmatch(pattern, spec.id) and str(spec.entry_point).startswith(entry_point)
    )


def _bullet() -> list[str]:
    from smrl.envs.suites import bullet

    bullet.simulator()  # without the message that PyBullet prints when another package imports it
    if importlib.util.find_spec("pybullet_envs_gymnasium"):
        importlib.import_module("pybullet_envs_gymnasium")
    return [*bullet.TASKS, *_registered(".*BulletEnv-v0")]


def _dmc(prefix: str) -> list[str]:
    from smrl.envs.suites import dmc

    return dmc.names(prefix)


def _atari() -> list[str]:
    importlib.import_module("ale_py")
    return _registered("ALE/.*|.*NoFrameskip-v4")


FAMILIES = {
    "Gym MuJoCo": Family(
        ("Hopper-v4", "HalfCheetah-v4", "Walker2d-v4", "Ant-v4"),
        "; also Humanoid, HumanoidStandup, InvertedPendulum, InvertedDoublePendulum, Pusher, Reacher, Swimmer; "
        "-v4 or -v5",
        # Earlier versions need a simulator that Gymnasium no longer has, and it refuses Pusher-v4 with today's MuJoCo.
        lambda: _registered(r"(?!Pusher-v4).*-v[4-9]", "gymnasium.envs.mujoco."),
    ),
    "classic control": Family(
        ("Pendulum-v1", "MountainCarContinuous-v0"),
        "; with discrete actions Acrobot-v1, CartPole-v0, CartPole-v1, MountainCar-v0",
        lambda: _registered(".*", "gymnasium.envs.classic_control."),
    ),
    "PyBullet": Family(
        ("HopperMuJoCoEnv-v0", "Walker2DMuJoCoEnv-v0", "HalfCheetahMuJoCoEnv-v0", "AntMuJoCoEnv-v0"),
        "; also HopperBulletEnv-v0 and others",
        _bullet,
        "pybullet",
        "pybullet",
    ),
    "DeepMind Control": Family(
        (
            *("dmc/acrobot-swingup", "dmc/ball_in_cup-catch", "dmc/cartpole-balance", "dmc/cartpole-swingup"),
            *("dmc/cartpole-swingup_sparse", "dmc/cheetah-run", "dmc/finger-spin", "dmc/finger-turn_easy"),
            *("dmc/finger-turn_hard", "dmc/fish-swim", "dmc/fish-upright", "dmc/hopper-hop", "dmc/hopper-stand"),
            *("dmc/quadruped-run", "dmc/quadruped-walk", "dmc/reacher-easy", "dmc/reacher-hard"),
            *("dmc/walker-run", "dmc/walker-stand", "dmc/walker-walk"),
        ),
        "; also dmc/DOMAIN-TASK of all other tasks",
        lambda: _dmc("dmc/"),
        "dm_control",
        "dmc",
    ),
    "DeepMind Control in images": Family(
        (
            *("dmc-pixels/ball_in_cup-catch", "dmc-pixels/cartpole-swingup", "dmc-pixels/cheetah-run"),
            *("dmc-pixels/finger-spin", "dmc-pixels/reacher-easy", "dmc-pixels/walker-walk"),
        ),
        "; also dmc-pixels/DOMAIN-TASK of all other tasks",
        lambda: _dmc("dmc-pixels/"),
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
        ": a ball to catch in 10×10 pixels, for first experiments",
        lambda: ["smrl/Catch-v0", "smrl/CatchContinuous-v0"],
    ),
}
