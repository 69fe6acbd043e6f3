"""The keywords of `smrl.train`: a TypedDict written from the dataclasses of settings, for editors and `help`.

`python tests/test_keywords.py` writes smrl/keywords.py again, after a change of a setting or hyperparameter.
"""

import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

import smrl
from smrl.algorithms import registry
from smrl.keywords import Keywords
from smrl.settings import RunOptions, Settings
from smrl.validation import documentation

FILE = Path(smrl.__file__).parent / "keywords.py"
ROOT = FILE.parents[1]
POSITIONAL = ("algorithm", "env", "hyper")
HEADER = '''\
"""The keywords of `smrl.train`, and defaults. Generated from the dataclasses of settings by tests/test_keywords.py."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict


class Keywords(TypedDict, total=False):
    """Settings, options and hyperparameters of a run."""
'''


def generated() -> str:
    """Return smrl/keywords.py as it should be."""
    configs = {name: registry.find(name).config for name in registry._BUILT_IN}
    entries: dict[str, tuple[list[str], str]] = {}  # types in order, text
    owners: dict[str, list[str]] = {}
    for owner, kind in {"": Settings, " ": RunOptions, **configs}.items():
        texts = documentation(kind)
        for name, hint in get_type_hints(kind).items():
            if name in POSITIONAL:
                continue
            types, text = entries.setdefault(name, ([], texts[name]))
            types += [part for part in parts(hint) if part not in types]
            owners.setdefault(name, []).append(owner)
    lines = [HEADER]
    for name, (types, text) in entries.items():
        some = [owner for owner in owners[name] if owner.strip()]
        others = [owner for owner in configs if owner not in some]
        scope = ""
        if some and others:
            scope = f" Only for {', '.join(some)}." if len(some) <= len(others) else f" Not for {', '.join(others)}."
        doc = re.sub(r"--([a-z-]+)", lambda flag: flag[1].replace("-", "_"), " ".join(text.split()) + scope)
        wrapped = textwrap.wrap(f'"""{doc}"""', 120, initial_indent="    ", subsequent_indent="    ")
        lines += [f"    {name}: {joined(types)}", *wrapped]
    lines += ["", "", "# Defaults of the hyperparameters, for reports, which do not import JAX"]
    lines += ["HYPERPARAMETERS: dict[str, dict[str, Any]] = {"]
    for algorithm, config in configs.items():
        values = {field.name: getattr(config(), field.name) for field in fields(config)}
        lines += [f'    "{algorithm}": {{', *(f'        "{name}": {code(value)},' for name, value in values.items())]
        lines += ["    },"]
    return "\n".join([*lines, "}"]) + "\n"


def code(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def parts(hint: Any) -> list[str]:
    """Return the alternatives of a type as a user writes them; sizes may be any sequence, paths also strings."""
    if get_origin(hint) in (Union, UnionType):
        return [part for option in get_args(hint) for part in parts(option)]
    if get_origin(hint) is Literal:
        return [f'"{choice}"' for choice in get_args(hint)]
    if get_origin(hint) is tuple:
        return [f"Sequence[{get_args(hint)[0].__name__}]"]
    return {Path: ["str", "Path"], NoneType: ["None"]}.get(hint, [hint.__name__])


def joined(types: list[str]) -> str:
    choices = [name for name in types if name.startswith('"')]
    rest = [name for name in types if not name.startswith('"')]
    return " | ".join([*([f"Literal[{', '.join(choices)}]"] if choices else []), *rest])


def test_keywords_are_those_of_the_dataclasses() -> None:
    assert FILE.read_text() == generated(), "python tests/test_keywords.py writes the file again"


def test_help_lists_every_keyword() -> None:
    listed = re.findall(r"^        (\w+): \S", smrl.train.__doc__ or "", re.MULTILINE)
    assert set(listed) >= set(get_type_hints(Keywords)) | set(inspect.signature(smrl.train).parameters) - {"keywords"}


CALLS = {
    'smrl.train("sac", "Hopper-v4", reuse=10, runs="x", actor_hidden=[64], temperature="auto").policy': "",
    'smrl.train("sac", "Hopper-v4", reus=10)': 'Unexpected keyword argument "reus" for "train"; did you mean',
    'smrl.train("sac", "Hopper-v4", steps="many")': 'Argument "steps" to "train" has incompatible type "str"',
    "smrl.__version__ + 1": 'Unsupported operand types for + ("str" and "int")',
}
CONFIG = """
[mypy]
[mypy-flax.*,gymnasium.*,imageio.*,jax.*,msgspec.*,numpy.*,optax.*,rich.*]
follow_imports = skip
"""


@pytest.mark.slow  # mypy reads the package again
def test_type_checkers_know_the_keywords(tmp_path: Path) -> None:
    (tmp_path / "snippet.py").write_text("\n".join(["import smrl", *CALLS]))
    (tmp_path / "mypy.ini").write_text(CONFIG)
    command = [sys.executable, "-m", "mypy", "snippet.py"]
    environment = os.environ | {"MYPYPATH": str(ROOT)}  # mypy does not follow the import hook of an editable install
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    output, errors = ended.stdout, ended.stderr
    found = dict(re.findall(r"snippet\.py:(\d+): error: (.*)", output))
    expected = {str(line): complaint for line, complaint in enumerate(CALLS.values(), 2) if complaint}
    assert found.keys() == expected.keys(), output + errors
    assert all(found[line].startswith(complaint) for line, complaint in expected.items()), output


def test_version_and_type_marker() -> None:
    assert smrl.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["smrl"]
    assert [file for pattern in data for file in FILE.parent.glob(pattern)] == [FILE.parent / "py.typed"]


if __name__ == "__main__":
    FILE.write_text(generated())
