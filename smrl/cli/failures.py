"""How a command ends that trained several runs."""

import sys

from smrl.studies.launch import Outcome


def leave_if_failed(outcome: Outcome) -> None:
    """Name the runs that failed, each with its sentence, and end with exit code 2 if there are any."""
    for title, message in outcome.failures.items():
        print(f"smrl: {title} failed: {message}", file=sys.stderr)
    if outcome.failures:
        sys.exit(2)
