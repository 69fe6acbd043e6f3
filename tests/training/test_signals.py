"""Signals: which of them stop a run, and what a process gets that is forked meanwhile."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from smrl.training.signals import SignalHandler

FORKS = """
import os
import signal
import time
from smrl.training.signals import SignalHandler

messages = []
with SignalHandler(messages.append) as interruption:
    children = []
    for _ in range(2):
        if (child := os.fork()) == 0:
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                os._exit(7)
        children.append(child)
    time.sleep(0.2)
    os.kill(children[0], signal.SIGTERM)
    os.kill(children[1], signal.SIGINT)
    endings = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert endings == [-signal.SIGTERM, 7], endings
    time.sleep(0.1)
    assert not interruption.is_noted() and not messages, "no signal was for this process"
    if (child := os.fork()) == 0:
        time.sleep(60)
os.kill(child, signal.SIGKILL)  # it has lived longer than the handler
print("left")
"""


@pytest.fixture
def hangup() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangup")
def test_a_hangup_is_noted() -> None:
    messages: list[str] = []
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with SignalHandler(messages.append) as interruption:
        os.kill(os.getpid(), signal.SIGHUP)
        assert interruption.is_noted()
        assert interruption.name == "SIGHUP"
        while not messages:
            time.sleep(0.01)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL


@pytest.mark.usefixtures("hangup")
def test_a_hangup_stays_ignored() -> None:
    """As with nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with SignalHandler(print) as interruption:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not interruption.is_noted()


def test_forked_children_have_the_handlers_of_before() -> None:
    """SIGTERM and SIGINT end them, the parent does not take these for its own, and does not wait for children."""
    process = subprocess.Popen([sys.executable, "-c", FORKS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    text, errors = process.communicate(timeout=20)
    assert (process.returncode, text, errors) == (0, "left\n", "")
