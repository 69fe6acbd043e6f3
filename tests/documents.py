"""The code blocks of the documents."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
NOT_RUN = re.compile(r"<!-- not run: (\S.*) -->")
PROGRAM = re.compile(r"    (?:(?:smrl|make|python|pip|git|cc|\.venv/bin/pytest) |[A-Z]+=)")


@dataclass(frozen=True)
class Block:
    """A fenced block, or indented lines that begin with a command."""

    document: str
    line: int
    language: str
    code: str
    is_run: bool  # false if a comment above it says why it is not

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks(document: Path) -> list[Block]:
    """Return all code blocks of a document; indented commands have the language sh."""
    lines = document.read_text().splitlines()
    found: list[Block] = []
    name, index = str(document.relative_to(ROOT)), 0
    while index < len(lines):
        start, line = index, lines[index]
        before = next((text for text in reversed(lines[:start]) if text.strip()), "")
        if line.startswith("```"):
            index = lines.index("```", start + 1)
            language, code = line.strip("`").strip(), lines[start + 1 : index]
        elif PROGRAM.match(line) and not lines[start - 1].strip():
            while index + 1 < len(lines) and lines[index + 1].startswith("    "):
                index += 1
            language, code = "sh", [text[4:] for text in lines[start : index + 1]]
        else:
            index += 1
            continue
        found.append(Block(name, start + 1, language, "\n".join(code) + "\n", not NOT_RUN.fullmatch(before)))
        index += 1
    return found


def commands(code: str) -> Iterator[list[str]]:
    """Yield the words of the commands of a shell block, without comments and with its own variables put in."""
    variables: dict[str, str] = {}
    for line in code.replace("\\\n", " ").splitlines():
        for name, value in variables.items():
            line = line.replace(f"${name}", value)
        if assigned := re.fullmatch(r'([A-Z]+)="(.*)"', line):
            variables[assigned[1]] = assigned[2]
        elif words := shlex.split(line, comments=True):
            yield words
