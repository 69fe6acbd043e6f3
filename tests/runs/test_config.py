import json
from pathlib import Path
from typing import Any

import pytest
from written_runs import make_config

from smrl.errors import SmrlError
from smrl.runs.paths import CONFIG, RunDirectory

HYPER = {"tau": 0.005, "actor_hidden": [256, 256]}
SETTINGS = {"algorithm": "sac", "env": "Hopper-v4", "hyper": HYPER, "steps": 3000, "reuse": "10:300000,1", "seed": 3}
WRITTEN = make_config(
    SETTINGS,
    spec={"obs": {"shape": [4], "dtype": "uint8"}, "action": {"count": 2, "start": 0}},
    env_source="0123",
    threads=2,
)


def write(folder: Path, config: object) -> RunDirectory:
    text = config if isinstance(config, str) else json.dumps(config)
    (folder / CONFIG).write_text(text, encoding="utf-8")
    return RunDirectory(folder)


def without(config: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != name}


def test_config_is_read_as_it_is(tmp_path: Path) -> None:
    assert write(tmp_path, WRITTEN).read_config() == WRITTEN


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", r"is damaged: it is not JSON; smrl doctor .* --repair restores it from the run.s checkpoint"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", "it holds no settings"),
        ({}, "missing required field `format`"),
        (without(WRITTEN, "threads"), "missing required field `threads`"),
        (without(WRITTEN, "versions"), "missing required field `versions`"),
        (without(WRITTEN, "git_commit"), "missing required field `git_commit`"),
        (without(WRITTEN, "checksum"), "missing required field `checksum`"),
        (WRITTEN | {"spec": {"obs": {}}}, "missing required field `action`"),
        (WRITTEN | {"spec": 5}, r"Expected `object`, got `int` - at `\$.spec`"),
        (WRITTEN | {"settings": without(SETTINGS, "reuse")}, "missing required field `reuse`"),
        (WRITTEN | {"settings": without(SETTINGS, "hyper")}, "missing required field `hyper`"),
        (WRITTEN | {"settings": SETTINGS | {"steps": "many"}}, r"Expected `int`, got `str` - at `\$.settings.steps`"),
        (WRITTEN | {"settings": []}, r"Expected `object`, got `array` - at `\$.settings`"),
        (WRITTEN | {"settings": SETTINGS | {"seed": 4}}, "are not those that were written"),
        (WRITTEN | {"threads": 3}, "are not those that were written"),
        (WRITTEN | {"inputs": {"data.npz": "0" * 64}}, "inputs are not those that were written"),
        (WRITTEN | {"inputs": {"../other.npz": "0" * 64}}, "Invalid enum value '../other.npz'"),
        (WRITTEN | {"format": "two"}, r"Expected `int`, got `str` - at `\$.format`"),
        (WRITTEN | {"format": 3}, "was written by another version of smrl; use that version, or move the run away to"),
        (WRITTEN | {"format": 5}, "was written by another version of smrl; use that version, or move the run away to"),
        ({"format": 3}, "was written by another version of smrl"),
        (WRITTEN | {"threads": 10**6}, r"Expected `int` <= 1000 - at `\$.threads`"),
        (
            WRITTEN | {"settings": SETTINGS | {"steps": 10**18}},
            "Expected `int` <= 2147483647 - at .*steps",
        ),
        (WRITTEN | {"settings": SETTINGS | {"gamma": 10**30}}, "Expected `int` <= "),
        (WRITTEN | {"settings": SETTINGS | {"gamma": [[[[1]]]]}}, "Expected"),
        (WRITTEN | {"settings": SETTINGS | {"env": "x" * 10**5}}, "Expected `str` of length <= 10000"),
        (WRITTEN | {"settings": SETTINGS | {"env": "\ud800"}}, "it is not JSON"),
        (json.dumps(WRITTEN).replace('"seed": 3', f'"seed": {"1" * 5000}'), "it is not JSON"),
    ],
)
def test_unusable_config_is_refused(tmp_path: Path, config: object, message: str) -> None:
    run = write(tmp_path, config)
    with pytest.raises(SmrlError, match=message) as caught:
        run.read_config()
    assert str(run.config) in str(caught.value)
    assert "delete" not in str(caught.value)


def test_folders_without_a_readable_config_are_refused(tmp_path: Path) -> None:
    def read(path: Path) -> None:
        RunDirectory(path).read_config()

    with pytest.raises(SmrlError, match="nowhere does not exist; give the folder of a run"):
        read(tmp_path / "nowhere")
    with pytest.raises(SmrlError, match=r"is not a run: it has no config\.json; give the folder of a run"):
        read(tmp_path)
    with pytest.raises(SmrlError, match=r"config\.json is not a run"):
        read(write(tmp_path, WRITTEN).config)
    (tmp_path / CONFIG).write_bytes(b"\xff\xfe")
    with pytest.raises(SmrlError, match="it is not JSON"):
        read(tmp_path)
    (tmp_path / "run" / CONFIG).mkdir(parents=True)
    with pytest.raises(SmrlError, match="cannot be read"):
        read(tmp_path / "run")
