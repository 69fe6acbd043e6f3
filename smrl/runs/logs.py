"""Where numbers go: CSV files, TensorBoard event files and, if asked for, Weights & Biases."""

import csv
import io
from pathlib import Path
from typing import Any

from tensorboardX import SummaryWriter

from smrl.errors import SmrlError
from smrl.runs.files import sync, write_atomically, writing


class CsvLog:
    """A table with a fixed header whose first column is the step."""

    def __init__(self, path: Path, columns: tuple[str, ...], continue_at: int) -> None:
        """Open a table, forgetting what was written after the step that the run continues at."""
        self.path, self.columns = path, columns
        kept = [",".join(columns)]
        if path.exists():
            whole_lines = path.read_text(errors="replace").split("\n")[1:-1]  # a line that was cut off has no end
            steps = [line.partition(",")[0] for line in whole_lines]
            kept += [
                line
                for line, step in zip(whole_lines, steps, strict=True)
                if step.isdigit() and int(step) <= continue_at
            ]
        with writing(path):
            write_atomically(path, "".join(f"{line}\n" for line in kept).encode())

    def write(self, row: dict[str, Any]) -> None:
        """Append a line; a column that has no value stays empty."""
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow([row.get(name, "") for name in self.columns])
        with writing(self.path), self.path.open("a") as file:
            file.write(line.getvalue())

    def sync(self) -> None:
        """Wait until the table is on the disk."""
        sync(self.path)


class Curves:
    """The same numbers for those who watch: TensorBoard, and W&B where a project is named."""

    def __init__(self, folder: Path, config: dict[str, Any], continue_at: int, wandb_project: str | None) -> None:
        with writing(folder):
            self._tensorboard = SummaryWriter(str(folder / "tensorboard"), purge_step=continue_at)
        self._wandb = _start_wandb(folder, config, wandb_project) if wandb_project else None

    def write(self, group: str, step: int, values: dict[str, float]) -> None:
        """Add a point to each curve."""
        named = {f"{group}/{name}": value for name, value in values.items()}
        for name, value in named.items():
            self._tensorboard.add_scalar(name, value, step)
        if self._wandb:
            self._wandb.log(named | {"step": step})

    def close(self) -> None:
        """Write out what is still held back."""
        self._tensorboard.close()
        if self._wandb:
            self._wandb.finish()


def _start_wandb(folder: Path, config: dict[str, Any], project: str) -> Any:
    try:
        import wandb
    except ImportError:
        raise SmrlError('Weights & Biases is not installed; pip install "smrl[wandb]" adds it.') from None
    name = "-".join(folder.parts[-3:])
    settings = wandb.Settings(silent=True)
    # A continued run is another one of the same group: W&B cannot take back what came after the checkpoint.
    run = wandb.init(project=project, name=name, group=name, dir=folder, config=config, settings=settings)
    run.define_metric("*", step_metric="step")
    return run
