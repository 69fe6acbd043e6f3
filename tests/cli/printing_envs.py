"""An environment that prints 100,000 lines, some of them past Python and some that look like news of a worker."""

import os
import sys
from typing import Any

import gymnasium
from broken_envs import Toy

LINES = 100_000


class Printing(Toy):
    printed = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if not Printing.printed:
            Printing.printed = True
            for number in range(LINES // 4):
                print(f"line {number} of the simulator\nnull")
                print('["fail", "this is not news"]', file=sys.stderr)
                os.write(1, b"printed past Python\n")
        return super().reset(seed=seed)


gymnasium.register("Printing-v0", f"{__name__}:{Printing.__name__}", max_episode_steps=20)
