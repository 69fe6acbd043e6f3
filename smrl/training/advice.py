"""What a user should know before a run starts."""

import re
from typing import Any

from smrl.envs.suites import atari
from smrl.settings import Settings
from smrl.smr.rules import Schedule, rule_of


def cost_of_reuse(settings: Settings[Any]) -> str | None:
    """A sentence on what reuse costs on Atari, where the paper advises against it; None elsewhere."""
    rule = rule_of(settings.reuse)
    times = max(rule.values) if isinstance(rule, Schedule) else 2
    if times == 1 or not re.fullmatch(atari.IDS, settings.env.rpartition(":")[2]):
        return None
    factor = f"{times} times" if isinstance(rule, Schedule) else "many times"
    return (
        f"reuse makes up to {factor} the updates, and the paper advises against it on Atari for its cost: with reuse "
        "10 its DQN took 8.7 times as long on Pong. --reuse 1 is plain DQN."
    )
