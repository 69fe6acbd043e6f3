"""Every command and every Python block of README.md, CONTRIBUTING.md and docs/ works, or says why it is not run.

Commands are parsed here as the command line does it, and those of the tutorial are run. The pages extend.md, robots.md,
data.md, deploy.md and integrations.md also have tests of their own, which run them as a whole.
"""

import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from documents import DOCUMENTS, NOT_RUN, ROOT, Block, blocks, commands
from untrained_runs import SMALL, write_untrained

import benchmarks.__main__ as bench
import smrl
from smrl import presets
from smrl.algorithms import registry
from smrl.cli.common import Parser
from smrl.cli.main import COMMANDS, main
from smrl.paper.tasks import LISTS
from smrl.settings import RunOptions
from smrl.studies.sweep import read_sweep

BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]
SHELL = [block for block in BLOCKS if block.language == "sh" and block.is_run]
PYTHON = [block for block in BLOCKS if block.language == "python"]
LANGUAGES = {"sh", "python", "toml", "math", "c", "bibtex"}
PAGES_WITH_OWN_TESTS = ("extend.md", "robots.md", "data.md", "deploy.md", "integrations.md")
PLACEHOLDERS = {"ALGORITHM": "sac", "RUN": "runs/Hopper-v4/sac-reuse10/seed0"}
SHORT: dict[str, Any] = {
    **{"steps": 40, "warmup": 20, "eval_every": 20, "eval_episodes": 1, "batch_size": 8, "max_episode_steps": 10},
    **{"actor_hidden": (8,), "critic_hidden": (8,)},
}


class ParsedError(Exception):
    """Raised in place of what a command would do."""


@pytest.fixture
def parse_only(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let commands parse their words and do nothing, in a folder with the module of extend.md."""
    code = [block.code for block in blocks(ROOT / "docs" / "extend.md") if block.language == "python"]
    (in_tmp_path / "my_module.py").write_text("\n\n".join(text for text in code if "smrl.register" not in text))
    monkeypatch.syspath_prepend(in_tmp_path)
    preset = in_tmp_path / "tune" / "sac-Pendulum-v1" / "best.toml"  # as a search of docs/tune.md leaves it
    preset.parent.mkdir(parents=True)
    preset.write_text('title = "the best"\n[[rows]]\nalgorithm = "sac"\nsettings = { tau = 0.01 }\n')
    read = Parser.read

    def parse(self: Parser, words: Any) -> Any:
        values = read(self, words)
        if self.prog == "smrl train":  # whose settings could still contradict each other
            options = {field.name for field in fields(RunOptions)}
            presets.resolve(**{name: value for name, value in values.items() if name not in options})
        raise ParsedError

    monkeypatch.setattr(Parser, "read", parse)
    yield
    for table in (registry._entries, presets.PRESETS):
        for name in [name for name in table if name.startswith("my_module:")]:
            del table[name]


def check(words: list[str]) -> None:
    """Raise unless a command is one that could be run."""
    if words[0] == "smrl":
        end: Any = 0
        try:
            main([PLACEHOLDERS.get(word, word) for word in words[1:]])
        except ParsedError:
            return
        except SystemExit as error:  # the help, which has no code, or a refusal
            end = error.code
        assert not end, words
    elif words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(words[1:]) <= set(targets), words
    elif words[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for extra in re.findall(r"smrl\[([\w,]+)\]", " ".join(words)):
            assert set(extra.split(",")) <= set(project["optional-dependencies"]), words
    elif words[:3] == ["python", "-m", "benchmarks"]:
        assert set(words[words.index("--only") + 1 :]) <= set(bench.SECTIONS), words
    elif words[0] == ".venv/bin/pytest":
        assert all((ROOT / word).exists() for word in words if word.startswith("tests/")), words
    else:
        assert words[0] == "cc", f"no test knows the program of {words}: mark the block with a reason"


@pytest.mark.parametrize("block", SHELL, ids=str)
@pytest.mark.usefixtures("parse_only")
def test_commands_are_accepted(block: Block) -> None:
    for words in commands(block.code):
        check(words)


@pytest.mark.usefixtures("parse_only")
def test_wrong_commands_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("smrl train sac Hopper-v4 --reuze 3", "smrl train sacc Hopper-v4", "smrl learn sac", "make tea"):
        with pytest.raises(AssertionError):
            check(shlex.split(line))
    for line in ('pip install "smrl[tea]"', "python -m benchmarks --only tea", "brew install smrl"):
        with pytest.raises(AssertionError):
            check(shlex.split(line))


def test_blocks_have_a_known_language() -> None:
    """A block of another language would be neither run nor checked."""
    assert {block.language for block in BLOCKS} <= LANGUAGES
    assert len(SHELL) > 40


def test_marks_have_a_reason_and_a_block() -> None:
    marks = sum(len(NOT_RUN.findall(document.read_text())) for document in DOCUMENTS)
    assert marks == sum(not block.is_run for block in BLOCKS)


def test_inline_commands_exist() -> None:
    """Commands within sentences: `smrl train …`."""
    for document in DOCUMENTS:
        for command in re.findall(r"`smrl ([a-z][\w-]*)", document.read_text()):
            assert command in COMMANDS, f"{document}: smrl {command}"


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_can_be_compiled(block: Block) -> None:
    compile(block.code, str(block), "exec")


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "toml"], ids=str)
def test_toml_is_valid(block: Block, in_tmp_path: Path) -> None:
    """Sweeps can be expanded, presets can be used; other blocks are parts of a sweep."""
    file = in_tmp_path / "file.toml"
    file.write_text(block.code)
    if block.document == "docs/examples.md":
        return  # names a file, which tests/test_examples.py reads
    keys = tomllib.loads(block.code).keys()
    if "runs" in keys:
        assert read_sweep(str(file), {name: found.tasks for name, found in LISTS.items()}).settings
    elif "rows" in keys:
        assert presets.resolve("sac", "Arm-v0", str(file)).hyper.tau == 0.01
    else:
        assert keys <= {"slurm"}


def short_train(*arguments: Any, **keywords: Any) -> smrl.Run:
    """Train for a few steps."""
    return train(*arguments, **{**keywords, **SHORT, "quiet": True})


train = smrl.train


@pytest.mark.parametrize(
    "page",
    [
        *("docs/update.md", "docs/report.md", "docs/reuse-auto.md"),
        *(pytest.param(f"docs/{name}.md", marks=pytest.mark.slow) for name in ("index", "knobs", "your-environment")),
        pytest.param("README.md", marks=pytest.mark.slow),
    ],
)
def test_python_of_pages_runs(page: str, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One namespace per page, in which later blocks may use earlier ones, and shorter training."""
    monkeypatch.setattr(smrl, "train", short_train)
    code = [block.code for block in blocks(ROOT / page) if block.language == "python" and block.is_run]
    assert code
    if any("smrl.load" in text for text in code):
        write_untrained(Path("runs/Pendulum-v1/sac-reuse10/seed0"), "sac", "Pendulum-v1", **SMALL)
    namespace: dict[str, Any] = {"smrl": smrl}
    for text in code:
        exec(text, namespace)


def test_api_lists_every_public_name() -> None:
    listed = re.findall(r"^::: smrl\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert set(smrl.__all__) == set(listed) - {"statistics"}


def test_python_of_every_page_is_run() -> None:
    run = {"update.md", "report.md", "reuse-auto.md", "index.md", "knobs.md", "your-environment.md", "tutorial.md"}
    run |= {*PAGES_WITH_OWN_TESTS, "examples.md", "README.md"}  # of which tests/test_examples.py runs the former
    assert {Path(block.document).name for block in PYTHON if block.is_run} <= run


@pytest.mark.slow
def test_the_tutorial(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """All commands and the Python of the tutorial in their order, with shorter training."""
    monkeypatch.setattr(smrl, "train", short_train)
    flags = " ".join(
        f"--{name.replace('_', '-')} {value[0] if isinstance(value, tuple) else value}" for name, value in SHORT.items()
    )
    for block in (block for block in blocks(ROOT / "docs" / "tutorial.md") if block.is_run):
        if block.language == "python":
            exec(block.code, {})
            continue
        for words in commands(block.code):
            if words[1] in ("train", "compare"):
                words += [*flags.split(), "--quiet"]
            folders = [[str(path) for path in sorted(Path().glob(word))] if "*" in word else [word] for word in words]
            assert all(len(paths) == 1 for paths in folders), f"{words}: a pattern must name one folder"
            main([path for (path,) in folders[1:]])
    made = {path.name for path in in_tmp_path.iterdir()}
    assert {"runs", "pendulum.mp4", "report.html", "policy"} <= made
    assert len(list(in_tmp_path.glob("runs/*/*/seed*"))) == 4, "the Python block finds the run of the command line"


def test_links_lead_somewhere() -> None:
    """Links between documents, and from README.md and others into docs/; `make docs` checks anchors."""
    others = [ROOT / name for name in ("SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md")]
    for document in [*DOCUMENTS, *others]:
        text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
            if "://" not in target:
                path = Path(os.path.normpath(document.parent / target))
                assert path.exists(), f"{document.name}: {target}"
                on_site = path.is_relative_to(ROOT / "docs")
                assert on_site or not document.is_relative_to(ROOT / "docs"), f"{document.name}: {target} is elsewhere"


def test_sources_name_documents_that_exist() -> None:
    for folder in ("smrl", "tests", "examples", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            for name in re.findall(r"\bdocs/([\w/-]+\.md)", path.read_text()):
                assert (ROOT / "docs" / name).exists(), f"{path}: docs/{name}"
