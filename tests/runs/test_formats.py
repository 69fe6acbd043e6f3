import json
from pathlib import Path
from typing import Any

import pytest

from smrl.algorithms import registry
from smrl.errors import SmrlError
from smrl.runs.config import checksum, read_config
from smrl.studies import presets
from smrl.types import Continuous, Spec

HYPER = {"tau": 0.005, "actor_hidden": [256, 256]}
EXPERIMENT = {"algorithm": "sac", "env": "Hopper-v4", "hyper": HYPER, "steps": 3000, "reuse": "10:300000,1", "seed": 3}
COMMON = {"threads": 2, "versions": {"smrl": "0.1.0"}, "machine": "x86_64 Linux", "git_commit": "406bc86"}
FORMAT_1 = {
    "experiment": EXPERIMENT,
    "variant": "sac",
    "spec": {"obs_size": 11, "action_size": 2},
    "action_bounds": [[-1.0, -2.0], [1.0, 2.0]],
    **COMMON,
}
FORMAT_3 = {
    "format": 3,
    "settings": EXPERIMENT,
    "spec": {"obs": {"shape": [4], "dtype": "uint8"}, "action": {"count": 2, "start": 0}},
    "env_source": "0123",
    "switches": {"jax_enable_x64": "False"},
    "backend": "gpu",
    "cpu": "AMD EPYC avx512",
    **COMMON,
}


def write(folder: Path, config: object) -> Path:
    text = config if isinstance(config, str) else json.dumps(config)
    (folder / "config.json").write_text(text, encoding="utf-8")
    return folder


def without(config: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != name}


def test_format_3_is_read_as_it_is(tmp_path: Path) -> None:
    assert read_config(write(tmp_path, FORMAT_3)) == FORMAT_3


def test_format_1_is_upgraded_and_its_file_is_left_alone(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, FORMAT_1))
    assert json.loads((tmp_path / "config.json").read_text()) == FORMAT_1
    assert config["format"] == 3
    assert config["settings"].items() >= (EXPERIMENT | {"hyper": config["settings"]["hyper"]}).items()
    assert config["settings"]["hyper"].items() >= HYPER.items()
    assert list(config["settings"])[-1] == "hyper"  # as format 3 has it
    assert {name: config[name] for name in COMMON} == COMMON
    assert (config["env_source"], config["backend"], config["cpu"]) == (None, None, None)
    assert config.keys() == FORMAT_3.keys()


@pytest.mark.parametrize(
    ("algorithm", "hyper", "upgraded"),
    [
        ("mine:cem", {"tau": 0.01}, {"tau": 0.01}),
        ("sac", {"tau": 0.01}, {"tau": 0.01}),
        ("tqc", {"tau": 0.01}, {"tau": 0.01, "order": "together"}),
        (
            "redq",
            {"flavour": "authors", "exploration": "sample"},
            {"initialisation": "small-last", "critic_loss": "mean", "exploration": "sample", "order": "critics-first"},
        ),
        (
            "redq",
            {"flavour": "original", "exploration": "mean-plus-noise", "tau": 0.01},
            {"exploration": "sample", "tau": 0.01, **presets.ORIGINAL_REDQ},
        ),
    ],
)
def test_format_2_had_one_order_of_tqc_and_flavours_of_redq(
    algorithm: str, hyper: dict[str, Any], upgraded: dict[str, Any], tmp_path: Path
) -> None:
    old = FORMAT_3 | {"format": 2, "settings": EXPERIMENT | {"algorithm": algorithm, "hyper": hyper}}
    for config in (old, old | {"checksum": checksum(old)}):
        read = read_config(write(tmp_path, config))
        assert read["format"] == 3
        assert read["settings"]["reward_scale"] == 1
        if algorithm in registry.names():
            config_class = registry.find(algorithm).config
            was = {"exploration": "mean-plus-noise"} if algorithm == "redq" else {}
            assert config_class(**was | read["settings"]["hyper"]) == config_class(**was | upgraded)
        else:
            assert read["settings"]["hyper"] == upgraded
        assert read.get("checksum") == (checksum(read) if "checksum" in config else None)


def test_the_spec_of_format_1_is_one_of_today(tmp_path: Path) -> None:
    spec = Spec.from_json(read_config(write(tmp_path, FORMAT_1))["spec"])
    assert spec.obs.shape == (11,)
    assert spec.action == Continuous(2, low=(-1.0, -2.0), high=(1.0, 2.0), shape=(2,))
    assert json.loads(json.dumps(spec.to_json())) == read_config(tmp_path)["spec"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", r"is damaged: it is not JSON; smrl repair .* restores it from the run.s checkpoint"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", "it holds no settings"),
        ({}, "it lacks 'experiment'"),
        (without(FORMAT_1, "action_bounds"), "it lacks 'action_bounds'"),
        (without(FORMAT_1, "threads"), "it lacks 'threads'"),
        (FORMAT_1 | {"experiment": without(EXPERIMENT, "hyper")}, "it lacks 'hyper'"),
        (FORMAT_1 | {"spec": 5}, "is damaged: "),
        (without(FORMAT_3, "versions"), "it lacks 'versions'"),
        (FORMAT_3 | {"spec": {"obs": {}}}, "it lacks 'action'"),
        (FORMAT_3 | {"settings": without(EXPERIMENT, "reuse")}, "it lacks 'reuse'"),
        (FORMAT_3 | {"settings": EXPERIMENT | {"steps": "many"}}, "its steps cannot be 'many'"),
        (FORMAT_3 | {"settings": []}, r"its settings cannot be \[\]"),
        (FORMAT_3 | {"format": 4}, "was written by a newer smrl; update smrl"),
        (FORMAT_3 | {"format": "two"}, "its format is 'two'"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path: Path, config: object, message: str) -> None:
    with pytest.raises(SmrlError, match=message) as caught:
        read_config(write(tmp_path, config))
    assert str(tmp_path / "config.json") in str(caught.value)
    assert "delete" not in str(caught.value)


def test_folders_that_are_no_runs(tmp_path: Path) -> None:
    with pytest.raises(SmrlError, match="nowhere does not exist; give the folder of a run"):
        read_config(tmp_path / "nowhere")
    with pytest.raises(SmrlError, match=r"is not a run: it has no config\.json; give the folder of a run"):
        read_config(tmp_path)
    with pytest.raises(SmrlError, match=r"config\.json is not a run"):
        read_config(write(tmp_path, FORMAT_3) / "config.json")
    (tmp_path / "config.json").write_bytes(b"\xff\xfe")
    with pytest.raises(SmrlError, match="it is not text"):
        read_config(tmp_path)
    (tmp_path / "run" / "config.json").mkdir(parents=True)
    with pytest.raises(SmrlError, match="cannot be read"):
        read_config(tmp_path / "run")
