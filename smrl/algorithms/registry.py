"""The algorithms by name: built-in ones, those of installed packages, and those that a user registers.

An algorithm is a function ``(config, spec) → Algorithm`` whose first parameter is annotated with its hyperparameters, a
dataclass with a default for every field. Names are looked up without importing JAX.
"""

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_type_hints

from smrl import plugins
from smrl.errors import SmrlError, nearest, require, short_repr

if TYPE_CHECKING:
    from smrl.types import Algorithm, Spec

GROUP = "smrl.algorithms"  # entry points of packages that provide algorithms
Make = Callable[[Any, "Spec"], "Algorithm[Any]"]


@dataclass(frozen=True)
class Entry:
    """A registered algorithm; its module is imported on first use."""

    name: str
    title: str
    source: str | Make  # module:function, or the function itself

    @cached_property
    def make(self) -> Make:
        """The function that makes the algorithm from its hyperparameters and a spec."""
        found = plugins.load(self.source, "an algorithm") if isinstance(self.source, str) else self.source
        if not callable(found):
            raise SmrlError(f"the algorithm {self.name} must be a function (config, spec) → Algorithm, not {found!r}.")
        return found

    @cached_property
    def config(self) -> type[Any]:
        """The dataclass of its hyperparameters, from the function's annotation."""
        try:
            parameters = list(inspect.signature(self.make).parameters)
            kind = get_type_hints(self.make).get(parameters[0]) if parameters else None
        except (TypeError, ValueError, NameError, AttributeError):  # C code, or an annotation that cannot be evaluated
            kind = None
        if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
            raise SmrlError(
                f"the first parameter of the algorithm {self.name} must be annotated with a dataclass, its "
                "hyperparameters; see docs/extend.md."
            )
        for field in dataclasses.fields(kind):
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                raise SmrlError(f"the hyperparameter {field.name} of {self.name} needs a default value.")
        return kind


_BUILT_IN = {
    "ddpg": "deep deterministic policy gradient",
    "td3": "twin delayed DDPG",
    "sac": "soft actor-critic",
    "darc": "double actors regularised critics",
    "tqc": "truncated quantile critics",
    "redq": "randomised ensembled double Q-learning",
    "xqc": "SAC with batch-normalised critics of the return's distribution",
    "sac_pixels": "soft actor-critic from images",
    "drqv2": "DrQ-v2: DDPG from images that are shifted at random",
    "dqn": "deep Q-network, for discrete actions",
}
_entries = {name: Entry(name, title, f"smrl.algorithms.{name}:{name}") for name, title in _BUILT_IN.items()}


def names() -> list[str]:
    """Names of all algorithms, the built-in ones first; without those that were only looked up as module:function."""
    return [*_entries, *(name for name in plugins.entry_points(GROUP) if name not in _entries)]


def find(name: str) -> Entry:
    """The algorithm of a name or ``module:function``; the error for an unknown name suggests a similar one."""
    require(isinstance(name, str), f"an algorithm is given by its name, such as 'sac', not by {short_repr(name)}.")
    if name in _entries:
        return _entries[name]
    if name in plugins.entry_points(GROUP):
        return Entry(name, "from a package", plugins.entry_points(GROUP)[name].value)
    if ":" in name:
        return Entry(name, f"from {name.partition(':')[0]}", name)
    known = ", ".join(names())
    raise SmrlError(
        f"there is no algorithm {short_repr(name)} among {known}{nearest(name, names())}; "
        "one of your own is written module:function."
    )


def register(name: str, make: Make, title: str = "") -> None:
    """Register an algorithm under a name, for this process."""
    require(callable(make), f"an algorithm must be a function (config, spec) → Algorithm, not {short_repr(make)}.")
    if not name.isidentifier():
        raise SmrlError(f"an algorithm's name must be a word such as cem, not {name!r}.")
    if name in _BUILT_IN:
        raise SmrlError(f"{name} is an algorithm of smrl; register yours under another name.")
    entry = Entry(name, title or (inspect.getdoc(make) or "an algorithm of your own").partition("\n")[0], make)
    entry.config  # noqa: B018  # refuse a function that is no algorithm now, not when it trains
    _entries[name] = entry
