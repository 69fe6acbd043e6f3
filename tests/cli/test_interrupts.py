"""Ctrl-C: answered at once, whatever the process is doing, with an exit code and without a stack trace."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import TESTS, read_until, start

SHORT = ["--steps", "60", "--warmup", "20", "--eval-every", "20", "--eval-episodes", "1", "--reuse", "1"]
SMALL = ["--actor-hidden", "8", "--critic-hidden", "8", "--batch-size", "8"]

BUSY = """
import hashlib
import signal
from smrl.training.signals import SignalHandler

before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
with SignalHandler(lambda sentence: print("said", flush=True)) as interruption:
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 5_000_000)  # seconds in C, during which Python handles no signal
    print("done", interruption.name, flush=True)
assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
assert signal.set_wakeup_fd(-1) == -1
"""

SLOW = """
import os
import pathlib
import time
from broken_envs import Toy

class Slow(Toy):
    made = 0

    def __init__(self):
        super().__init__()
        Slow.made += 1
        self.number = Slow.made

    def step(self, action):
        if self.number >= int(os.environ["SLOW_FROM"]):  # 1 is made to see its spaces, 2 is trained in
            pathlib.Path("slow").touch()
            what()
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, self.steps >= 10, info

def what():
    if "COMPILE" not in os.environ:
        return time.sleep(300)
    import jax
    import jax.numpy as jnp

    def large(x):  # takes minutes to compile
        for i in range(1000):
            x = jnp.sin(x @ x + i) * jnp.cos(x) - jnp.sort(x, axis=i % 2)
        return x

    jax.jit(large).lower(jnp.ones((8, 8))).compile()

make = Slow
"""


def wait_for(file: Path) -> None:
    for _ in range(600):
        if file.exists():
            return
        time.sleep(0.1)
    raise AssertionError(f"{file} did not appear within a minute")


def begin(folder: Path, *words: object, **environment: str) -> subprocess.Popen[str]:
    """A command that has come to where the environment takes long."""
    (folder / "slow_steps.py").write_text(SLOW)
    path = f"{TESTS}{os.pathsep}{folder}"
    process = start(*words, PYTHONPATH=path, **environment)
    wait_for(folder / "slow")
    time.sleep(0.5)  # to be well inside
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_answer_comes_while_python_cannot(number: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.stdout.readline() == "said\n", "before it is done"
    assert process.stdout.readline() == f"done {number.name}\n"
    assert process.communicate() == ("", "")
    assert process.returncode == 0


def test_a_second_ctrl_c_is_not_lost_among_others() -> None:
    """Python handles signals that come during one long instruction only once."""
    process = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "said\n"
    process.send_signal(signal.SIGINT)
    text, errors = process.communicate()
    assert text == "", "it is not done"
    assert errors.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize(
    "environment",
    [{"SLOW_FROM": "3"}, {"SLOW_FROM": "2"}, {"SLOW_FROM": "2", "COMPILE": "1"}],
    ids=["in an evaluation", "in a step", "while compiling"],
)
@pytest.mark.slow
def test_the_second_ctrl_c_stops_at_once(environment: dict[str, str], in_tmp_path: Path) -> None:
    process = begin(in_tmp_path, "train", "ddpg", "slow_steps:make", *SHORT, *SMALL, **environment)
    process.send_signal(signal.SIGINT)
    read_until(process, "Ctrl-C again stops at once")
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)  # what it was doing would take minutes
    assert process.returncode == 130
    assert errors.endswith("smrl: interrupted.\n")
    assert "Traceback" not in errors


def test_one_ctrl_c_ends_what_has_nothing_to_save(in_tmp_path: Path) -> None:
    process = begin(in_tmp_path, "check-env", "slow_steps:make", SLOW_FROM="1")
    process.send_signal(signal.SIGINT)
    text, errors = process.communicate(timeout=60)
    assert (process.returncode, text, errors) == (130, "", "smrl: interrupted.\n")
