"""Reading config.json, whichever version of smrl wrote it. Needs no JAX.

Format 3: settings, spec, env_source, threads, backend, cpu, versions, machine, git_commit, and a checksum of what
the numbers of the run depend on (settings, spec, threads); files from before it was added have none.
Format 2: the flags of Adam, of networks and of the temperature did not exist, nor TQC's order of steps; REDQ had one
setting, its flavour, for what are several now.
Format 1: experiment in place of settings, sizes in place of a spec, and no number that says so.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smrl.errors import SmrlError, require

FORMAT = 3
CONFIG = "config.json"

_COMMON = {  # what the algorithms of format 2 did before they had settings for it
    **{"activation": "relu", "initialisation": "torch", "weight_decay": 0.0, "gradient_clip": None},
    **{"adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8},
}
_SOFT = _COMMON | {
    **{"temperature": "auto", "temperature_loss": "alpha", "log_prob_floor": 0.0},
    **{"log_std_min": -20.0, "log_std_max": 2.0},
}
_DEFAULTS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("ddpg", "td3", "darc"), _COMMON),
    "sac": _SOFT | {"target_interval": 1},
    "tqc": _SOFT | {"temperature_loss": "log-alpha", "huber": 1.0, "order": "together"},
    "redq": _SOFT | {"order": "critics-first", "first_temperature": None},
}
_FLAVOURS: dict[str, dict[str, Any]] = {
    "authors": {"initialisation": "small-last", "critic_loss": "mean"},
    "original": {
        "critic_loss": "sum",
        "initialisation": "xavier",
        "log_prob_floor": 1e-6,
        "temperature_loss": "log-alpha",
        "first_temperature": 0.2,
        "order": "together",
        "exploration": "sample",
    },
}
_OPTIONAL = ("env_source", "switches", "backend", "cpu", "machine", "git_commit")  # None where the run does not say
_SETTINGS = {"algorithm": str, "env": str, "reuse": str, "seed": int, "steps": int, "hyper": dict}


def read_config(path: Path) -> dict[str, Any]:
    """The config.json of a run's folder, upgraded to the present format; the file stays as it is."""
    file = path / CONFIG
    return upgraded(_load(file), file)


def upgraded(config: dict[str, Any], file: Path) -> dict[str, Any]:
    """A config of any format in the present one; ``file`` is where it was read, for messages."""
    number = config.get("format", 1)
    require(not isinstance(number, int) or number <= FORMAT, f"{file} was written by a newer smrl; update smrl.")
    try:
        if number == 1:
            config = _from_format_1(config)
        elif number not in range(2, FORMAT + 1):
            raise ValueError(f"its format is {number!r}")
        _check(config)
        if number < FORMAT:
            config = _from_format_2(config)
    except KeyError as error:
        raise damaged(file, f"it lacks {error}") from None
    except (TypeError, ValueError) as error:
        raise damaged(file, str(error)) from None
    return dict.fromkeys(_OPTIONAL) | config


def checksum(config: Mapping[str, Any]) -> str:
    """SHA-256 of what the numbers of a run depend on."""
    decisive = [config[name] for name in ("settings", "spec", "threads")]
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


class Damaged(SmrlError):
    """A file of a run cannot be used."""


def damaged(file: Path, reason: str) -> Damaged:
    """The error for a file of a run that cannot be used; what was trained is never thrown away."""
    run = file.parent
    return Damaged(
        f"{file} is damaged: {reason}; smrl repair {run} restores it from the run's checkpoint; if there is none, move "
        f"{run} out of the runs folder to train anew."
    )


def read_text(file: Path) -> str:
    """The text of a file of a run."""
    folder = file.parent
    try:
        return file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        what = f"is not a run: it has no {file.name}" if folder.exists() else "does not exist"
        raise SmrlError(f"{folder} {what}; give the folder of a run.") from None
    except OSError as error:
        raise SmrlError(f"{file} cannot be read ({error.strerror}); check its permissions.") from None
    except UnicodeDecodeError:
        raise damaged(file, "it is not text") from None


def _load(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(read_text(file))
    except (ValueError, RecursionError):
        raise damaged(file, "it is not JSON") from None
    if not isinstance(config, dict):
        raise damaged(file, "it holds no settings")
    return config


def _from_format_1(config: dict[str, Any]) -> dict[str, Any]:
    settings = dict(config["experiment"])
    hyper = settings.pop("hyper")
    low, high = config["action_bounds"]
    size = config["spec"]["action_size"]
    action = {"size": size, "low": low, "high": high, "shape": [size], "dtype": "float32"}
    obs = {"shape": [config["spec"]["obs_size"]], "dtype": "float32"}
    rest = {name: value for name, value in config.items() if name not in ("experiment", "variant", "action_bounds")}
    return rest | {"settings": settings | {"hyper": hyper}, "spec": {"obs": obs, "action": action}}


def _from_format_2(config: dict[str, Any]) -> dict[str, Any]:
    settings = {"reward_scale": 1.0, "windows": "partial"} | config["settings"]
    hyper = _DEFAULTS.get(settings["algorithm"], {}) | settings["hyper"]
    if flavour := hyper.pop("flavour", None):
        hyper |= _FLAVOURS[flavour]
    config = config | {"format": FORMAT, "settings": settings | {"hyper": hyper}}
    return config | ({"checksum": checksum(config)} if "checksum" in config else {})


def _check(config: dict[str, Any]) -> None:
    """Raise a KeyError or ValueError for what is missing or cannot be meant."""
    for name, kind in {"settings": dict, "spec": dict, "threads": int, "versions": dict}.items():
        if not isinstance(config[name], kind):
            raise ValueError(f"its {name} cannot be {config[name]!r}")
    config["spec"]["obs"], config["spec"]["action"]
    for name, kind in _SETTINGS.items():
        if not isinstance(config["settings"][name], kind):
            raise ValueError(f"its {name} cannot be {config['settings'][name]!r}")
    if config.get("checksum") not in (None, checksum(config)):
        raise ValueError("its settings, spec or threads are not those that were written")
