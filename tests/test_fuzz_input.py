"""Random settings, specs, configs, manifests and TOML: no error but SmrlError, nothing slow, little memory.

`make test-slow` tries 10,000 of them, in a process whose memory is limited; `make test` only a few.
"""

import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from written_runs import FACTS, make_config

import smrl
from smrl.algorithms import registry
from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.report.page import page
from smrl.report.report import make_report
from smrl.report.tables import as_csv
from smrl.runs import checkpoint
from smrl.runs.checkpoint import Saved
from smrl.runs.config import checksum
from smrl.runs.doctor import examine, repair
from smrl.runs.paths import CHECKPOINT, CONFIG, EVALUATIONS, TRAINING
from smrl.settings import from_json, make_settings, names
from smrl.studies.sweep import read_sweep
from smrl.types import ArraySpec, Continuous, Spec

SECONDS, BYTES = 5, 2**30  # per case; of memory in use at any time
SPEC = Spec(ArraySpec((3,)), Continuous(1, (-2.0,), (2.0,), (1,)))

numbers = st.one_of(
    st.integers(),
    st.sampled_from([0, 1, -1, 2**31, 2**32, 2**63, 2**64, 10**12, 10**30, 10**4000]),
    st.floats(),
)
texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["auto", "none", "10:300,1", "os:abort", "smrl.machine:os.abort", "a\n", "\ud800", "=1+1"]),
    st.sampled_from(["Pendulum-v1", "sac", "dqn", "float32", "O", "f4,", "uint8", "../x", "rows-000000000000-9.npz"]),
    st.sampled_from(["x" * 999, "x" * 99_999]),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)


def deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


anything = values | st.builds(deep, st.sampled_from([5, 50, 400]))


def places(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of everything within nested dictionaries and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for name, inner in items for place in ((*prefix, name), *places(inner, (*prefix, name)))]


def changed(original: Any) -> st.SearchStrategy[Any]:
    """Replace or delete one to three places of a nested value, or add to them."""

    def apply(changes: list[tuple[tuple[Any, ...], str, Any]]) -> Any:
        result = copy.deepcopy(original)
        for place, action, value in changes:
            *way, last = place
            target = result
            try:
                for name in way:
                    target = target[name]
                if action == "replace":
                    target[last] = value
                elif action == "delete":
                    del target[last]
                else:
                    target["added"] = value
            except (KeyError, IndexError, TypeError):
                continue  # an earlier change has removed the place
        return result

    change = st.tuples(st.sampled_from(places(original)), st.sampled_from(["replace", "delete", "add"]), anything)
    return st.lists(change, min_size=1, max_size=3).map(apply)


def fuzz(cases: int, *strategies: Any) -> Callable[[Any], Any]:
    """Run a test with this many cases, or with a few."""

    def decorate(test: Any) -> Any:
        limits = settings(
            max_examples=cases if os.environ.get("SMRL_FUZZ") else 20,
            deadline=None,  # `attempt` measures the time of the processor, which other processes do not prolong
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        wrapped: Any = given(*strategies)
        return limits(wrapped(test))

    return decorate


def attempt(function: Callable[[], Any]) -> Any:
    """Return what a function returns, or None if it raises SmrlError; it must not take long."""
    start = time.process_time()
    try:
        return function()
    except SmrlError:
        return None
    finally:
        assert time.process_time() - start < SECONDS


ALGORITHMS = ("sac", "redq", "tqc", "drqv2", "dqn")
KNOWN = sorted(set().union(*(names(name) for name in ALGORITHMS)) - {"algorithm", "env"})


@fuzz(3_000, st.sampled_from(ALGORITHMS), texts, st.dictionaries(st.sampled_from(KNOWN) | texts, anything, max_size=4))
def test_settings(algorithm: str, env: str, given: dict[str, Any]) -> None:
    made = attempt(lambda: make_settings(algorithm, env, **given))
    if made is not None:
        assert from_json(json.loads(json.dumps(made.to_json()))) == made
        attempt(lambda: registry.find(algorithm).make(made.hyper, SPEC))


IMAGES = {"obs": {"shape": [84, 84, 9], "dtype": "uint8", "stack": 3}, "action": {"count": 4, "start": 0}}


@fuzz(3_000, changed(SPEC.to_json()) | changed(IMAGES))
def test_specs(saved: Any) -> None:
    if isinstance(saved, dict) and all(isinstance(saved.get(part), dict) for part in ("obs", "action")):
        spec = attempt(lambda: Spec.from_json(saved))
        if spec is not None:
            spec.example(2)
            spec.action.decoder()(spec.action.random(np.random.default_rng(0), 2))


def written(config: Any) -> dict[str, Any]:
    """Return a config with the checksum that its author would have written."""
    with_checksum: dict[str, Any] = config
    if isinstance(config, dict) and {"settings", "spec", "threads"} <= config.keys():
        with_checksum = config | {"checksum": checksum(config)}
    return with_checksum


SMALL = make_settings("sac", "Pendulum-v1", steps=6000, actor_hidden=(4,), critic_hidden=(4,))
CONFIG_JSON = json.loads(json.dumps(make_config(SMALL.to_json(), spec=SPEC.to_json())))
TABLE = "step,episodes,mean\n1000,10,-5.5\n2000,10,-4.5\n"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run with one checkpoint."""
    folder = tmp_path_factory.mktemp("template") / "run"
    folder.mkdir()
    (folder / CONFIG).write_text(json.dumps(CONFIG_JSON))
    (folder / EVALUATIONS).write_text(TABLE)
    (folder / TRAINING).write_text("step,seconds\n1000,5\n2000,9\n")
    replay = Replay(100, SPEC, gamma=0.9)
    for row in range(20):
        replay.add(np.full(3, row), np.zeros(1), row, np.full(3, row + 1), row % 7 == 6, False)
    facts = FACTS | {"config": CONFIG_JSON, "tables": {EVALUATIONS: TABLE.split("\n")[:-1], TRAINING: []}}
    facts |= {"episodes": [{"number": 1, "seed": 2, "total": 0.5, "over": False}], "best": {"mean": 1.0, "step": 20}}
    checkpoint.save(folder / CHECKPOINT, Saved(20, {"x": np.zeros(3)}, facts), replay)
    return folder


def use(folder: Path) -> None:
    """Do with a run what does not train it."""
    run = attempt(lambda: smrl.load(folder))
    if run is not None:
        attempt(lambda: run.policy)
    report = attempt(lambda: make_report([folder]))
    if report is not None:
        page(report)
        as_csv(report.rows)
    examination = attempt(lambda: examine(folder))
    if examination is not None:
        examination.lines()
    attempt(lambda: checkpoint.load(folder / CHECKPOINT, lambda message: None, Replay(100, SPEC, gamma=0.9)))
    attempt(lambda: repair(folder))


@fuzz(1_000, changed(CONFIG_JSON))
def test_configs(template: Path, config: Any) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(shutil.copytree(template, Path(place, "run")))
        (folder / CONFIG).write_text(json.dumps(written(config)))
        use(folder)


BODY: dict[str, Any] = {
    **{"format": checkpoint.FORMAT, "step": 20, "arrays": "", "tail": ""},
    **{"replay": {"": ""}, "sizes": {"": 0}, "facts": FACTS},
}


@fuzz(1_000, changed(BODY), st.sampled_from(["merge", "replace"]))
def test_manifests(template: Path, change: Any, how: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(shutil.copytree(template, Path(place, "run")))
        (path,) = checkpoint.checkpoints(folder / CHECKPOINT)
        body = checkpoint.read_manifest(path)
        if how == "merge" and isinstance(change, dict):  # keep what the change leaves as it was
            body |= {name: value for name, value in change.items() if value != BODY.get(name)}
        else:
            body = change
        try:
            checkpoint.write_manifest(path, body)
        except (ValueError, TypeError, RecursionError):
            return
        use(folder)


lines = st.one_of(
    st.tuples(st.sampled_from([*KNOWN, "seeds", "algorithm", "env", "preset", "title", "slurm", "runs"]), anything).map(
        lambda pair: f"{pair[0]} = {toml(pair[1])}"
    ),
    st.sampled_from(["[[runs]]", "[runs]", "[slurm]", "algorithm = 'sac'", "env = 'Pendulum-v1'", "seeds = 2", "x ="]),
    st.text(max_size=20),
)


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, int | float):
        return "1" * 5000 if abs(value) > 10**3000 else repr(value)
    return json.dumps(str(value))


@fuzz(2_000, st.lists(lines, max_size=6))
def test_toml(content: list[str]) -> None:
    text = "\n".join(["[[runs]]\nalgorithm = 'sac'\nenv = 'Pendulum-v1'", *content])
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "sweep.toml")
        file.write_bytes(text.encode(errors="surrogatepass"))
        attempt(lambda: read_sweep(str(file), {"gym": ["Hopper-v4"]}))


@pytest.mark.parametrize("name", ["steps", "actor_hidden", "reuse", "gamma", "tau"])
def test_deep_and_long_values(name: str) -> None:
    for value in (deep(100_000), 10**5000, "x" * 10**6, [0] * 10**5, {"a": deep(500)}):
        with pytest.raises(SmrlError, match=f"{name} must be"):
            make_settings("sac", "x", **{name: value})


@pytest.mark.slow
def test_ten_thousand_cases_with_little_memory() -> None:
    program = (
        "import resource, sys, pytest\n"
        f"resource.setrlimit(resource.RLIMIT_DATA, ({8 * BYTES}, {8 * BYTES}))\n"  # before the machine suffers
        f"code = pytest.main([{__file__!r}, '-q', '-x', '-p', 'no:cacheprovider', '-m', 'not slow'])\n"
        "print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)\n"
        "sys.exit(code)\n"
    )

    environment = os.environ | {"SMRL_FUZZ": "1"}
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=3600,
    )
    assert answer.returncode == 0, answer.stdout[-5000:] + answer.stderr[-2000:]
    assert int(answer.stdout.rpartition("peak ")[2]) < BYTES
