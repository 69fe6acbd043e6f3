"""Sweeps: all combinations of several values of any setting, with several seeds each."""

import hashlib
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from smrl.errors import SmrlError, nearest, require
from smrl.runs import identity
from smrl.settings import Settings, names
from smrl.studies.presets import find, resolve
from smrl.validation import Count, convert

LONGEST_SLUG = 100


def sweep(
    algorithms: str | Iterable[str],
    env: str,
    *,
    preset: str | Iterable[str] = "paper",
    seeds: int | Iterable[int] | None = None,
    **values: Any,
) -> list[Settings[Any]]:
    """The settings of all combinations of values; a number of seeds stands for 0, 1, 2, …, by default the preset's.

    A list or range holds several values, and anything else is one, also a tuple. A setting that only some of the
    algorithms have is set for those. Without ``reuse``, 1 is compared with the preset's.

    >>> found = sweep(["sac", "td3"], "Hopper-v4", seeds=range(3), reuse=[1, 10], tau=[0.005, 0.01], delay=[2, 3])
    >>> len(found)  # (2 reuse ratios × 2 tau + 2 × 2 × 2 delays of TD3) × 3 seeds
    36
    """
    chosen = [algorithms] if isinstance(algorithms, str) else list(algorithms)
    presets = [preset] if isinstance(preset, str) else list(preset)
    seeds = max((find(name).seeds for name in presets), default=1) if seeds is None else seeds
    every_seed = list(range(convert("seeds", seeds, Count))) if isinstance(seeds, int | float | str) else list(seeds)
    for name, listed in {"algorithms": chosen, "preset": presets, "seeds": every_seed}.items():
        require(bool(listed), f"{name} needs at least one value.")
    known = {algorithm: names(algorithm).keys() - {"algorithm", "env", "seed"} for algorithm in chosen}
    axes = {name: several(name, value) for name, value in values.items()}
    for name in axes.keys() - set().union(*known.values()):
        advice = "; give seeds" if name == "seed" else nearest(name, sorted(set().union(*known.values())))
        raise SmrlError(f"no algorithm of {', '.join(chosen)} has a setting '{name}' to sweep{advice}")
    found = []
    for algorithm, of_preset in itertools.product(chosen, presets):
        own = {name: axis for name, axis in axes.items() if name in known[algorithm]}
        for combination in itertools.product(*own.values()):
            given = dict(zip(own, combination, strict=True))
            ratios = [given["reuse"]] if "reuse" in given else [1, resolve(algorithm, env, of_preset, **given).reuse]
            for reuse, seed in itertools.product(ratios, every_seed):
                settings = resolve(algorithm, env, of_preset, **given | {"reuse": reuse, "seed": seed})
                require(
                    settings.eval_every <= settings.steps,
                    f"runs of {settings.steps:,} steps have no evaluation to compare at every {settings.eval_every:,} "
                    "steps; lower --eval-every.",
                )
                found.append(settings)
    return distinct(found)


def distinct(settings: Iterable[Settings[Any]]) -> list[Settings[Any]]:
    """The runs without repetitions; those that differ in their number of steps alone are refused."""
    found: dict[tuple[str, int], Settings[Any]] = {}
    for one in settings:
        same = found.setdefault((identity.canonical(one.to_json()), one.seed), one)
        require(
            same.steps == one.steps,
            f"runs of {same.steps:,} and {one.steps:,} steps that differ in nothing else are one run: "
            "give one number of steps, as the curves of the longer run contain the shorter one.",
        )
    return list(found.values())


def several(name: str, value: Any) -> list[Any]:
    """The values of a setting: those of a list or range, or the one that it is.

    >>> several("tau", 0.01), several("actor_hidden", (64, 64)), several("reuse", range(1, 4))
    ([0.01], [(64, 64)], [1, 2, 3])
    """
    values = list(value) if isinstance(value, Iterable) and not isinstance(value, str | tuple) else [value]
    require(bool(values), f"{name} needs at least one value.")
    return values


def titles(settings: Sequence[Settings[Any]]) -> list[str]:
    """What to call each of several runs: its algorithm, the settings that vary, its seed, and the task if that varies.

    >>> titles(sweep("sac", "Hopper-v4", reuse=10, tau=[0.005, 0.01], seeds=1))
    ['SAC, reuse 10, tau 0.005, seed 0', 'SAC, reuse 10, tau 0.01, seed 0']
    """
    rows = [one.to_json() for one in settings]
    shown = identity.varying(rows)
    tasks = [f"{row['env']}, " if "env" in shown else "" for row in rows]
    return [f"{task}{identity.label(row, shown)}, seed {row['seed']}" for task, row in zip(tasks, rows, strict=True)]


def slug(settings: Sequence[Settings[Any]]) -> str:
    """A name for a file about these runs: the algorithms, what varies, and digits that differ for every other sweep.

    Seeds and steps are not part of it, so more of them replace the file.

    >>> slug(sweep("sac", "Hopper-v4", reuse=[1, 10], tau=[0.005, 0.01])).rpartition("-")[0]
    'sac-reuse-tau'
    """
    rows = [one.to_json() for one in settings]
    identities = sorted({identity.canonical(row) for row in rows})
    digits = hashlib.sha256("\n".join(identities).encode()).hexdigest()[:8]
    words = [*dict.fromkeys(one.algorithm for one in settings), *identity.varying(rows)]
    name = "-".join(word for word in words if word not in ("algorithm", "env"))
    return f"{re.sub(r'[^a-zA-Z0-9_.-]', '-', name)[:LONGEST_SLUG]}-{digits}"
