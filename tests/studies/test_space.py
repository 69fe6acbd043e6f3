"""Search spaces, by default and from TOML files."""

from pathlib import Path

import pytest

from smrl.algorithms import registry
from smrl.cli.main import main
from smrl.errors import SmrlError
from smrl.presets import resolve
from smrl.studies.space import Choices, Range, as_toml, default_space, read_space


@pytest.mark.parametrize("algorithm", registry.names())
def test_the_default_space_is_one_that_can_be_edited(algorithm: str, in_tmp_path: Path) -> None:
    space = default_space(algorithm, {"gamma"})
    assert {"reuse", "learning_rate", "batch_size"} <= space.keys()
    assert "gamma" not in space
    Path("space.toml").write_text(as_toml(space))
    assert read_space(Path("space.toml"), algorithm, ()) == space
    for name, domain in space.items():
        for value in domain.choices if isinstance(domain, Choices) else (domain.low, domain.high):
            resolve(algorithm, "Pendulum-v1", **{name: value})


def test_the_command_shows_the_space(in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["tune", "sac", "Pendulum-v1", "--show-space", "--tau", "0.01"])
    Path("space.toml").write_text(capsys.readouterr().out)
    assert read_space(Path("space.toml"), "sac", {"tau"}) == default_space("sac", {"tau"})
    assert not Path("tune").exists()


def test_values_of_a_file(in_tmp_path: Path) -> None:
    text = "[actor_hidden]\nchoices = [[64], [64, 64]]\n[gradient_clip]\nchoices = ['none', 1.0]\n"
    text += "[batch_size]\nlow = 32\nhigh = 1e3\nlog = true\n[tau]\nlow = 0\nhigh = 1.0"
    Path("space.toml").write_text(text.replace("low = 0\n", "low = 0.1\n"))
    space = read_space(Path("space.toml"), "sac", ())
    assert space["actor_hidden"] == Choices(((64,), (64, 64)))
    assert space["gradient_clip"] == Choices((None, 1.0))
    assert space["batch_size"] == Range(32, 1000, log=True)
    assert isinstance(space["batch_size"], Range)
    assert type(space["batch_size"].high) is int


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no setting"),
        ("[taau]\nchoices = [1]", "no setting 'taau'; did you mean tau?"),
        ("[seed]\nchoices = [1]", "seed is the same for all trials"),
        ("[gamma]\nchoices = [0.9]", "gamma is given as a flag"),
        ("tau = 3", "tau needs choices"),
        ("[tau]\nlow = 0.1", "tau needs choices"),
        ("[tau]\nlow = 0.1\nhigh = 0.2\nstep = 3", "tau needs choices"),
        ("[tau]\nchoices = []", "a list of 1 to 100 values"),
        ("[tau]\nchoices = [0.1, 0.1]", "twice"),
        ("[tau]\nchoices = ['big']", "tau cannot be 'big'"),
        ("[tau]\nlow = 0.3\nhigh = 0.1", "numbers low < high"),
        ("[tau]\nlow = true\nhigh = 2", "numbers low < high"),
        ("[tau]\nlow = 0.1\nhigh = nan", "numbers low < high"),
        ("[tau]\nlow = 0.1\nhigh = 2.0", r"tau cannot be 2\.0"),
        ("[batch_size]\nlow = 0.5\nhigh = 20", r"batch_size cannot be 0\.5"),
        ("[dropout]\nlow = 0\nhigh = 0.5\nlog = true", "need a low above 0"),
    ],
)
def test_refusals(text: str, message: str, in_tmp_path: Path) -> None:
    Path("space.toml").write_text(text)
    with pytest.raises(SmrlError, match=message) as error:
        read_space(Path("space.toml"), "sac", {"gamma"})
    assert str(error.value).startswith("space.toml: ")
