"""The package: what importing it loads, its public names, its layers, and what works without JAX."""

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from written_runs import write_run

import smrl

ROOT = Path(__file__).parents[1]


def modules() -> list[str]:
    return [info.name for info in pkgutil.walk_packages(smrl.__path__, "smrl.") if "__main__" not in info.name]


def python(script: str, *arguments: object) -> str:
    answer = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_importing_smrl_loads_only_the_standard_library() -> None:
    listed = python("import sys; before = set(sys.modules); import smrl; print(*sorted(set(sys.modules) - before))")
    others = {name for name in listed.split() if name.partition(".")[0] not in sys.stdlib_module_names}
    assert others == {"smrl"}


@pytest.mark.parametrize("name", smrl.__all__)
def test_public_names_are_available(name: str) -> None:
    assert getattr(smrl, name).__name__ == name
    assert name in dir(smrl)


def test_type_checkers_and_python_import_the_same_names() -> None:
    """What stands under TYPE_CHECKING is what is imported on first use."""
    (block,) = (node for node in ast.parse(Path(smrl.__file__).read_text()).body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert {alias.name: node.module for node in imports for alias in node.names} == smrl._MODULES
    assert sorted(smrl._MODULES) == smrl.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'learn'"):
        smrl.learn  # noqa: B018


def test_public_names_do_not_hide_modules() -> None:
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
from smrl.report.tables import comparison_tables
from smrl.runs.records import read_runs
records = read_runs(Path(sys.argv[1]))
comparison_tables(records, -200.0)
print(len(records), learning_curves(records, Path(sys.argv[2])))
"""


def test_reading_runs_and_drawing_figures_needs_no_jax(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [(1000, 1.0), (2000, 2.0)])
    assert python(FORBIDDEN, tmp_path, tmp_path / "curves.png").startswith("1 ")
    assert (tmp_path / "curves.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    "document", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.stem
)
def test_documents_name_files_that_exist(document: Path) -> None:
    named = re.findall(r"`(\w+/[\w/]+\.(?:py|cc|h|md|json))`", document.read_text())
    places = (ROOT, ROOT / "smrl", ROOT / "smrl" / "kernels")
    assert [name for name in named if not any((place / name).exists() for place in places)] == []
