"""Warnings of the simulator MuJoCo: to Python's logging, and not to a file in the working directory."""

import contextlib
import importlib
import logging
import re

logger = logging.getLogger(__name__)
_said: set[str] = set()


def to_logging() -> None:
    """Log what MuJoCo warns of from now on, unless somebody else handles it.

    Without a handler MuJoCo prints a warning and appends it to MUJOCO_LOG.TXT. dm_control has a handler of its own.
    """
    with contextlib.suppress(Exception):  # whoever needs MuJoCo and cannot import it is told so by the environment
        mujoco = importlib.import_module("mujoco")
        if mujoco.get_mju_user_warning() is None:
            mujoco.set_mju_user_warning(_log)


def _log(message: str) -> None:
    """Log a warning, once of its kind: a simulation that is unstable is so again and again.

    That a model has deprecated attributes is no warning but an information, which Python does not show by default:
    Gymnasium's own models have them.
    """
    with contextlib.suppress(Exception):  # MuJoCo aborts the process if this raises
        kind = re.split(r"\d", message, maxsplit=1)[0]  # without the joint and the time
        if kind not in _said:
            _said.add(kind)
            level = logging.INFO if "deprecated" in message else logging.WARNING
            logger.log(level, "MuJoCo: %s (said once per process)", message.strip())
