"""`smrl COMMAND …`: find the command, import it and run it. Importing nothing else keeps `smrl --help` fast."""

import importlib
import os
import sys
from collections.abc import Sequence

from smrl import output, plugins
from smrl.errors import SmrlError, nearest
from smrl.training.signals import Interrupted

GROUPS = {  # each command is the module of its name in this package, with a function run(words)
    "training": {
        "train": "train an algorithm, or resume its run",
        "compare": "train with several settings and seeds; show a table and curves",
        "sweep": "train all runs of a file, on this machine or on a cluster",
        "tune": "search settings with Optuna; write the best ones as a preset",
    },
    "results": {
        "report": "write a page, figures and tables; compare with published results",
        "watch": "show the report in a browser while runs are trained",
        "evaluate": "measure the return of a trained policy",
        "play": "watch a trained policy in a window or as a video",
        "export": "write a policy for NumPy, ONNX, C or safetensors",
    },
    "tools": {
        "check-env": "check an environment for common problems",
        "doctor": "show a run's settings and verify its files; repair them",
        "list": "show algorithms, presets, environments and task lists",
    },
    "paper": {"reproduce": "reproduce a figure, a table or the theorems of the paper"},
}
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
TAKE_MODULES = ("train", "compare", "tune", "reproduce", "check-env")  # commands in which users type module:name
# What these print is not their only result.
WRITE_FILES = ("train", "compare", "sweep", "tune", "report", "watch", "play", "export", "reproduce")

USAGE = """\
usage: smrl COMMAND …

Sample-efficient off-policy reinforcement learning by sample multiple reuse.
"""
EXAMPLES = """\
options:
  -h, --help  show this help
  --version   show the version

examples:
  smrl train sac Hopper-v4 --reuse 10
  smrl compare sac td3 Hopper-v4 --reuse 1 10 --seeds 3
  smrl evaluate runs/Hopper-v4/sac-reuse10/seed0 --best

smrl COMMAND --help explains a command, smrl train sac --help the flags of SAC.
"""


def main(words: Sequence[str] | None = None) -> None:
    """Run a command; errors that a user can fix are one line and exit code 2."""
    output.guard_streams()
    given = list(sys.argv[1:] if words is None else words)
    try:
        _dispatch(given)
        sys.stdout.flush()
        if not given or given[0] not in WRITE_FILES:
            _refuse_lost_output()
    except SmrlError as error:
        _leave(str(error), 2)
    except OSError as error:
        if error.filename is None:
            raise
        _leave(f"{error.filename} cannot be used ({error.strerror}); check its name and its permissions.", 2)
    except Interrupted as stop:
        _leave(str(stop), stop.exit_code)
    except KeyboardInterrupt:
        print("smrl: interrupted.", file=sys.stderr, flush=True)
        if words is None:
            os._exit(130)  # Python would wait for XLA to end a compilation, which may take minutes
        sys.exit(130)


def _dispatch(words: list[str]) -> None:
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        for title, commands in GROUPS.items():
            print(f"{title}:", *(f"  {name:<12}{text}" for name, text in commands.items()), sep="\n", end="\n\n")
        print(EXAMPLES, end="")
    elif words[0] == "--version":
        from importlib.metadata import version  # slow to import

        print(f"smrl {version('smrl')}")
    elif words[0] in COMMANDS:
        if words[0] in TAKE_MODULES and any(map(_names_module, words[1:])):
            plugins.use_working_directory()
        importlib.import_module(f"smrl.cli.{words[0].replace('-', '_')}").run(words[1:])
    else:
        known = ", ".join(COMMANDS)
        raise SmrlError(f"there is no command '{words[0]}' among {known}{nearest(words[0], COMMANDS)}")


def _names_module(word: str) -> bool:
    """Return whether a word, or the value in ``--flag=value``, is module:name and not a source of data."""
    if ":" not in word:
        return False
    from smrl.data.sources import names_module  # slow to import

    return names_module(word.rpartition("=")[2])


def _refuse_lost_output() -> None:
    """Exit with an error code if what was printed did not arrive; quietly if the reader left, as in `| head -1`."""
    error = getattr(sys.stdout, "error", None)
    if isinstance(error, BrokenPipeError):
        sys.exit(1)
    if error is not None:
        raise SmrlError(f"cannot write to the standard output ({plugins.in_words(error)}); send it elsewhere.")


def _leave(message: str, code: int) -> None:
    print(f"smrl: {message}", file=sys.stderr)
    sys.exit(code)
