"""The commands and the code of docs/data.md."""

import re
import shlex
from pathlib import Path

import pytest

from smrl.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "data.md"
SHORT = [
    *("--steps", "40", "--eval-every", "20", "--eval-episodes", "1", "--batch-size", "8", "--reuse", "1", "--quiet"),
    *("--actor-hidden", "8", "--critic-hidden", "8", "--max-episode-steps", "20"),
]
RUN = "before/Pendulum-v1/sac-reuse10/seed0"  # as the page names it


@pytest.mark.slow
@pytest.mark.parametrize("which", ["compare", "others"])
def test_commands_of_the_page(which: str, in_tmp_path: Path) -> None:
    blocks = re.findall(r"```(sh|python)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for code in (text for kind, text in blocks if kind == "python"):
        exec(code, {})
    lines = [shlex.split(line) for kind, text in blocks if kind == "sh" for line in text.splitlines()]
    assert {program for program, *_ in lines} == {"smrl"}
    done = [command for _, command, *_ in lines]
    assert [done.count(name) for name in ("train", "compare", "export")] == [7, 2, 1]
    for number, (_, command, *words) in enumerate(lines):
        made = [str(path.relative_to(in_tmp_path)) for path in in_tmp_path.glob("before/*/*/seed0")]
        words = [made[0] if word == RUN else word for word in words]
        if command == "export":
            main([command, *words])
        elif number == 0 or (command == "compare") == (which == "compare"):
            warmup = [] if "--warmup" in words else ["--warmup", "20"]
            main([command, *words, *SHORT, *warmup])
    runs = list(in_tmp_path.glob("runs/*/*/seed0/evaluations.csv"))
    assert len(runs) == (4 if which == "compare" else 6)
    assert (in_tmp_path / "pendulum-v0" / "data" / "main_data.hdf5").is_file()
