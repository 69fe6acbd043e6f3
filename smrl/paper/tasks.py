"""The paper's task lists by name. Importing this module imports no environments.

Most task names appear only in the paper's figures, which are pictures without text: a task that the text or the tables
do not name for a study is marked as our guess.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from smrl.envs.catalogue import FAMILIES
from smrl.errors import SmrlError, nearest

NAMED, GUESSED = "named in the paper", "our guess"


@dataclass(frozen=True)
class TaskList:
    """The tasks of one study of the paper by their ids in smrl, and those that the paper names for it."""

    title: str
    tasks: tuple[str, ...]
    named: tuple[str, ...] = ()

    def marked(self) -> Iterator[tuple[str, str]]:
        """Return each task with the source of its name."""
        return ((task, NAMED if task in self.named else GUESSED) for task in self.tasks)


_GYM = FAMILIES["Gym MuJoCo"].tasks  # -v4 for the paper's -v2
_DMC = FAMILIES["DeepMind Control"].tasks
_EASY = ("dmc/cartpole-balance", "dmc/ball_in_cup-catch", "dmc/finger-spin", "dmc/walker-stand")
_LONG = tuple(task for task in _DMC if task not in _EASY)  # the easy ones need no 1,000,000 steps
_UTD = ("dmc/cheetah-run", "dmc/fish-swim", "dmc/finger-turn_hard", "dmc/reacher-hard")
_PIXELS = tuple(
    f"dmc-pixels/{task}"
    for task in ("cartpole-swingup", "cheetah-run", "ball_in_cup-catch", "finger-spin", "reacher-easy", "walker-walk")
)
_ATARI = tuple(f"{game}NoFrameskip-v4" for game in ("Pong", "Breakout", "BeamRider", "SpaceInvaders"))

LISTS = {
    "gym": TaskList("Gym MuJoCo, all algorithms with continuous actions", _GYM, _GYM),
    "dmc": TaskList("DeepMind Control from states, 500,000 steps of SAC", _DMC, _UTD),
    "dmc-main": TaskList(
        "the tasks of dmc in the main text's figure; we guess the hardest of each of eight domains",
        (
            *("dmc/acrobot-swingup", "dmc/cheetah-run", "dmc/finger-turn_hard", "dmc/fish-swim"),
            *("dmc/hopper-hop", "dmc/quadruped-run", "dmc/reacher-hard", "dmc/walker-run"),
        ),
    ),
    "dmc-1m": TaskList("the tasks of dmc with 1,000,000 steps of SAC", _LONG, _UTD[2:]),
    "dmc-utd": TaskList("SAC-UTD against SAC with reuse, 1,000,000 steps", _UTD, _UTD[:2]),
    "dmc-pixels": TaskList("DeepMind Control from images, SAC and DrQ-v2", _PIXELS, _PIXELS),
    "pybullet": TaskList("PyBullet, 500,000 steps of SAC", FAMILIES["PyBullet"].tasks),
    "atari": TaskList("Atari, DQN", _ATARI, _ATARI),
}


def find(name: str) -> TaskList:
    """Return the list of a name; an unknown name is refused with the nearest known one."""
    if name not in LISTS:
        raise SmrlError(f"there is no task list '{name}' among {', '.join(LISTS)}{nearest(name, LISTS)}")
    return LISTS[name]
