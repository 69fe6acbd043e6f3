"""Which runs belong together, and what they are called, from settings as config.json holds them.

Runs of one identity differ at most in seed, number of steps and how they are evaluated, so they may be continued and
averaged. The identity decides which folder a run has (`smrl.runs.paths`); the name of the folder is only for people.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

Settings = Mapping[str, Any]

ALWAYS_SHOWN = ("env", "algorithm", "reuse")  # shown in or beside every label, whether they vary or not
EVALUATION = ("eval_every", "eval_episodes")  # in real time they are part of the identity: the device plays them
LONGEST_NAME = 59  # characters of a folder's name
NAMES = {"drqv2": "DrQ-v2", "sac_pixels": "SAC from images"}  # algorithms whose display name is not in capitals

# Words in folder names and labels that are shorter than the names of the settings.
_SHORT_NAMES = {
    "batch_size": "batch",
    "fresh_batches": "fresh",
    "action_repeat": "repeat",
    "image_size": "image",
    "max_episode_steps": "episode steps",
    "normalise_observations": "normalised observations",
    "normalise_rewards": "normalised rewards",
    "pad_observations": "padding",
    "reset_every": "reset",
    "actor_hidden": "actor",
    "critic_hidden": "critic",
    "data_share": "share",
    "from_run": "from",
}
# Values that mean what smrl did before these settings existed; None and False always do.
_FIRST_VALUES = {
    "network": "mlp",
    "weight_decay_form": "l2",
    "initial_temperature": 1,
    "delay": 1,
    "target_entropy_factor": -1,
}
_CHOSEN = {"auto": " up to ", "budget": " of "}  # rules that choose M, and the words before their limit
_SCHEDULE = re.compile(r"(\d+:\d+,)*\d+")


def flat(settings: Settings) -> dict[str, Any]:
    """Return the settings with the hyperparameters among them, and lists instead of tuples."""
    rest = {name: value for name, value in settings.items() if name != "hyper"}
    return {name: _as_lists(value) for name, value in {**rest, **settings.get("hyper", {})}.items()}


def identity(settings: Settings) -> dict[str, Any]:
    """Return the settings that identify an experiment: everything except seed, steps and how it is evaluated."""
    mine = flat(settings)
    left_out = ("seed", "steps", *(() if mine.get("real_time") else EVALUATION))
    return {name: value for name, value in mine.items() if name not in left_out}


def canonical(settings: Settings) -> str:
    """Return the identity as a text that is equal for equal identities: 1 equals 1.0, and the order does not matter.

    Settings that are not used are left out, so that a run from before a setting existed equals one without it.
    """
    return _canonical({name: value for name, value in identity(settings).items() if _is_used(name, value)})


def digest(settings: Settings) -> str:
    """Return eight hexadecimal digits of a hash of the identity."""
    return hashlib.sha256(canonical(settings).encode()).hexdigest()[:8]


def slug(settings: Settings, usual: Settings, word: str | None = None, attempt: int = 0) -> str:
    """Return a name for the folder: the algorithm, the reuse, what differs from the usual values, and the user's word.

    The usual values may be those of a preset, whose name is their value ``preset``. The name of a later ``attempt``,
    because others are taken, ends in the digest, and so does one that would be too long, of which settings are left
    out.

    >>> usual = {"tau": 0.005, "batch_size": 256, "hidden": (256, 256)}
    >>> slug({"algorithm": "sac", "reuse": "10", "tau": 0.01, "batch_size": 400, "hidden": (256, 256)}, usual, "test")
    'sac-reuse10-tau0.01-batch400-test'
    """
    mine, known = flat(settings), flat(usual)
    names = [name for name in identity(settings) if name not in ALWAYS_SHOWN and not _is_usual(mine, known, name)]
    reuse = mine["reuse"]
    if _SCHEDULE.fullmatch(reuse):
        reuse = reuse.replace(":", "until").replace(",", "then")
    elif reuse.partition(":")[0] in _CHOSEN:
        reuse = reuse.replace(":", "")
    parts = [f"{mine['algorithm']}-reuse{reuse}", known.get("preset", ""), *(_part(name, mine[name]) for name in names)]
    first, *parts = (file_name(part, ".") for part in parts if part)
    end = ["" if word is None else f"-{word}", "", f"-{attempt}" if attempt > 1 else ""]
    if attempt or len("-".join([first, *parts]) + end[0]) > LONGEST_NAME:
        end[1] = f"-{digest(settings)}"
    room = LONGEST_NAME - len("".join(end))
    while parts and len("-".join([first, *parts])) > room:
        parts.pop()
    return "-".join([first, *parts])[:room] + "".join(end)


def varying(several: Sequence[Settings]) -> list[str]:
    """Return the names of the settings that differ and are part of the identity.

    A setting that differs only between environments or algorithms is left out: their names distinguish them already.
    """
    rows = [identity(settings) for settings in several]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["env"], row["algorithm"]), []).append(row)

    def differs(name: str, among: list[dict[str, Any]]) -> bool:
        return len({_canonical(row[name]) if _is_used(name, row.get(name)) else None for row in among}) > 1

    return [
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if any(differs(name, among) for among in ([rows] if name in ("env", "algorithm") else groups.values()))
    ]


def label(settings: Settings, names: Sequence[str], usual: Settings | None = None) -> str:
    """Return a label for people: the algorithm, the reuse, and the settings of these names that are not as usual.

    A setting that is not used is left out. The usual values may be those of a preset, as for `slug`.

    >>> mine = {"algorithm": "sac", "env": "Hopper-v4", "reuse": "10:300000,1", "tau": 0.01, "reset_every": None}
    >>> label(mine, ["env", "tau", "reset_every"]), label(mine, ["tau"], {"tau": 0.01})
    ('SAC, reuse 10 until 300,000, then 1, tau 0.01', 'SAC, reuse 10 until 300,000, then 1')
    """
    mine, known = flat(settings), flat(usual or {})
    parts = [algorithm_words(mine["algorithm"]), f"reuse {reuse_words(mine['reuse'])}"]
    if names and "preset" in known:
        parts.append(known["preset"])
    for name in (name for name in names if name in mine and name not in ALWAYS_SHOWN):
        value, plain = mine[name], short_name(name)
        if not (_is_usual(mine, known, name) or (not _is_used(name, value) and not _is_used(name, known.get(name)))):
            parts.append(("" if value else "no ") + plain if isinstance(value, bool) else f"{plain} {words(value)}")
    return ", ".join(parts)


def title(settings: Settings) -> str:
    """Return a title for one run: algorithm, reuse, environment and seed.

    >>> title({"algorithm": "sac", "env": "Hopper-v4", "reuse": "10", "seed": 0, "hyper": {"tau": 0.01}})
    'SAC, reuse 10, Hopper-v4, seed 0'
    """
    return f"{label(settings, [])}, {settings['env']}, seed {settings['seed']}"


def algorithm_words(algorithm: str) -> str:
    """Return an algorithm's display name: SAC for sac, but my_module:cem unchanged."""
    return algorithm if ":" in algorithm else NAMES.get(algorithm, algorithm.upper())


def short_name(name: str) -> str:
    """Return the words for a setting in labels.

    >>> short_name("batch_size"), short_name("actor_learning_rate"), short_name("noise_steps")
    ('batch', 'actor lr', 'noise steps')
    """
    return _SHORT_NAMES.get(name, name.replace("learning_rate", "lr").replace("_", " "))


def reuse_words(reuse: str) -> str:
    """Describe a reuse rule.

    >>> reuse_words("10"), reuse_words("10:300000,1"), reuse_words("auto:20"), reuse_words("budget:2h")
    ('10', '10 until 300,000, then 1', 'auto up to 20', 'budget of 2h')
    """
    if (words := _CHOSEN.get(reuse.partition(":")[0])) is not None:
        return reuse.replace(":", words)
    if not _SCHEDULE.fullmatch(reuse):
        return reuse
    *pieces, last = reuse.split(",")
    steps = [f"{times} until {int(until):,}" for times, until in (piece.split(":") for piece in pieces)]
    return ", then ".join([*steps, last])


def words(value: Any) -> str:
    """Write the value of a setting for people, without loss.

    >>> words(200000.0), words(-0.0003), words([64, 64]), words(None), words(True)
    ('200,000', '−0.0003', '64×64', 'none', 'yes')
    """
    return _write(value, "×", lambda number: _digits(number, ",").replace("-", "−"))


def file_name(name: str, substitute: str) -> str:
    """Replace the characters of a name that Linux, macOS or Windows do not allow in file names."""
    return re.sub(r"[^\w.+-]", substitute, name, flags=re.ASCII).strip(".")


def _part(name: str, value: Any) -> str:
    """Return a setting as a part of a folder's name: tau0.01, layernorm, nolayernorm, actor64x64."""
    word = short_name(name).replace(" ", "")
    if isinstance(value, bool):
        return word if value else f"no{word}"
    return word + _write(value, "x", _digits)


def _write(value: Any, times: str, digits: Callable[[float], str]) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, int | float):
        return digits(value)
    if isinstance(value, list):
        times = "+" if any(isinstance(item, str) for item in value) else times
        return times.join(_write(item, times, digits) for item in value) or "empty"
    return value if isinstance(value, str) else _canonical(value)


def _digits(number: float, thousands: str = "") -> str:
    """Write all digits of a number, in scientific notation only if there would be very many."""
    if isinstance(number, float) and number and not 1e-16 < abs(number) < 1e16:
        return repr(number)
    return f"{Decimal(repr(_as_integers(number))):{thousands}f}"


def _as_lists(value: Any) -> Any:
    return [_as_lists(item) for item in value] if isinstance(value, list | tuple) else value


def _as_integers(value: Any) -> Any:
    """Replace floats such as 1.0 by integers, also in lists and dictionaries."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list | tuple):
        return [_as_integers(item) for item in value]
    return {name: _as_integers(item) for name, item in value.items()} if isinstance(value, dict) else value


def _is_usual(mine: Settings, usual: Settings, name: str) -> bool:
    return name in usual and _canonical(mine[name]) == _canonical(usual[name])


def _is_used(name: str, value: Any) -> bool:
    if value is None or value is False:  # but 0 is a value
        return False
    return name not in _FIRST_VALUES or _FIRST_VALUES[name] != value


def _canonical(value: Any) -> str:
    return json.dumps(_as_integers(value), sort_keys=True, separators=(",", ":"))
