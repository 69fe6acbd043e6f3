"""Equations as MathML, which browsers draw without a script or a network."""

import re
from typing import Any

from latex2mathml.converter import convert


def render(source: str, language: str, css_class: str, options: Any, markdown: Any, **others: Any) -> str:
    """Return the HTML of a fenced block in LaTeX; the arguments are those of pymdownx.superfences."""
    # As a superscript, a prime hangs too high in fonts that are not made for mathematics.
    mathml = convert(source.replace("'", "′").replace(r"\sim", "∼"), display="block")
    mathml = re.sub(r"<mi>(log|exp)</mi>", r'<mspace width="0.17em"/><mi>\1</mi><mspace width="0.17em"/>', mathml)
    return f'<div class="{css_class}">{mathml.replace("<mi>∼</mi>", "<mo>∼</mo>")}</div>'
