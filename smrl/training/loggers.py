"""Who watches a run's numbers: TensorBoard event files and, if asked for, Weights & Biases.

An observer never stops a run: one that fails is dropped with a sentence, and the run goes on without it.
"""

import contextlib
import os
import socket
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from smrl.errors import SmrlError
from smrl.plugins import in_words
from smrl.runs.paths import TENSORBOARD
from smrl.training.events import EventFile

REACH_SECONDS = 2.0
FINISH_SECONDS = 60.0  # to send what is held back when a run ends


class Observer(Protocol):
    """Takes the values of a step by their names."""

    name: str

    def write(self, step: int, values: dict[str, float]) -> None:
        """Add a point to the curve of each value."""

    def close(self) -> None:
        """Write out what is held back."""


class WandB:
    """A run of Weights & Biases."""

    name = "Weights & Biases"

    def __init__(self, folder: Path, config: dict[str, Any], project: str, notify: Callable[[str], None]) -> None:
        """Begin a run; offline if it could not be sent, for W&B itself would wait for a minute and a half."""
        try:
            import wandb
        except ImportError:
            raise SmrlError('Weights & Biases is not installed; pip install "smrl[wandb]" adds it.') from None
        name = "-".join(folder.parts[-3:])
        obstacle = None if os.environ.get("WANDB_MODE") else _obstacle(wandb)
        if obstacle:
            notify(f"Weights & Biases is offline: {obstacle}; send the run later with wandb sync {folder / 'wandb'}/*.")
        settings = wandb.Settings(silent=True, finish_timeout=FINISH_SECONDS)
        # A continued run is a new one of the same group: W&B cannot delete the points after the checkpoint.
        self._run = wandb.init(
            project=project,
            name=name,
            group=name,
            dir=folder,
            config=config,
            settings=settings,
            mode="offline" if obstacle else None,
        )
        self._run.define_metric("*", step_metric="step")

    def write(self, step: int, values: dict[str, float]) -> None:
        """Send a point of each curve."""
        self._run.log(values | {"step": step})

    def close(self) -> None:
        """Send what is held back."""
        self._run.finish()


class Curves:
    """Passes a run's numbers on to its observers."""

    def __init__(
        self,
        folder: Path,
        config: dict[str, Any],
        continue_at: int,
        wandb_project: str | None,
        notify: Callable[[str], None],
    ) -> None:
        self._notify = notify
        self.observers: list[Observer] = []
        self._add(EventFile.name, lambda: EventFile(folder / TENSORBOARD, continue_at))
        if wandb_project:
            self._add(WandB.name, lambda: WandB(folder, config, wandb_project, notify))

    def write(self, group: str, step: int, values: dict[str, float]) -> None:
        """Add a point to the curve of each value."""
        named = {f"{group}/{name}": value for name, value in values.items()}
        for observer in list(self.observers):
            try:
                observer.write(step, named)
            except Exception as error:
                self.observers.remove(observer)
                self._notify_failure(observer.name, error)

    def close(self) -> None:
        """Close the observers."""
        while self.observers:
            observer = self.observers.pop()
            try:
                observer.close()
            except Exception as error:
                self._notify_failure(observer.name, error)

    def _add(self, name: str, make: Callable[[], Observer]) -> None:
        try:
            self.observers.append(make())
        except SmrlError:
            raise  # what the user asked for cannot be had, and nothing is trained yet
        except Exception as error:
            self._notify_failure(name, error)

    def _notify_failure(self, name: str, error: Exception) -> None:
        self._notify(f"{name} fails with {in_words(error)}; the run goes on without it.")


def _obstacle(wandb: Any) -> str | None:
    """Why nothing can be sent to W&B now."""
    if not wandb.login(prompt=False, verify=False):
        return "nobody is logged in; use wandb login"
    url = str(wandb.Settings().base_url)
    address = urlsplit(urllib.request.getproxies().get(urlsplit(url).scheme) or url)
    reached = threading.Event()

    def reach() -> None:
        port = address.port or (80 if address.scheme == "http" else 443)
        with contextlib.suppress(OSError), socket.create_connection((address.hostname or "", port), REACH_SECONDS):
            reached.set()

    threading.Thread(target=reach, daemon=True).start()  # a look-up of the name knows no time limit
    return None if reached.wait(REACH_SECONDS) else f"{address.hostname} does not answer within {REACH_SECONDS:g} s"
