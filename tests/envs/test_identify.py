"""Names and digests of environments that are given as functions or classes."""

import functools
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import broken_envs
import gymnasium
import pytest
from broken_envs import Toy

from smrl.envs.identify import digest, identify
from smrl.envs.make import make
from smrl.errors import SmrlError

NAMES = iter(f"identified_{number}" for number in range(10_000))


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Return a function that writes a module and imports it."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(code: str) -> ModuleType:
        name = next(NAMES)
        (tmp_path / f"{name}.py").write_text(code)
        return __import__(name)

    return write


def test_ids_identify_themselves() -> None:
    assert identify("Pendulum-v1") == ("Pendulum-v1", None)
    assert identify("broken_envs:Toy") == ("broken_envs:Toy", None)


@pytest.mark.parametrize(
    ("env", "name"),
    [
        (Toy, "broken_envs:Toy"),
        (broken_envs.make_toy, "broken_envs:make_toy"),
        (Toy.of_spaces, "broken_envs:Toy.of_spaces"),
    ],
)
def test_importable_objects_are_named_by_module(env: Any, name: str) -> None:
    found, source = identify(env)
    assert found == name
    assert source is not None
    assert len(source) == 16
    assert type(make(found).env) is Toy


def test_different_functions_have_different_digests() -> None:
    own = [kind for kind in Toy.__subclasses__() if kind.__module__ == broken_envs.__name__]
    kinds: list[Any] = [Toy, *own, broken_envs.make_toy, Toy.of_spaces]
    assert len({identify(kind) for kind in kinds}) == len({identify(kind)[1] for kind in kinds}) == len(kinds)


FIRST = """
def make(g=10):
    return gymnasium.make('Pendulum-v1', g=g)  # a comment
"""
SAME = """
import gymnasium

# Another one.
def make(
    g = 10,
):

        return gymnasium.make("Pendulum-v1",
                              g=g)
"""
OTHERS = [FIRST.replace("10", "5"), FIRST.replace("Pendulum-v1", "Pendulum-v2"), FIRST.replace("g=g", "g=-g")]


def test_a_digest_ignores_comments_and_formatting_only(written: Callable[[str], ModuleType]) -> None:
    first = digest(written(FIRST).make)
    assert digest(written(SAME).make) == first
    assert len({first, *(digest(written(other).make) for other in OTHERS)}) == 1 + len(OTHERS)


CLASS = """
class Env:
    gravity = 10
    def __init__(self, mass=1):
        self.mass = mass
    @property
    def weight(self):
        return self.mass * self.gravity
    @staticmethod
    def kinds():
        return 'x' in {'a', 'b', 'c', 'd'}
"""
CHANGES = [("= 10", "= 5"), ("mass=1", "mass=2"), ("* self", "/ self"), ("'b'", "'e'")]


def compiled(code: str, name: str) -> Any:
    space: dict[str, Any] = {"__name__": "typed_in"}
    exec(code, space)
    return space[name]


def test_digest_of_compiled_code() -> None:
    first = digest(compiled(CLASS, "Env"))
    assert first is not None
    assert digest(compiled("\n\n" + CLASS, "Env")) == first
    changed = [digest(compiled(CLASS.replace(*change), "Env")) for change in CHANGES]
    assert len({first, *changed}) == 1 + len(CHANGES)
    functions = [digest(compiled(code, "make")) for code in (FIRST, *OTHERS)]
    assert len(set(functions)) == 1 + len(OTHERS)
    assert digest(compiled("# moved\n" + FIRST, "make")) == functions[0]


def test_digest_of_compiled_code_repeats_in_another_process() -> None:
    """A script from a pipe has no source, and the order of sets differs between processes."""
    program = f"from smrl.envs.identify import identify\n{CLASS}\nprint(identify(Env))"
    messages = {
        subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, check=True).stdout
        for _ in range(4)
    }
    assert len(messages) == 1
    assert messages.pop().startswith("('__main__:Env', '")


def test_function_of_the_script_is_named_main(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from smrl.envs.identify import identify\ndef mine():\n  return 1\nprint(identify(mine))")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\('__main__:mine', '[0-9a-f]{16}'\)\n", done.stdout)


def test_spawned_process_uses_the_name_main(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("__mp_main__")
    exec(FIRST, module.__dict__)
    monkeypatch.setitem(sys.modules, "__mp_main__", module)
    assert identify(module.make)[0] == "__main__:make"


@pytest.mark.parametrize("env", [max, dict])
def test_c_functions_have_no_digest(env: Any) -> None:
    assert identify(env) == (f"builtins:{env.__name__}", None)


def nested() -> Callable[[], Toy]:
    def inner() -> Toy:
        return Toy()

    return inner


def closing_over(value: int) -> Callable[[], Toy]:
    @functools.wraps(broken_envs.make_toy)
    def make_toy() -> Toy:
        return Toy(value)

    return make_toy


class Factory:
    def __call__(self) -> Toy:
        return Toy()

    def method(self) -> Toy:
        return Toy()


def decorator(function: Callable[[], Toy]) -> Callable[[], Toy]:
    @functools.wraps(function)
    def wrapper() -> Toy:
        return function()

    return wrapper


def plain() -> Toy:
    return Toy()


decorated_plain = decorator(plain)


@decorator
def decorated() -> Toy:
    return Toy()


named_lambda = lambda: Toy()  # noqa: E731

NAMELESS = [
    lambda: Toy(),
    named_lambda,
    functools.partial(Toy, at=3),
    Factory(),
    Factory().method,
    Toy.like_this,
    [].append,
    nested(),
    closing_over(3),
    decorated,
    decorated_plain,  # has the name of another function
]


@pytest.mark.parametrize("env", NAMELESS, ids=lambda env: getattr(env, "__qualname__", type(env).__name__))
def test_nameless_functions_need_env_name(env: Any) -> None:
    with pytest.raises(SmrlError, match=r'has no name by which its run could be found again: pass env_name="…"'):
        identify(env)
    assert identify(env, "my-task") == ("my-task", None)


def test_env_name_replaces_the_digest() -> None:
    assert identify(Toy, "my-task") == ("my-task", None)


@pytest.mark.parametrize(
    ("env", "name", "message"),
    [
        (Toy, "", "env_name must be a name such as 'my-pendulum', not ''"),
        (Toy, "  ", "env_name must be a name"),
        (Toy, "a\nb", "env_name must be a name"),
        (Toy, 3, "env_name must be a name such as 'my-pendulum', not 3"),
        (Toy, "Pendulum-v1", "env_name 'Pendulum-v1' is the id of another environment: choose a different name"),
        (Toy, "dmc/cheetah-run", "env_name 'dmc/cheetah-run' is the id of another environment"),
        (
            "Pendulum-v1",
            "mine",
            "env_name is for functions, and 'Pendulum-v1' is a name already: leave env_name out",
        ),
        (3, None, "by a function that makes it, not by 3"),
        (gymnasium.make("Pendulum-v1"), "mine", "by a function that makes it, not by <TimeLimit"),
    ],
)
def test_invalid_names(env: Any, name: Any, message: str) -> None:
    with pytest.raises(SmrlError) as caught:
        identify(env, name)
    assert message in str(caught.value)
