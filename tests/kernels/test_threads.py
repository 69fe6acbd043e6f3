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


SUBNORMAL = """
import hashlib
import jax
import jax.numpy as jnp
import numpy as np
from smrl.kernels import adam, library

small = jnp.full(2**21, 1e-42)  # a moment of a dead unit after 740 updates without a gradient
step = jax.jit(lambda m: adam(0 * m, m, m, small, jnp.int32(1000), 1e-3, 0.9, 0.999, 1e-8))

def bits():
    results = (np.asarray(leaf).tobytes() for _ in range(10) for leaf in step(small))
    return {hashlib.sha256(result).hexdigest() for result in results}

one = bits()
library.load().smrl_threads(2, library.SPIN_MICROSECONDS)
print(len(one), one == bits())
"""


@pytest.mark.usefixtures("kernels")
def test_subnormal_numbers_are_the_same_on_all_threads() -> None:
    environment = os.environ | {machine.THREADS: "1", runtime.XLA_THREADS: "1"}
    ended = subprocess.run([sys.executable, "-c", SUBNORMAL], env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split()[1] == "True"
