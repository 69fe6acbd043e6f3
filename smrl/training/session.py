"""Settings that do not change what a run learns."""

from dataclasses import dataclass
from pathlib import Path

from smrl.validation import Count, NonNegative, Positive, validate


@dataclass(frozen=True)
class Session:
    """How a run is carried out; nothing here changes its numbers."""

    runs: Path = Path("runs")
    """Folder of all runs."""
    threads: Count | None = None
    """Threads of XLA; by default one per core. A continued run keeps the number that it was begun with."""
    quiet: bool = False
    """Print nothing but errors."""
    checkpoint_seconds: NonNegative = 30.0
    """Seconds between two checkpoints."""
    max_minutes: Positive | None = None
    """Minutes after which the run is saved and stopped; the same command continues it. By default no limit."""
    stop_at: float | None = None
    """Mean return of an evaluation at which the run is saved and stopped; a larger value or none lets it go on."""
    wandb: str | None = None
    """Project of Weights & Biases to report to; by default none."""

    def __post_init__(self) -> None:
        validate(self)
