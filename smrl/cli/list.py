"""`smrl list`: algorithms, presets, environments, task lists. Imports JAX and Gymnasium only if it must."""

from collections.abc import Iterable, Sequence
from typing import Any

from smrl.algorithms import registry
from smrl.cli.common import Parser, out, print_table
from smrl.envs import catalogue
from smrl.errors import nearest, require
from smrl.paper import tasks as task_lists
from smrl.presets import Row, find_preset, preset_names


def run(words: Sequence[str]) -> None:
    """Print the lists that the flags ask for, or an overview."""
    parser = Parser("list", "Show the algorithms, presets, families of environments and task lists.")
    parser.add_argument("--presets", action="store_true", help="Show what each preset sets, by algorithm and task.")
    text = "Show the ids of all environments, or of a family such as Gym MuJoCo."
    parser.add_argument("--environments", nargs="*", metavar="FAMILY", help=text)
    text = "Show the tasks of the paper's task lists, and which of them are our guess."
    parser.add_argument("--tasks", nargs="*", metavar="LIST", help=text)
    asked = parser.read(words)
    if "presets" in asked:
        print_table(_preset_rows(), "preset", "algorithms", "tasks", "settings")
    if "environments" in asked:
        for name in _families(" ".join(asked["environments"])):
            print_table([(id,) for id in catalogue.ids(name) or [catalogue.families()[name]]], title=name)
    if "tasks" in asked:
        for name in asked["tasks"] or task_lists.LISTS:
            found = task_lists.find(name)
            print_table(found.marked(), title=f"{name}: {found.title}")
    if not asked:
        algorithms = [(name, registry.find(name).title, f"reuse {paper_reuse(name)}") for name in registry.names()]
        print_table(algorithms, title="algorithms")
        print_table([(name, find_preset(name).title) for name in preset_names()], title="presets")
        print_table(catalogue.families().items(), title="environments")
        lists = [(name, f"{len(found.tasks)} tasks", found.title) for name, found in task_lists.LISTS.items()]
        print_table(lists, title="task lists of the paper")
        out.print("smrl list --presets, --environments and --tasks show more.")


def paper_reuse(algorithm: str) -> str:
    """Return the reuse ratio of the paper for an algorithm on all tasks."""
    rows = [row for row in find_preset("paper").rows if row.algorithm in ("*", algorithm) and row.tasks == "*"]
    return str([row.settings["reuse"] for row in rows if "reuse" in row.settings][-1])


def merged(rows: Iterable[Row]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return algorithms, tasks and settings: one row for all that share settings, without what a later row replaces.

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
    for name in preset_names():
        rows = find_preset(name).rows
        for source in dict.fromkeys(row.source for row in rows):
            for algorithms, tasks, settings in merged(row for row in rows if row.source == source):
                values = ", ".join(f"{setting} {_written(value)}" for setting, value in settings.items())
                lines.append((name, algorithms, tasks, f"{values or 'as in the paper'}{source and f' ({source})'}"))
    return lines


def _written(value: Any) -> str:
    """Return a value as its flag takes it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _families(name: str) -> list[str]:
    """Return the family of a name, or all families with ids."""
    families = [family for family in catalogue.families() if family != catalogue.OWN]
    found = [family for family in families if name.lower() in ("", family.lower())]
    require(bool(found), f"there is no family '{name}' among {', '.join(families)}{nearest(name, families)}")
    return found
