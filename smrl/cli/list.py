"""`smrl list`: algorithms, presets, environments, task lists. Imports JAX, Gymnasium and the parser only if it must."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from rich.table import Table
from rich.text import Text

from smrl.algorithms import registry
from smrl.cli.parsing import out
from smrl.envs import catalogue
from smrl.errors import SmrlError, nearest
from smrl.paper import tasks as task_lists
from smrl.studies import presets
from smrl.studies.presets import Row

ABOUT = "Show the algorithms, presets, families of environments and task lists."


def run(words: Sequence[str]) -> None:
    """Parse, print."""
    asked = _asked(words) if words else {}
    if "presets" in asked:
        show({"": _preset_rows()}, "preset", "algorithms", "tasks", "settings")
    if "environments" in asked:
        for name in _families(" ".join(asked["environments"])):
            show({name: [(id,) for id in catalogue.ids(name) or [catalogue.families()[name]]]})
    if "tasks" in asked:
        for name in asked["tasks"] or task_lists.LISTS:
            found = task_lists.find(name)
            show({f"{name}: {found.title}": found.marked()})
    if not asked:
        titles = {name: registry.find(name).title for name in registry.names()}
        show({"algorithms": [(name, title, f"reuse {paper_reuse(name)}") for name, title in titles.items()]})
        show({"presets": [(name, presets.find(name).title) for name in presets.names()]})
        show({"environments": list(catalogue.families().items())})
        lists = [(name, f"{len(found.tasks)} tasks", found.title) for name, found in task_lists.LISTS.items()]
        show({"task lists of the paper": lists})
        out.print("smrl list --presets, --environments and --tasks show more.")


def show(tables: Mapping[str, Iterable[Sequence[str]]], *columns: str) -> None:
    """Print tables with headings; the first column is bold."""
    for heading, rows in tables.items():
        table = Table(*columns, title=heading or None, title_justify="left", show_header=bool(columns), box=None)
        for first, *others in rows:
            table.add_row(Text(first, "bold"), *map(Text, others))
        out.print(table)
        out.print()


def paper_reuse(algorithm: str) -> str:
    """How often the paper reuses a batch with an algorithm, whatever the task."""
    rows = [row for row in presets.find("paper").rows if row.algorithm in ("*", algorithm) and row.tasks == "*"]
    return str([row.settings["reuse"] for row in rows if "reuse" in row.settings][-1])


def merged(rows: Iterable[Row]) -> list[tuple[str, str, dict[str, Any]]]:
    """Algorithms, tasks and settings: one row for all that are set alike, without what a later row replaces.

    >>> merged([Row("sac", {"tau": 1}, "A"), Row("sac", {"tau": 2}, "B"), Row("sac", {"tau": 2}, "A")])
    [('sac', 'A, B', {'tau': 2})]
    """
    settings: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        settings[row.algorithm, row.tasks] = settings.get((row.algorithm, row.tasks), {}) | row.settings
    by_algorithm: dict[tuple[str, str], list[str]] = {}  # algorithm, settings → tasks
    for (algorithm, tasks), values in settings.items():
        by_algorithm.setdefault((algorithm, repr(values)), []).append(tasks)
    found: dict[tuple[str, str], list[str]] = {}  # tasks, settings → algorithms
    for (algorithm, written), patterns in by_algorithm.items():
        found.setdefault((", ".join(patterns), written), []).append(algorithm)
    values_of = {repr(values): values for values in settings.values()}
    return [(", ".join(algorithms), tasks, values_of[written]) for (tasks, written), algorithms in found.items()]


def _preset_rows() -> list[tuple[str, str, str, str]]:
    lines = []
    for name in presets.names():
        rows = presets.find(name).rows
        for source in dict.fromkeys(row.source for row in rows):
            for algorithms, tasks, settings in merged(row for row in rows if row.source == source):
                values = ", ".join(f"{setting} {_written(value)}" for setting, value in settings.items())
                lines.append((name, algorithms, tasks, f"{values or 'as in the paper'}{source and f' ({source})'}"))
    return lines


def _written(value: Any) -> str:
    """A value as its flag takes it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _families(name: str) -> list[str]:
    """The family of a name, or all that have ids."""
    families = [family for family in catalogue.families() if family != catalogue.OWN]
    if not name:
        return families
    found = [family for family in families if family.lower() == name.lower()]
    if not found:
        raise SmrlError(f"there is no family '{name}' among {', '.join(families)}{nearest(name, families)}")
    return found


def _asked(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The words of each flag that was given."""
    import tyro

    from smrl.cli.flags import Flag, read

    family = Annotated[str, tyro.conf.arg(metavar="[FAMILY]")]
    lists = Annotated[str, tyro.conf.arg(metavar="[LIST …]")]
    flags = [
        Flag("presets", (bool,), "Show what each preset sets, by algorithm and task."),
        Flag("environments", (family,), "Show the ids of all environments, or of a family such as Gym MuJoCo."),
        Flag("tasks", (lists,), "Show the tasks of the paper's task lists, and which of them are our guess."),
    ]
    return {flag.name: given for flag, given in read(words, "list", ABOUT, {"more": flags}).items()}
