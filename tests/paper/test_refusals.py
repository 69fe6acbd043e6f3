"""Refusals of `smrl reproduce q-smr` and `theory`; test_document.py runs all of `smrl reproduce theory`."""

from pathlib import Path

import pytest
from commands import refused_here

REFUSED = {
    "alpha above 1": (("q-smr", "--tasks", "cliffwalking", "--alpha", "1.5"), "alpha must be from 0 to 1"),
    "gamma of 1": (("q-smr", "--tasks", "cliffwalking", "--gamma", "1"), "gamma"),
    "reuse of 0": (("q-smr", "--tasks", "maze", "--reuse", "0"), "reuse must be at least 1"),
    "a maze of one cell": (
        ("q-smr", "--tasks", "maze", "--size", "1"),
        "from 2 to 100, not 1.",
    ),
    "more portals than cells": (
        ("q-smr", "--tasks", "maze", "--size", "3", "--portals", "4"),
        "4 pairs of portals do not fit",
    ),
    "no such task": (("q-smr", "--tasks", "labyrinth"), "labyrinth"),
    "no seeds": (("q-smr", "--tasks", "maze", "--seeds", "0"), "seeds"),
    "a negative seed": (("theory", "--seed", "-1"), "seed must be a whole number in [0, 2^32), not -1."),
    "a seed of 31 digits": (("theory", "--seed", "1e30"), "seed must be a whole number in [0, 2^32)"),
    "a large maze": (("q-smr", "--tasks", "maze", "--size", "100000"), "size must be a whole number from 2 to 100"),
    "many episodes": (("q-smr", "--episodes", "1e12"), "episodes must be a whole number from 1 to 1,000,000"),
    "many seeds": (("q-smr", "--seeds", "1000000000"), "seeds must be a whole number from 1 to 1,000"),
    "many episodes of many seeds": (
        ("q-smr", "--tasks", "cliffwalking", "--episodes", "1e6"),
        "20 seeds of 1,000,000 episodes are more than 1,000,000 lines",
    ),
    "more steps than are counted": (
        ("q-smr", "--tasks", "maze", "--episodes", "1e4", "--seeds", "1", "--size", "100"),
        "may take 10,000,000,000 steps",
    ),
    "many updates on a batch": (
        ("batch-fit", "ddpg", "Pendulum-v1", "--updates", "1e6"),
        "updates must be a whole number from 1 to 10,000",
    ),
    "many batches": (
        ("batch-fit", "ddpg", "Pendulum-v1", "--batches", "1e6"),
        "batches must be a whole number from 1 to 10,000",
    ),
    "a study by name": (("theory", "--studies", "gamma"), "gamma"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, message = REFUSED[case]
    assert message in refused_here(capsys, "reproduce", *words)
    assert not list(in_tmp_path.iterdir())
