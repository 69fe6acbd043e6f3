"""`smrl train ALGORITHM ENVIRONMENT`: train an algorithm, or continue its run."""

from collections.abc import Sequence

from smrl.algorithms import registry
from smrl.api import train
from smrl.cli.flags import (
    Flag,
    about,
    asks_for_help,
    default_values,
    names_before_flags,
    option_flags,
    preset_among,
    read,
    run_flags,
)
from smrl.cli.parsing import out
from smrl.errors import require

ABOUT = "Train an algorithm, or continue its run; a finished run is left alone."
PRESET = Flag("preset", (str,), "Named settings that the flags are laid over; see smrl list --presets.", "paper")


def run(words: Sequence[str]) -> None:
    """Parse, train, say where the run is."""
    names, rest = names_before_flags(words)
    usage = "write smrl train ALGORITHM ENVIRONMENT, then the flags"
    known = ", ".join(registry.names())
    algorithm, env = [*names, "", ""][:2]
    is_help = asks_for_help(rest)
    require(bool(algorithm) or is_help, f"{usage}, with an algorithm of {known}.")
    require(len(names) == 2 or (is_help and len(names) < 2), f"{usage}: smrl train {algorithm or 'sac'} Hopper-v4.")
    defaults = default_values(names[:1], env, preset_among(rest)) if is_help else {}
    groups = {**run_flags(names[:1], defaults, is_many=False), **option_flags()}
    groups["run settings"].insert(0, PRESET)
    more = () if algorithm else ("", "smrl train sac --help adds the hyperparameters of SAC.")
    name = f"train {algorithm or 'ALGORITHM'} {env or 'ENVIRONMENT'}"
    given = read(rest, name, about(ABOUT, "ALGORITHM", *more), groups)
    values = {flag.name: flag.value(words, "; smrl compare tries several") for flag, words in given.items()}
    trained = train(algorithm, env, **values)
    if not values.get("quiet"):
        out.print(f"the run is in {trained.path}", markup=False)
