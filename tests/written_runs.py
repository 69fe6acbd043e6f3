"""Folders of runs as training writes them, made in no time."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from smrl.runs.config import FORMAT, checksum
from smrl.runs.paths import CONFIG, EVALUATIONS, TRAINING

SETTINGS: dict[str, Any] = {
    "algorithm": "sac",
    "env": "Hopper-v4",
    "reuse": "1",
    "seed": 0,
    "steps": 3000,
    "fresh_batches": 1,
    "gamma": 0.99,
    "action_repeat": 1,
}
HYPER: dict[str, Any] = {
    "tau": 0.005,
    "layer_norm": False,
    "dropout": 0.0,
    "actor_hidden": [256, 256],
    "critic_hidden": [256, 256],
}

FACTS: dict[str, Any] = {"episodes": [], "seconds": 1.0, "best": None, "config": {}, "tables": {}}  # of a checkpoint


def make_config(settings: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the content of a config.json with these settings."""
    config: dict[str, Any] = {
        "format": FORMAT,
        "settings": settings,
        "spec": {"obs": {}, "action": {}},
        "env_source": None,
        "threads": 1,
        "versions": {"smrl": "0.1.0", "jax": "0.10.2"},
        "switches": {},
        "cpu": "a processor",
        "backend": "cpu",
        "machine": "x86_64 Linux",
        "git_commit": None,
    }
    config |= changes
    return config | {"checksum": checksum(config)}


def write_run(
    folder: Path, evaluations: Iterable[tuple[int, float]], seconds: float | None = None, **changes: Any
) -> Path:
    """Write a run with these steps and mean returns; ``seconds`` is the time per step that training took."""
    folder.mkdir(parents=True)
    own = {name: changes.pop(name) for name in list(changes) if name in HYPER or name == "critics"}
    settings = SETTINGS | changes | {"hyper": HYPER | own}
    (folder / CONFIG).write_text(json.dumps(make_config(settings)))
    points = list(evaluations)
    (folder / EVALUATIONS).write_text("step,episodes,mean\n" + "".join(f"{step},10,{mean}\n" for step, mean in points))
    if seconds is not None:
        rows = "".join(f"{step},{step * seconds}\n" for step, _ in points)
        (folder / TRAINING).write_text("step,seconds\n" + rows)
    return folder


def write_study(runs: Path, seeds: int = 3, points: int = 30) -> Path:
    """SAC with reuse 1 and 10 on two tasks, with hours; returns grow linearly, faster with reuse."""
    for env, top in (("Hopper-v4", 3000.0), ("dmc/cheetah-run", 800.0)):
        for reuse, share in (("1", 0.5), ("10", 1.25)):
            for seed in range(seeds):
                rows = [(1000 * k, share * top * k / points + 10 * seed * k / points) for k in range(1, points + 1)]
                place = runs / env.replace("/", "-") / f"sac-reuse{reuse}" / f"seed{seed}"
                steps = 1000 * points
                write_run(place, rows, 0.01 * int(reuse), env=env, reuse=reuse, seed=seed, steps=steps)
    return runs
