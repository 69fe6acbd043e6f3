"""`smrl …` up to the first update: `python -m benchmarks.first_update train sac HalfCheetah-v4` ends after it."""

import os
import sys

from smrl.cli.main import main
from smrl.memory.mixed import MixedReplay
from smrl.memory.replay import Replay
from smrl.training.agent import Agent
from smrl.training.clock import Moment

learn = Agent.learn


def learn_once(self: Agent, replay: Replay | MixedReplay, moment: Moment) -> None:
    """Make the first update and exit at once."""
    learn(self, replay, moment)
    os._exit(0)


if __name__ == "__main__":
    Agent.learn = learn_once  # type: ignore[method-assign]
    main(sys.argv[1:])
    sys.exit("no update was made")
