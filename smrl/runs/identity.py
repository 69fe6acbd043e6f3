"""Which runs are the same: identity, folder and labels, from the settings as config.json holds them. Needs no JAX.

Runs of one identity differ in their seed and number of steps at most: they may be continued and averaged. Identity
decides which folder a run has; the name of the folder is for people.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain, count
from pathlib import Path
from typing import Any

from smrl.errors import SmrlError
from smrl.runs import manifests
from smrl.runs.config import CONFIG, read_config, upgraded

Settings = Mapping[str, Any]

ALWAYS_SHOWN = ("env", "algorithm", "reuse")  # in a label or beside it, whether they vary or not
LONGEST_NAME = 120
NAMES = {"drqv2": "DrQ-v2", "sac_pixels": "SAC from images"}  # of algorithms for people, where not in capitals

# Words of folder names that are shorter than the names of the settings.
_WORDS = {
    "batch_size": "batch",
    "fresh_batches": "fresh",
    "reset_every": "reset",
    "actor_hidden": "actor",
    "critic_hidden": "critic",
}
_SCHEDULE = re.compile(r"(\d+:\d+,)*\d+")


def flat(settings: Settings) -> dict[str, Any]:
    """The settings with the hyperparameters among them, and lists in place of tuples."""
    rest = {name: value for name, value in settings.items() if name != "hyper"}
    return {name: _listed(value) for name, value in {**rest, **settings.get("hyper", {})}.items()}


def identity(settings: Settings) -> dict[str, Any]:
    """What the seeds of one thing have in common: all settings but the seed and the number of steps."""
    return {name: value for name, value in flat(settings).items() if name not in ("seed", "steps")}


def canonical(settings: Settings) -> str:
    """The identity as a text that is equal for equal identities: 1 and 1.0 are the same number, order says nothing.

    None is left out, so that a run from before a setting existed equals one that does not use it.
    """
    return _canonical({name: value for name, value in identity(settings).items() if value is not None})


def digest(settings: Settings) -> str:
    """Eight hexadecimal digits of the identity."""
    return hashlib.sha256(canonical(settings).encode()).hexdigest()[:8]


def slug(settings: Settings, defaults: Settings) -> str:
    """A name for the folder: the algorithm, the reuse and all that differs from the defaults.

    >>> usual = {"tau": 0.005, "batch_size": 256, "hidden": (256, 256)}
    >>> slug({"algorithm": "sac", "reuse": "10", "tau": 0.01, "batch_size": 400, "hidden": (256, 256)}, usual)
    'sac-reuse10-tau0.01-batch400'
    """
    mine, usual = flat(settings), flat(defaults)
    different = [
        name
        for name in identity(settings)
        if name not in ALWAYS_SHOWN and (name not in usual or _canonical(mine[name]) != _canonical(usual[name]))
    ]
    reuse = mine["reuse"]
    if _SCHEDULE.fullmatch(reuse):
        reuse = reuse.replace(":", "until").replace(",", "then")
    name = _fit_for_files("-".join([mine["algorithm"], f"reuse{reuse}", *(_part(n, mine[n]) for n in different)]), ".")
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 9]}-{digest(settings)}"


def find(settings: Settings, defaults: Settings, runs: Path) -> Path:
    """The folder of a run below a folder of runs: where a run of these settings and seed is, or else where it belongs.

    What stored settings lack counts as in the defaults. A folder's label never holds runs of two identities.
    """
    mine = flat(settings)
    place = runs / (_fit_for_files(mine["env"], "-")[:LONGEST_NAME] or "-")
    wanted, seed = canonical({**defaults, **mine}), f"seed{mine['seed']}"
    labels = []
    for folder, stored in _runs(place, "*/*", defaults):
        if stored is not None and canonical(stored) == wanted:
            if folder.name == seed and stored["seed"] == mine["seed"]:
                return folder
            labels.append(folder.parent)

    def is_free(label: Path) -> bool:
        return all(
            folder.name != seed and stored is not None and canonical(stored) == wanted
            for folder, stored in _runs(label, "*", defaults)
        )

    names = _names(slug(settings, defaults), digest(settings))
    return next(label for label in chain(labels, (place / name for name in names)) if is_free(label)) / seed


def varying(several: Sequence[Settings]) -> list[str]:
    """The names of the settings that differ, without seed and steps.

    What differs only from one environment or algorithm to the other is not named, as their names say it already.
    """
    rows = [identity(settings) for settings in several]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["env"], row["algorithm"]), []).append(row)

    def differs(name: str, among: list[dict[str, Any]]) -> bool:
        return len({None if row.get(name) is None else _canonical(row[name]) for row in among}) > 1

    return [
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if any(differs(name, among) for among in ([rows] if name in ("env", "algorithm") else groups.values()))
    ]


def label(settings: Settings, names: Sequence[str]) -> str:
    """What a person calls a run: the algorithm, the reuse, and the settings of these names.

    >>> label({"algorithm": "sac", "env": "Hopper-v4", "reuse": "10:300000,1", "tau": 0.01}, ["env", "tau"])
    'SAC, reuse 10 until 300,000, then 1, tau 0.01'
    """
    mine = flat(settings)
    parts = [algorithm_words(mine["algorithm"]), f"reuse {reuse_words(mine['reuse'])}"]
    for name in names:
        if name in mine and name not in ALWAYS_SHOWN:
            value, plain = mine[name], name.replace("_", " ")
            parts.append(("" if value else "no ") + plain if isinstance(value, bool) else f"{plain} {words(value)}")
    return ", ".join(parts)


def title(settings: Settings) -> str:
    """Return what a person calls one run: its label, environment and seed."""
    return f"{label(settings, [])}, {settings['env']}, seed {settings['seed']}"


def algorithm_words(algorithm: str) -> str:
    """An algorithm's name for people: SAC, but my_module:cem as it is."""
    return algorithm if ":" in algorithm else NAMES.get(algorithm, algorithm.upper())


def reuse_words(reuse: str) -> str:
    """A reuse rule in words.

    >>> reuse_words("10"), reuse_words("10:300000,1"), reuse_words("my_module:rule")
    ('10', '10 until 300,000, then 1', 'my_module:rule')
    """
    if not _SCHEDULE.fullmatch(reuse):
        return reuse
    *pieces, last = reuse.split(",")
    steps = [f"{times} until {int(until):,}" for times, until in (piece.split(":") for piece in pieces)]
    return ", then ".join([*steps, last])


def words(value: Any) -> str:
    """The value of a setting for people, without loss.

    >>> words(200000.0), words(-0.0003), words([64, 64]), words(None), words(True)
    ('200,000', '−0.0003', '64×64', 'none', 'yes')
    """
    return _write(value, "×", lambda number: _digits(number, ",").replace("-", "−"))


def _part(name: str, value: Any) -> str:
    """A setting as a part of a folder's name: tau0.01, layernorm, nolayernorm, actor64x64."""
    word = _WORDS.get(name, name.replace("learning_rate", "lr").replace("_", ""))
    if isinstance(value, bool):
        return word if value else f"no{word}"
    return word + _write(value, "x", _digits)


def _write(value: Any, times: str, digits: Callable[[float], str]) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, int | float):
        return digits(value)
    if isinstance(value, list):
        return times.join(_write(item, times, digits) for item in value) or "empty"
    return value if isinstance(value, str) else _canonical(value)


def _digits(number: float, thousands: str = "") -> str:
    """All digits of a number; in scientific notation only where there would be very many."""
    if isinstance(number, float) and number and not 1e-16 < abs(number) < 1e16:
        return repr(number)
    return f"{Decimal(repr(_whole(number))):{thousands}f}"


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value


def _whole(value: Any) -> Any:
    """The value with floats such as 1.0 as integers, in lists and dictionaries too."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    return {name: _whole(item) for name, item in value.items()} if isinstance(value, dict) else value


def _canonical(value: Any) -> str:
    return json.dumps(_whole(value), sort_keys=True, separators=(",", ":"))


def _fit_for_files(name: str, substitute: str) -> str:
    """A name of characters that Linux, macOS and Windows allow in file names."""
    return re.sub(r"[^\w.+-]", substitute, name, flags=re.ASCII).strip(".")


def _runs(place: Path, pattern: str, defaults: Settings) -> Iterator[tuple[Path, dict[str, Any] | None]]:
    """The folders of runs with their settings, or None where those cannot be read."""
    for folder in sorted(place.glob(pattern)):
        stored = _stored(folder)
        if stored is not None:
            yield folder, {**defaults, **flat(stored)}
        elif (folder / CONFIG).exists():
            yield folder, None


def _stored(folder: Path) -> Settings | None:
    """The settings of a run by its config.json or, where that is damaged or gone, by its checkpoint."""
    try:
        return dict(read_config(folder)["settings"])
    except SmrlError:
        pass
    try:
        body = manifests.newest(folder / manifests.FOLDER)
        return dict(upgraded(body["facts"]["config"], folder / CONFIG)["settings"]) if body else None
    except (SmrlError, KeyError, TypeError):
        return None


def _names(first: str, digits: str) -> Iterator[str]:
    yield from (first, f"{first}-{digits}")
    yield from (f"{first}-{digits}-{number}" for number in count(2))
