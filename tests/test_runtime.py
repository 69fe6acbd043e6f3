"""How JAX runs: its threads and the switches that change what it computes."""

import jax
import pytest

from smrl import machine, runtime
from smrl.errors import SmrlError
from smrl.kernels import library


@pytest.mark.parametrize("text", ["two", "0", "-1", "1.5", "²", " "])
def test_nonsense_for_a_number_of_threads_is_a_sentence(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machine.THREADS, text)
    for refused in (machine.threads, runtime.start):
        with pytest.raises(SmrlError, match=r"SMRL_THREADS=.* is no number of threads"):
            refused()


def test_without_a_number_there_is_a_thread_per_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machine.THREADS, "")
    assert machine.threads() == machine.cores()
    monkeypatch.setenv(machine.THREADS, "3")
    assert machine.threads() == 3


def test_switches_that_change_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    before = runtime.switches()
    known = {*runtime.VARIABLES, *runtime.SWITCHES, library.SWITCH}
    assert before.keys() == known, "this version of JAX knows all of them"
    assert before["XLA_FLAGS"] == "not set"
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    with jax.enable_x64(True):
        after = runtime.switches()
    changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    assert changed == {
        "XLA_FLAGS": ("not set", "--xla_cpu_enable_fast_math=true"),
        "jax_enable_x64": ("False", "True"),
    }
