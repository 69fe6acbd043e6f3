"""Algorithms and presets by name, by module:name and by the entry points of packages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import smrl
from smrl import plugins, presets
from smrl.algorithms import registry
from smrl.errors import SmrlError

PROVIDER = """
from dataclasses import dataclass
import smrl

@dataclass(frozen=True)
class Config:
    size: int = 3

def provided(config: Config, spec):
    raise AssertionError("never made here")

preset = smrl.Preset("from a package", (smrl.Row("*", {"steps": 12_345}),))
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package with both entry points."""
    (tmp_path / "provider.py").write_text(PROVIDER)
    info = tmp_path / "provider-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: provider\nVersion: 1.0\n")
    entry_points = "[smrl.algorithms]\nprovided = provider:provided\n[smrl.presets]\nhouse = provider:preset\n"
    (info / "entry_points.txt").write_text(entry_points)
    monkeypatch.syspath_prepend(tmp_path)
    plugins.entry_points.cache_clear()
    yield
    monkeypatch.undo()
    plugins.entry_points.cache_clear()
    registry._entries.pop("provided", None)
    presets.PRESETS.pop("house", None)


def test_a_package_provides_an_algorithm_and_a_preset(package: None) -> None:
    assert "provided" in registry.names()
    assert "house" in presets.preset_names()
    settings = presets.resolve("provided", "Pendulum-v1", "house")
    assert (settings.steps, settings.hyper.size) == (12_345, 3)


def test_unknown_names_get_a_sentence() -> None:
    with pytest.raises(SmrlError, match=r"no algorithm 'sca' among ddpg, .*; did you mean sac\?"):
        registry.find("sca")
    with pytest.raises(SmrlError, match="no_such_module"):
        registry.find("no_such_module:cem").make  # noqa: B018
    with pytest.raises(SmrlError, match=r"no preset 'papr' .*; did you mean paper\?"):
        presets.find_preset("papr")
    with pytest.raises(SmrlError, match="is not a preset"):
        presets.find_preset("smrl.errors:SmrlError")


def test_a_registered_preset_is_used() -> None:
    smrl.register("mine", smrl.Preset("mine", (smrl.Row("sac", {"tau": 0.5}),)))
    try:
        assert presets.resolve("sac", "Pendulum-v1", "mine").hyper.tau == 0.5
        with pytest.raises(SmrlError, match="is not for td3"):
            presets.resolve("td3", "Pendulum-v1", "mine")
    finally:
        del presets.PRESETS["mine"]
