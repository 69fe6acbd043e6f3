"""--data, --data-share and --from: several sources of one run, and several runs."""

from pathlib import Path
from typing import Any

import pytest
from written_runs import make_config

from smrl.cli.common import Parser
from smrl.cli.flags import add_settings
from smrl.runs import identity
from smrl.runs.config import check_config
from smrl.settings import from_json, make_settings, names
from smrl.studies.sweep import read_sweep, sweep


def parsed(*words: str, several: bool = False) -> dict[str, Any]:
    parser = Parser("train ALGORITHM ENVIRONMENT", "")
    add_settings(parser, words, ["sac"], "Pendulum-v1", several)
    values = parser.read(["sac", "Pendulum-v1", *words])
    return {name: value for name, value in values.items() if name not in ("algorithm", "env")}


def test_one_run_takes_several_sources() -> None:
    found = parsed("--data", "a,b", "minari:x/y-v0", "--data-share", "0.5", "--from", "runs/z")
    assert found == {"data": ("a,b", "minari:x/y-v0"), "data_share": 0.5, "from_run": "runs/z"}
    assert make_settings("sac", "Pendulum-v1", **found).data == ("a,b", "minari:x/y-v0")


def test_compared_runs_take_a_value_each() -> None:
    """Commas join the sources of one run, as they join the sizes of layers; none is a run without them."""
    found = parsed("--data", "a,b", "c", "none", "--from", "x", "none", several=True)
    assert found == {"data": [("a", "b"), ("c",), None], "from_run": ["x", None]}
    assert len(sweep("sac", "Pendulum-v1", seeds=1, reuse=1, **found)) == 6


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ('"a"', [("a",)]),
        ('["a", "b"]', [("a", "b")]),
        ('["none", ["a"], ["b", "c"]]', [None, ("a",), ("b", "c")]),
    ],
)
def test_sources_in_a_sweep_file(text: str, sources: list[Any], tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(f'algorithm = "sac"\nenv = "Pendulum-v1"\nreuse = 1\nseeds = 1\nsteps = 20000\ndata = {text}\n')
    assert [one.data for one in read_sweep(str(file), {}).settings] == sources


def test_config_keeps_sources_and_names_have_them() -> None:
    settings = make_settings("sac", "Pendulum-v1", data=("a/b", "c.npz"), data_share=0.5, from_run="x/y")
    saved = identity.flat(settings.to_json())
    assert saved["data"] == ["a/b", "c.npz"]
    stored = {**settings.to_json(), "data": ["a/b", "c.npz"]}
    for inputs in ({}, {"inputs": {"data.npz": "0" * 64, "start.npz": "1" * 64}}):
        check_config(make_config(stored, **inputs), Path("config.json"))
    assert from_json(stored | {"hyper": settings.to_json()["hyper"]}) == settings
    assert identity.slug(settings.to_json(), names("sac")) == "sac-reuse10-dataa.b+c.npz-share0.5-fromx.y"
    assert identity.label(settings.to_json(), ["data"]) == "SAC, reuse 10, data a/b+c.npz"
