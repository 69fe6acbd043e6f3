"""Share a run as one small folder: the policy for NumPy, a card with a curve, and the run without its replay memory.

<folder>/
  README.md                 the card
  curve.png                 the learning curve
  policy.npz, policy.py     the policy for NumPy, and
  contract.json             what it takes and returns
  config.json, evaluations.csv, training.csv, checkpoint/    what `smrl.load` opens
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from smrl.deploy.export import CARD, CONTRACT, CURVE, FOLDER, Exported, export
from smrl.errors import require
from smrl.reading import open_regular, read_bytes
from smrl.report.figures import learning_curves
from smrl.report.text import TextTable, as_markdown, number
from smrl.runs import checkpoint
from smrl.runs.atomic import sync
from smrl.runs.checkpoint import ARRAYS, MANIFEST
from smrl.runs.doctor import non_defaults
from smrl.runs.identity import algorithm_words, words
from smrl.runs.paths import CHECKPOINT, CONFIG, EVALUATIONS, TRAINING, RunDirectory
from smrl.runs.records import Record

if TYPE_CHECKING:
    from smrl.training.run import Run

USE = f"""\
## Use

```python
import smrl  # pip install smrl

run = smrl.load("this-folder")
action = run.policy(obs)  # also smrl.evaluate(run) and smrl.play(run)
```

Without smrl, with NumPy only:

```python
from policy import Policy  # in this folder

policy = Policy.load(".")
```

[{CONTRACT}]({CONTRACT}) describes observations and actions, with examples. The replay memory is not
part of this folder, so the run can act and be evaluated, but not be continued.
"""


def share(run: "Run", path: Path, best: bool = False) -> Exported:
    """Write a folder that can be uploaded as it is; an earlier export there is replaced."""
    directory = RunDirectory(run.path)
    directory.refuse_foreign_files()
    record = run.record

    def add(folder: Path, done: Exported) -> None:
        for name in (CONFIG, EVALUATIONS, TRAINING):
            if (run.path / name).exists():
                (folder / name).write_bytes(read_bytes(run.path / name))
        _copy_checkpoint(directory, folder / CHECKPOINT)
        learning_curves([record], folder / CURVE)
        (folder / CARD).write_text(_card(run, record, done, best), encoding="utf-8", errors="backslashreplace")

    return replace(export(run, path, "numpy", best, add), target=FOLDER)


def _copy_checkpoint(directory: RunDirectory, folder: Path) -> None:
    """Copy the newest checkpoint without its rows of the replay memory."""
    intact = [path for path in checkpoint.checkpoints(directory.checkpoint) if checkpoint.has_intact_arrays(path)]
    require(bool(intact), f"{directory.path} has no intact checkpoint; smrl doctor {directory.path} shows its files.")
    place = folder / intact[-1].name
    place.mkdir(parents=True)
    for name in (MANIFEST, ARRAYS):
        with open_regular(intact[-1] / name) as source, (place / name).open("wb") as target:
            shutil.copyfileobj(source, target)
        sync(place / name)


def _card(run: "Run", record: Record, done: Exported, best: bool) -> str:
    """Return the card, which begins with what hubs of models read."""
    name = algorithm_words(record.algorithm)
    tags = ["reinforcement-learning", "smrl", record.algorithm, record.env]
    settings = {"reuse": record.reuse, "seed": record.seed, **non_defaults(run.config["settings"])}
    top = record.returns.argmax()
    facts = {
        "policy": f"{'of the best evaluation, ' if best else ''}of step {done.step:,}",
        "return at the end": f"{number(record.returns[-1])} (step {record.steps[-1]:,}, {record.episodes} episodes)",
        "best return": f"{number(record.returns[top])} (step {record.steps[top]:,})",
        "made with": ", ".join(f"{name} {version}" for name, version in run.config["versions"].items()),
    }
    tables = [
        TextTable(f"{name} on {record.env}", ("", "this run"), tuple(facts.items()), left=("", "this run")),
        TextTable(
            "Settings",
            ("setting", "value"),
            tuple((name, words(value)) for name, value in settings.items()),
            f"What is not listed has its default; {CONFIG} has all settings.",
            left=("setting", "value"),
        ),
    ]
    head = f"---\nlibrary_name: smrl\ntags: {json.dumps(tags)}\n---\n"
    return f"{head}\n{as_markdown(tables)}\n![learning curve]({CURVE})\n\n{USE}"
