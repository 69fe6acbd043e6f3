"""A Markdown extension that shows the doctests of docstrings as code, without their directives."""

import re
from typing import Any

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor

BEFORE_FENCES = 27  # after whitespace is normalised (30) and before fenced code is found (25)


class Doctests(Preprocessor):
    """Put fences around lines that begin with a prompt, up to the next empty line."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines with fences."""
        answer: list[str] = []
        is_open = False
        for line in lines:
            if not is_open and line.startswith(">>> "):
                answer.append("```pycon")
                is_open = True
            elif is_open and not line.strip():
                answer.append("```")
                is_open = False
            answer.append(re.sub(r"\s+# doctest: .*", "", line) if is_open else line)
        return [*answer, "```"] if is_open else answer


class DoctestExtension(Extension):
    """The extension, as Markdown finds it."""

    def extendMarkdown(self, md: Markdown) -> None:  # the name is Markdown's
        """Register the preprocessor."""
        md.preprocessors.register(Doctests(md), "doctests", BEFORE_FENCES)


def makeExtension(**options: Any) -> DoctestExtension:  # the name is Markdown's
    """Return the extension."""
    return DoctestExtension(**options)
