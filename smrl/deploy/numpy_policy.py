"""The target numpy: policy.npz with the layers and weights, and policy.py, which needs NumPy only."""

import ast
import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from smrl.deploy import policy
from smrl.deploy.description import Description
from smrl.runs.atomic import save_arrays


def write(folder: Path, description: Description) -> None:
    """Write policy.npz and policy.py."""
    arrays = {"policy": np.array(json.dumps(description.facts)), **description.described[1]}
    save_arrays(folder / "policy.npz", arrays)
    (folder / "policy.py").write_text(source(description), encoding="utf-8")


def load(folder: Path, description: Description) -> tuple[Callable[[np.ndarray], Any], str]:
    """Load the policy by the code that was written beside it."""
    return runpy.run_path(str(folder / "policy.py"))["Policy"].load(folder), "its policy.py"


def source(description: Description) -> str:
    """Return `smrl/deploy/policy.py` without the layers and functions that this policy does not have."""
    text = Path(policy.__file__).read_text(encoding="utf-8")
    used = _used(description.described[0])
    dropped: set[int] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name not in used:
            lines = _lines(node, node)
            dropped |= lines | {max(lines) + 1, max(lines) + 2}
        elif isinstance(node, ast.ImportFrom) and node.module == "numpy.lib.stride_tricks":
            dropped |= set() if "convolution" in used else _lines(node, node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if isinstance(key, ast.Constant) and key.value not in used:
                    dropped |= _lines(key, value)
    return "".join(line for number, line in enumerate(text.splitlines(True), 1) if number not in dropped)


def _used(layers: list[dict[str, Any]]) -> set[str]:
    """Return the names of layers and functions in a description."""
    used = {str(layer[name]) for layer in layers for name in ("layer", "function") if name in layer}
    nested = [part for layer in layers for value in layer.values() if isinstance(value, list) for part in value]
    return used.union(*map(_used, nested), {"actor_values"} if "best_actor" in used else ())


def _lines(first: ast.expr | ast.stmt, last: ast.expr | ast.stmt) -> set[int]:
    return set(range(first.lineno, (last.end_lineno or last.lineno) + 1))
