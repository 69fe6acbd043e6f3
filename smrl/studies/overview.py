"""What a person sees of many runs: bars of those that are being trained, and a line for each that has ended."""

from smrl.training.progress import Board


class Overview(Board):
    """A board that counts runs and takes the bars of ended ones away, as there may be hundreds."""

    def __init__(self, quiet: bool, total: int, finished: int) -> None:
        super().__init__(quiet)
        self._total, self._ended = total, finished
        if finished:
            self.notify(f"finished already: {finished} of {total}")

    def end(self, title: str, failure: str | None) -> None:
        """Say how a run has ended, and drop its bar."""
        self._ended += 1
        for task in self._bars.tasks if self._bars else []:
            if self._bars and task.description == title:
                self._bars.remove_task(task.id)
        self.notify(f"{title}: {failure or 'ended'} ({self._ended} of {self._total})")
