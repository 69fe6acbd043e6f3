"""What smrl is compared with: SBX, Stable-Baselines3 and eager PyTorch; `pip install "smrl[peers]"` installs them.

A maker in one of these modules prepares networks and batches and returns a call that makes updates, or several
calls by name. Every peer runs in a process of its own, with the threads and the memory settings that its users have.
"""

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from smrl.runtime import XLA_THREADS

LIBRARIES = {"SBX": "sbx", "SB3": "stable_baselines3"}


@dataclass(frozen=True)
class Peer:
    """A call in another process."""

    process: subprocess.Popen[bytes]
    name: str = "call"

    def seconds(self, repeats: int) -> float:
        """Return the seconds that a number of calls take in the other process."""
        assert self.process.stdin
        self.process.stdin.write(f"{self.name} {repeats}\n".encode())
        self.process.stdin.flush()
        return float(self.answer())

    def answer(self) -> str:
        """Return the next line from the other process."""
        assert self.process.stdout
        if not (line := self.process.stdout.readline()):
            raise RuntimeError(f"a peer ended with code {self.process.wait()}")
        return line.decode().strip()

    def part(self, name: str) -> "Peer":
        """Return another call in the same process."""
        return replace(self, name=name)


@contextlib.contextmanager
def peers(makers: dict[str, tuple[Any, ...]]) -> Iterator[dict[str, Peer]]:
    """Return the calls of makers, given as module, function and arguments, whose packages are installed."""
    variables = {name: value for name, value in os.environ.items() if name != XLA_THREADS}
    command = [sys.executable, "-m", "benchmarks.peers.process"]
    with contextlib.ExitStack() as processes:
        begun = dict[str, Peer]()
        for name, maker in makers.items():
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables)
            processes.enter_context(process)  # which ends when its standard input does
            assert process.stdin
            pickle.dump(maker, process.stdin)
            process.stdin.flush()
            begun[name] = Peer(process)
        answers = {name: peer.answer() for name, peer in begun.items()}
        for name, answer in answers.items():
            if answer != "ready":
                print(f"{name}: {answer} is not installed", file=sys.stderr)
        yield {name: peer for name, peer in begun.items() if answers[name] == "ready"}
