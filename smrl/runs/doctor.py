"""Examine and repair the files of a run."""

from smrl.runs.inspection import inspect as examine
from smrl.runs.repair import repair

__all__ = ["examine", "repair"]
