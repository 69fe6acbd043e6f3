"""`smrl export RUN --to TARGET -o FOLDER`: write a trained policy for use without smrl."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from smrl import plugins, runtime
from smrl.cli.common import out
from smrl.cli.flags import parse
from smrl.errors import require
from smrl.training.run import load

DATASET = "minari"  # the target that is no policy


@dataclass(frozen=True)
class Export:
    """Write a run's greedy policy for programs without JAX, and compare both."""

    run: Path
    """Folder of the run, such as runs/Hopper-v4/sac-reuse10/seed0."""
    to: str = "numpy"
    """Form of the policy: numpy, onnx, c or safetensors; folder: a small folder to share, which smrl.load opens, too.

    With minari, the replay memory as a dataset.
    """
    output: Path = Path("policy")
    """Folder to write; an earlier export there is replaced."""
    best: bool = False
    """Use the policy of the run's best evaluation instead of the newest one."""
    trust: bool = False
    """Import and execute the modules that the run's settings name, also from the working directory."""


def run(words: Sequence[str]) -> None:
    """Export and print how far the export differs from the policy."""
    command = parse(words, "export RUN", Export)
    if command.trust:
        plugins.use_working_directory()
    trained = load(command.run, command.trust)
    runtime.start(trained.threads)
    if command.to == DATASET:
        require(not command.best, "the target minari is the replay memory and not a policy: leave --best out.")
        out.print(str(trained.export_memory(command.output)), markup=False)
    else:
        out.print(str(trained.export(command.output, command.to, command.best)), markup=False)
