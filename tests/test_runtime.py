"""How JAX runs: its threads and the switches that change what it computes."""

import jax
import pytest

from smrl import machine, runtime
from smrl.errors import SmrlError
from smrl.kernels import library
from smrl.settings import RunOptions


@pytest.mark.parametrize("text", ["two", "0", "-1", "1.5", "²", " ", "1025", "2147483648", "9" * 30, "1" * 5000])
def test_an_invalid_number_of_threads_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machine.THREADS, text)
    for refused in (machine.threads, runtime.start):
        with pytest.raises(SmrlError, match=r"SMRL_THREADS=.* is not a number of threads"):
            refused()


@pytest.mark.parametrize("count", [-1, 1025, 2**31, 10**30])
def test_other_numbers_of_threads_are_refused_everywhere(count: int) -> None:
    with pytest.raises(SmrlError, match=r"^cannot compute with .* threads; give a number from 1 to 1024\.$"):
        runtime.start(count)
    with pytest.raises(SmrlError, match=r"^threads must be a whole number from 1 to 1,024 or None, not "):
        RunOptions(threads=count)


def test_64_bit_types_are_refused() -> None:
    with jax.enable_x64(True), pytest.raises(SmrlError, match=r"^smrl computes in float32, .* unset JAX_ENABLE_X64\.$"):
        runtime.start()


def test_the_default_is_one_thread_per_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machine.THREADS, "")
    assert machine.threads() == machine.cores()
    monkeypatch.setenv(machine.THREADS, "3")
    assert machine.threads() == 3


def test_switches_report_what_changes_results(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_packages_that_are_not_installed_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "PACKAGES", ("jax", "no-such-package"))
    assert runtime.platform_facts()["versions"].keys() == {"jax", "python"}
