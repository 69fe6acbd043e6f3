"""With the kernels, updates do not depend on the number of threads."""

import os
import subprocess
import sys

import pytest

from smrl import machine, runtime

PROGRAM = """
import hashlib
from smrl import runtime
runtime.start()
import jax
import numpy as np
from smrl.algorithms import registry
from smrl.smr.loop import initial_state, learner
from smrl.smr.rules import rule_of
from smrl.types import ArraySpec, Continuous, Spec, Transition

draw = np.random.default_rng(0)
normal = lambda *shape: draw.standard_normal((1, 256, *shape), np.float32)
batch = Transition(normal(17), np.tanh(normal(6)), normal(), np.full((1, 256), 0.99, np.float32), normal(17))
entry, rule = registry.find("sac"), rule_of(3)
sac = entry.make(entry.config(), Spec(ArraySpec((17,)), Continuous(6)))
learned = jax.jit(lambda key: initial_state(sac, rule, key))(jax.random.key(0))
learned, _ = jax.jit(learner(sac, rule))(learned, batch, 1, 1, jax.random.key(1))
print(hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(learned))).hexdigest())
"""


@pytest.mark.usefixtures("kernels")
def test_bits_of_three_sac_updates_do_not_depend_on_the_number_of_threads() -> None:
    def bits(threads: int) -> str:
        environment = os.environ | {machine.THREADS: str(threads)}
        environment.pop(runtime.XLA_THREADS)
        ended = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    assert bits(1) == bits(2)
