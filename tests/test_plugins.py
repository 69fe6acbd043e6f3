import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from smrl import plugins
from smrl.cli.main import main
from smrl.errors import SmrlError

TESTS = Path(__file__).parent
MODULE = """
class Rule:
    def make():
        return "made"

def my_rule():
    return 3

def __getattr__(name):
    if name == "lazy":
        raise OSError("no such library")
    raise AttributeError(name)
"""


@pytest.fixture
def folder(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with a module, which Python would not look into by itself."""
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(in_tmp_path))])
    (in_tmp_path / "plugged_in.py").write_text(MODULE)
    (in_tmp_path / "plugged_exit.py").write_text("import sys\nsys.exit('usage: ...')")
    (in_tmp_path / "plugged_fault.py").write_text("1 / 0")
    yield in_tmp_path
    for name in ("plugged_in", "plugged_exit", "plugged_fault"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("folder")
def test_modules_of_the_working_directory_are_found_when_allowed() -> None:
    with pytest.raises(SmrlError, match="plugged_in"):
        plugins.load("plugged_in:my_rule", "a reuse rule")
    plugins.use_working_directory()
    plugins.use_working_directory()
    assert plugins.load("plugged_in:my_rule", "a reuse rule")() == 3
    assert plugins.load("plugged_in:Rule.make", "a reuse rule")() == "made"
    assert sys.path.count("") == 1
    assert sys.path[-1] == ""  # after all else: no file of the working directory may hide an installed package


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("sac", "'sac' does not name an algorithm: write module:name, as in my_module:my_name"),
        (":sac", "':sac' does not name an algorithm: write module:name"),
        ("plugged_in:", "'plugged_in:' does not name an algorithm: write module:name"),
        (
            "plugged_inn:my_rule",
            "the module 'plugged_inn' cannot be imported (ModuleNotFoundError: No module named 'plugged_inn'): "
            "correct its name, or run where Python finds it (PYTHONPATH)",
        ),
        ("plugged_fault:x", "the module 'plugged_fault' cannot be imported (ZeroDivisionError: division by zero): "),
        ("plugged_exit:x", "the module 'plugged_exit' cannot be imported (SystemExit: usage: ...): "),
        (".relative:x", "the module '.relative' cannot be imported (TypeError: "),
        (
            "plugged_in:my_rul",
            "'plugged_in:my_rul' does not name an algorithm: the module 'plugged_in' has no 'my_rul'; "
            "did you mean my_rule?",
        ),
        ("plugged_in:Rule.x", "the module 'plugged_in' has no 'Rule.x'"),
        ("plugged_in:a:b", "the module 'plugged_in' has no 'a:b'"),
        ("plugged_in:lazy", "plugged_in:lazy cannot be loaded, it raised OSError: no such library"),
        ("__main__:nothing", "nothing is not in the running program: move it into a module"),
    ],
)
def test_a_failure_to_load_is_one_line(reference: str, message: str) -> None:
    plugins.use_working_directory()
    with pytest.raises(SmrlError) as caught:
        plugins.load(reference, "an algorithm")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("flags", "is_allowed"),
    [
        (["--reuse", "plugged_in:no"], True),
        (["--reuse=plugged_in:no"], True),
        (["--reuse", "10:300,1"], False),
        (["--data", "minari:pen/human-v2"], False),
        (["--data=minari:pen/human-v2"], False),
        ([], False),
    ],
)
def test_the_command_line_allows_the_working_directory_for_modules_only(flags: list[str], is_allowed: bool) -> None:
    with pytest.raises(SystemExit):
        main(["train", "sac", "Pendulum-v1", *flags, "--steps", "1"])
    assert ("" in sys.path) is is_allowed


def test_entry_points_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "plugged-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[smrl.tests]\npi = math:pi\nroot = math:sqrt\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = plugins.entry_points("smrl.tests")
    assert {name: plugins.load(entry.value, "a number") for name, entry in found.items()}.keys() == {"pi", "root"}
    assert isinstance(found["pi"], metadata.EntryPoint)
    assert plugins.entry_points("smrl.tests") is found
    assert plugins.entry_points("smrl.tests.none") == {}


def test_importing_needs_neither_jax_nor_numpy() -> None:
    code = "import sys, smrl.plugins\nprint(*sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(TESTS.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert not {"jax", "numpy", "gymnasium", "importlib.metadata"} & set(done.stdout.split())


def test_in_words_is_one_short_line() -> None:
    assert plugins.in_words(ValueError()) == "ValueError"
    assert plugins.in_words(OSError("no\n  library")) == "OSError: no library"
    assert len(plugins.in_words(OSError("word " * 1000))) <= 400
