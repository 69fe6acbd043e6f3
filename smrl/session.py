"""How a run is carried out."""

from dataclasses import dataclass
from pathlib import Path

from smrl.errors import require


@dataclass(frozen=True)
class Session:
    """Settings that do not change what is learned."""

    runs: Path = Path("runs")
    """Folder that all runs are kept in."""
    threads: int | None = None
    """XLA's threads; recorded, and kept when a run is continued. By default one per core."""
    quiet: bool = False
    """Print nothing but errors."""
    checkpoint_seconds: float = 30.0
    """Seconds between two checkpoints."""
    wandb: str | None = None
    """Weights & Biases project to report to as well."""

    def __post_init__(self) -> None:
        require(self.threads is None or self.threads >= 1, f"threads must be at least 1, not {self.threads}.")
        require(self.checkpoint_seconds >= 0, "checkpoint_seconds must not be negative.")
