"""Wrong arguments of the Python API raise SmrlError before anything is trained, opened or written."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smrl
from smrl.errors import SmrlError
from smrl.presets import PRESETS


def nothing(config: object, spec: object) -> None: ...


JUNK: dict[str, Any] = {
    "none": None,
    "number": 5,
    "fraction": 1.5,
    "truth": True,
    "bytes": b"sac",
    "empty": "",
    "unknown": "no such",
    "list": ["sac"],
    "dict": {"a": 1},
    "object": object(),
    "function": nothing,
    "path": Path("no/such"),
    "array": np.zeros(3),
    "zero byte": "a\0b",
    "surrogate": "\ud800",
    "newline": "sac\n",
    "long": "x" * 5000,
    "nan": float("nan"),
    "huge": 10**5000,
    "module": smrl,
    "class": int,
    "half a reference": ":x",
    "other half": "os:",
    "no algorithm": "builtins:dict",
}
PRESET = smrl.Preset("title", (smrl.Row("sac", {}),))
RUN = smrl.Run(Path("no/such/run"))
VIDEO = Path("x.mp4")
# argument → a call with it, and what of the above is allowed there
CALLS: dict[str, tuple[Callable[[Any], Any], set[str]]] = {
    "train algorithm": (lambda value: smrl.train(value, "Pendulum-v1"), set()),
    "train env": (lambda value: smrl.train("ddpg", value), set()),
    "train preset": (lambda value: smrl.train("ddpg", "Pendulum-v1", preset=value), set()),
    "train env_name": (lambda value: smrl.train("ddpg", "No-v0", env_name=value), set()),
    "train on_step": (lambda value: smrl.train("ddpg", "No-v0", on_step=value), {"none", "function", "class"}),
    "train on_evaluation": (lambda value: smrl.train("ddpg", "No-v0", on_evaluation=value), {"none"}),
    "train unknown": (lambda value: smrl.train("ddpg", "No-v0", **{"nonsense": value}), set()),
    "load path": (smrl.load, set()),
    "load trust": (lambda value: smrl.load("no/such", value), {"truth"}),
    "evaluate run": (smrl.evaluate, set()),
    "evaluate episodes": (lambda value: smrl.evaluate(RUN, value), {"number"}),
    "evaluate best": (lambda value: smrl.evaluate(RUN, best=value), {"truth"}),
    "play run": (lambda value: smrl.play(value, VIDEO), set()),
    "play video": (lambda value: smrl.play(RUN, value), set()),
    "play episodes": (lambda value: smrl.play(RUN, VIDEO, value), {"number"}),
    "play best": (lambda value: smrl.play(RUN, VIDEO, best=value), {"truth"}),
    "export path": (lambda value: RUN.export(value), set()),
    "export to": (lambda value: RUN.export("policy", to=value), set()),
    "export best": (lambda value: RUN.export("policy", best=value), {"truth"}),
    "register name": (lambda value: smrl.register(value, nothing), set()),  # type: ignore[arg-type]
    "register preset": (lambda value: smrl.register(value, PRESET), {"unknown", "path", "half a reference"}),
    "register what": (lambda value: smrl.register("mine", value), set()),
    "register title": (lambda value: smrl.register("mine", nothing, value), set()),  # type: ignore[arg-type]
    "preset title": (lambda value: smrl.Preset(value, ()), {"empty", "unknown", "half a reference"}),
    "preset rows": (lambda value: smrl.Preset("title", value), set()),
    "preset seeds": (lambda value: smrl.Preset("title", (), value), {"number"}),
    "row algorithm": (lambda value: smrl.Row(value, {}), {"empty", "unknown", "half a reference"}),
    "row settings": (lambda value: smrl.Row("sac", value), {"dict"}),
    "row tasks": (lambda value: smrl.Row("sac", {}, value), {"empty", "unknown", "half a reference"}),
    "reuse update": (lambda value: smrl.reuse(value, 3), {"function", "class"}),
    "reuse times": (lambda value: smrl.reuse(lambda x, batch, key: x, value), {"number"}),
}
TEXTS = {"other half", "no algorithm"}


@pytest.mark.parametrize("argument", CALLS)
def test_wrong_argument_is_refused(argument: str, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call, allowed = CALLS[argument]
    monkeypatch.setattr("smrl.presets.PRESETS", dict(PRESETS))
    allowed |= TEXTS if "unknown" in allowed else set()
    for name in JUNK.keys() - allowed:
        with pytest.raises(SmrlError) as caught:
            call(JUNK[name])
        assert len(str(caught.value)) < 700, "a long value is shortened"
        assert not re.search("[\0\n\ud800]", str(caught.value)), "the message is one line"
    assert not list(in_tmp_path.iterdir())
