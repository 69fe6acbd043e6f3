"""The target safetensors: the weights of all layers, with the layers and the run's settings as metadata."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from smrl.deploy.description import Description
from smrl.deploy.policy import Policy
from smrl.plugins import import_module

FILE = "policy.safetensors"
INSTALL = 'pip install "smrl[export]"'


def write(folder: Path, description: Description) -> None:
    """Write policy.safetensors."""
    metadata = {name: json.dumps(value) for name, value in description.facts.items()}
    metadata["settings"] = json.dumps(description.settings)
    saved = import_module("safetensors.numpy", INSTALL).save(description.described[1], metadata)
    (folder / FILE).write_bytes(saved)  # its save_file makes a file that only its owner may read


def load(folder: Path, description: Description) -> tuple[Callable[[np.ndarray], Any], str]:
    """Read the file and compute its layers in NumPy."""
    with import_module("safetensors", INSTALL).safe_open(folder / FILE, "numpy") as file:
        facts = {name: json.loads(value) for name, value in file.metadata().items()}
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dictionary
    return Policy({"policy": json.dumps(facts), **arrays}), "its layers, read back, in NumPy"
