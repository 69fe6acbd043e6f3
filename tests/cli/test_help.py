"""Help and `smrl list`: their contents, their width, and how little they import."""

import os
import re
import subprocess
import sys
from importlib.metadata import version

import pytest

from smrl.algorithms import registry
from smrl.cli.list import merged, paper_reuse
from smrl.cli.main import COMMANDS, GROUPS, main
from smrl.paper.tasks import LISTS
from smrl.presets import PRESETS, Row, find_preset, preset_names, resolve

HEAVY = ("jax", "gymnasium", "msgspec", "matplotlib", "mujoco", "flax", "numpy")


def messages(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what a command prints."""
    main(list(words))
    return capsys.readouterr().out


def helped(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """Return what a command's --help prints in a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main([*words, "--help"])
    assert stop.value.code == 0
    return capsys.readouterr().out


def explained(text: str) -> dict[str, str]:
    """Return the explanation of each flag in a help text, by the flag with its metavar."""
    flags: dict[str, str] = {}
    for line in text.splitlines():
        flag = re.match(r" {1,3}(--?[a-z].*?|[A-Z…]+)(?:  +(.*))?$", line.rstrip())
        if flag:
            flags[flag[1]] = flag[2] or ""
        elif flags and re.match(r" {8,}\S", line):
            last = next(reversed(flags))
            flags[last] = f"{flags[last]} {line.strip()}".strip()
    return flags


@pytest.mark.parametrize("words", [(), ("-h",), ("--help",)])
def test_help_has_a_line_per_command(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    lines = messages(capsys, *words).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("usage: smrl COMMAND")
    for name, text in COMMANDS.items():
        assert f"  {name:<12}{text}" in lines
    assert [line[:-1] for line in lines if line[:-1] in GROUPS] == ["training", "results", "tools", "paper"]
    for part in ("--version", "smrl train sac --help", "smrl compare sac td3 Hopper-v4 --reuse 1 10"):
        assert any(part in line for line in lines)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert messages(capsys, "--version") == f"smrl {version('smrl')}\n"


@pytest.mark.parametrize(
    "words",
    [
        *((name,) for name in COMMANDS),
        *(("train", name) for name in registry.names()),
        ("train", "sac", "Hopper-v4"),
        ("compare", "sac"),
        ("compare", "sac", "td3", "redq"),
        ("compare", "sac", "td3", "Hopper-v4", "--preset", "authors"),
    ],
    ids=" ".join,
)
def test_help_fits_80_columns(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = helped(capsys, monkeypatch, *words)
    assert text.startswith(f"usage: smrl {words[0]}")
    assert max(map(len, text.splitlines()[1:])) <= 80
    flags = explained(text)
    assert flags
    for flag, message in flags.items():
        assert re.match(r"[A-Za-z][^.]+", message), f"{flag} is not explained: {message!r}"
        assert "None" not in flag + message


def test_a_long_list_of_algorithms_is_wrapped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "names", lambda: [f"algorithm{index}" for index in range(20)])
    text = helped(capsys, monkeypatch, "train")
    assert "algorithm19" in text
    assert max(map(len, text.splitlines()[1:])) <= 80


def test_help_of_train_has_groups_and_defaults(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = helped(capsys, monkeypatch, "train", "redq", "HalfCheetah-v4", "--preset", "droq")
    groups = re.findall(r"^(\w.*):\n  ", text, re.MULTILINE)
    assert groups == ["positional arguments", "options", "settings", "hyperparameters", "run options"]
    flags = explained(text)
    assert flags["--steps INT"] == "Environment steps to train for. (default: 300000)"
    assert flags["--reuse M"].endswith("(default: 1)"), "of the preset"
    assert flags["--critics INT"] == "Number of critics. (default: 2)"
    assert flags["--target-entropy FLOAT"].endswith("(default: -3.0)"), "of the task"
    assert flags["--actor-hidden INT …"].startswith("Sizes of the actor's hidden layers")
    assert flags["--actor-hidden INT …"].endswith("(default: 256,256)")
    assert flags["--layer-norm [True|False]"].endswith("(default: True)"), "of the preset"
    assert flags["--quiet [True|False]"] == "Print nothing but errors."
    assert flags.keys() >= {"--utd INT, --fresh-batches INT", "--max-minutes FLOAT", "--preset NAME", "--seed INT"}


def test_help_of_compare_shows_shared_defaults(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = explained(helped(capsys, monkeypatch, "compare", "sac", "td3", "Hopper-v4"))
    assert flags["--tau FLOAT …"].endswith("(default: 0.005)")
    assert flags["--noise-clip FLOAT …"].endswith("Only for td3. (default: 0.5)")
    assert flags["--reuse M …"].endswith("(default: 1 and the preset's)")
    assert flags["--seeds INT"].startswith("Runs per combination")
    assert flags.keys() >= {"--layer-norm True|False …", "--steps INT …", "--target FLOAT", "--preset NAME …"}
    assert "--seed INT" not in flags
    differing = explained(helped(capsys, monkeypatch, "compare", "sac", "tqc"))
    assert differing["--temperature-loss {alpha,log-alpha} …"].endswith("(default: the algorithm's)")


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    text = messages(capsys, "list")
    for name in (name for name in registry.names() if ":" not in name):  # which other tests have asked for
        line = next(line for line in text.splitlines() if line.split()[:1] == [name])
        assert registry.find(name).title in line
        assert line.split()[-2:] == ["reuse", resolve(name, "").reuse]
        assert paper_reuse(name) == resolve(name, "").reuse
    for name in preset_names():
        assert find_preset(name).title in text
    assert all(word in text for word in ("Hopper-v4", "Pendulum-v1", "PyBullet", "DeepMind Control", "check-env"))


def test_list_of_presets_has_no_duplicate_rows(capsys: pytest.CaptureFixture[str]) -> None:
    text = messages(capsys, "list", "--presets")
    rows = [line for line in text.splitlines() if line[1:2].strip()]  # not what a row has in a second line
    assert len(rows) == len(set(rows))
    for name, preset in PRESETS.items():
        sources = {row.source for row in preset.rows}
        found = [row for source in sources for row in merged(row for row in preset.rows if row.source == source)]
        assert all(found.count(row) == 1 for row in found)
        assert sum(line.split()[0] == name for line in rows) == len(found)
    assert "exploration mean-plus-noise" in text
    marked = {line.split()[1] for line in rows if "(from code)" in line}
    assert marked >= {"*", "darc", "tqc", "redq"}
    assert not any("reuse" in line for line in rows if "(from code)" in line)


def test_merged_rows() -> None:
    rows = [Row("a", {"x": 1}, "A"), Row("b", {"x": 1}, "A"), Row("a", {"x": 2}, "B"), Row("a", {"x": 1}, "C")]
    assert merged(rows) == [("a", "A, C", {"x": 1}), ("b", "A", {"x": 1}), ("a", "B", {"x": 2})]
    assert merged([Row("a", {"x": 1}), Row("b", {"x": 1}), Row("a", {"y": 2})]) == [
        ("a", "*", {"x": 1, "y": 2}),
        ("b", "*", {"x": 1}),
    ]


def test_list_of_environments(capsys: pytest.CaptureFixture[str]) -> None:
    assert messages(capsys, "list", "--environments", "classic", "control").split() == [
        *("classic", "control", "Acrobot-v1", "CartPole-v0", "CartPole-v1"),
        *("MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"),
    ]
    assert "Hopper-v5" in messages(capsys, "list", "--environments")


def test_list_of_all_task_lists(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split(maxsplit=1) for line in messages(capsys, "list", "--tasks").splitlines() if line.strip()]
    wanted = []
    for name, found in LISTS.items():
        wanted += [[f"{name}:", found.title], *([task, mark] for task, mark in found.marked())]
    assert [[first, rest.strip()] for first, rest in rows] == wanted


def test_list_of_some_task_lists(capsys: pytest.CaptureFixture[str]) -> None:
    lines = messages(capsys, "list", "--tasks", "dmc-utd", "atari").splitlines()
    assert [line.split() for line in lines if line.strip()][1:] == [
        ["dmc/cheetah-run", "named", "in", "the", "paper"],
        ["dmc/fish-swim", "named", "in", "the", "paper"],
        ["dmc/finger-turn_hard", "our", "guess"],
        ["dmc/reacher-hard", "our", "guess"],
        ["atari:", "Atari,", "DQN"],
        *([f"{game}NoFrameskip-v4", "named", "in", "the", "paper"] for game in ("Pong", "Breakout")),
        *([f"{game}NoFrameskip-v4", "named", "in", "the", "paper"] for game in ("BeamRider", "SpaceInvaders")),
    ]


def test_list_names_the_task_lists(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.split() for line in messages(capsys, "list").splitlines()]
    for name, found in LISTS.items():
        assert [name, str(len(found.tasks)), "tasks", *found.title.split()] in lines


def test_list_of_an_unknown_task_list(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["list", "--tasks", "dcm"])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("smrl: there is no task list 'dcm' among ")
    assert error.endswith("did you mean dmc?\n")


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("list",)], ids=" ".join)
def test_quick_answers_import_little(words: tuple[str, ...]) -> None:
    """They must answer in half a second, which `python -m benchmarks --only startup` measures."""
    script = """
import sys
from smrl.cli.main import main
main(sys.argv[1:])
print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""
    answer = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    assert answer.stdout
    heavy = HEAVY if words == ("list",) else (*HEAVY, "rich")
    assert set(answer.stderr.split()).isdisjoint(heavy)


def test_closed_pipe_without_stack_trace() -> None:
    reader = subprocess.Popen(
        [sys.executable, "-m", "smrl", "list", "--presets"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert reader.stdout is not None
    reader.stdout.close()
    assert reader.stderr is not None
    assert reader.stderr.read() == ""
    reader.stderr.close()
    assert reader.wait() == 1


def test_closed_streams_and_ascii_terminals_without_stack_trace() -> None:
    script = '"$0" -m smrl list >&- && "$0" -m smrl --help 2>&- && "$0" -m smrl list <&-'
    answer = subprocess.run(["bash", "-c", script, sys.executable], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, "")
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    answer = subprocess.run(
        [sys.executable, "-m", "smrl", "--help"], env=ascii_only, capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "smrl COMMAND" in answer.stdout
