"""The package as a whole: what importing it costs, its layers, and that no name hides a module."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from written_runs import write_run

import smrl


def modules() -> list[str]:
    return [info.name for info in pkgutil.walk_packages(smrl.__path__, "smrl.") if "__main__" not in info.name]


def python(script: str, *arguments: object) -> str:
    answer = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_importing_smrl_loads_nothing_else() -> None:
    loaded = python(
        "import sys, smrl; print(*[name for name in sys.modules if name.split('.')[0] in sys.argv], sep=' ')"
    )
    assert not loaded.strip()
    listed = python("import sys; before = set(sys.modules); import smrl; print(*sorted(set(sys.modules) - before))")
    assert {name.partition(".")[0] for name in listed.split()} <= {"smrl"} | set(sys.stdlib_module_names)


@pytest.mark.parametrize("name", smrl.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(smrl, name).__name__ == name
    assert name in dir(smrl)


def test_there_is_no_other_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'learn'"):
        smrl.learn  # noqa: B018


def test_no_name_hides_a_module() -> None:
    """Whatever was imported before, `smrl.package.module` is the module."""
    for name in modules():
        importlib.import_module(name)
    for name in [*modules(), *smrl.__all__]:
        package, _, last = name.rpartition(".")
        if package:
            assert isinstance(getattr(sys.modules[package], last), ModuleType), name
        else:
            assert f"smrl.{last}" not in modules(), name


FORBIDDEN = """
import importlib.abc, sys
from pathlib import Path

class Forbidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("jax", "jaxlib", "flax", "optax"):
            raise ImportError(f"{name} is forbidden here")

sys.meta_path.insert(0, Forbidden())
from smrl.report.figures import learning_curves
from smrl.report.table import comparison_table
from smrl.runs.records import read_runs
records = read_runs(Path(sys.argv[1]))
comparison_table(records, -200.0)
print(len(records), learning_curves(records, Path(sys.argv[2])))
"""


def test_reading_runs_and_drawing_figures_needs_no_jax(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [(1000, 1.0), (2000, 2.0)])
    assert python(FORBIDDEN, tmp_path, tmp_path / "curves.png").startswith("1 ")
    assert (tmp_path / "curves.png").stat().st_size > 10_000


def test_modules_and_functions_are_short() -> None:
    for name in modules():
        file = Path(inspect.getfile(importlib.import_module(name)))
        assert len(file.read_text().splitlines()) <= 300, name
