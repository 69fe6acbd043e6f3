"""`smrl reproduce batch-fit` as a user types it."""

import re
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import pytest
from commands import run

import smrl
from smrl.cli.main import main
from smrl.errors import SmrlError
from smrl.paper import batch_fit as study
from smrl.paper.batch_fit import FILE, read
from smrl.settings import RunOptions

SMALL = ["--actor-hidden", "8", "--critic-hidden", "8", "--batch-size", "8"]
SHORT = ["--warmup", "20", "--eval-every", "20", "--eval-episodes", "1", "--reuse", "1"]
FLAGS = [*SHORT, *SMALL, "--updates", "3", "1", "--batches", "2", "--quiet"]
WORDS = ["reproduce", "batch-fit", "ddpg", "Pendulum-v1", *FLAGS]
KEYWORDS: dict[str, Any] = {
    "reuse": 1,
    "warmup": 20,
    "eval_every": 20,
    "eval_episodes": 1,
    "actor_hidden": (8,),
    "critic_hidden": (8,),
    "batch_size": 8,
    "quiet": True,
}


@pytest.mark.slow
def test_batch_fit(in_tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure two seeds at two moments; a second call trains nothing, and measuring leaves the runs unchanged."""
    main([*WORDS, "--steps", "40", "60", "--seeds", "2"])
    text = capsys.readouterr().out
    runs = sorted(in_tmp_path.glob("runs/*/*/seed*"))
    assert [path.name for path in runs] == ["seed0", "seed1"]
    for path in runs:
        assert [fit.step for fit in read(path, (1, 3), 2)] == [40, 60]
    assert re.search(r"step 40 +2 +1 +[\d.]+ ± [\d.]+", text)
    assert re.search(r"step 60 +2 +1 ", text)
    assert "DDPG, reuse 1, step 60: after 1 update on a batch its TD error is " in text
    (picture,) = in_tmp_path.glob("runs/Pendulum-v1/batch-fit-ddpg-*.png")
    assert f"picture: {picture.relative_to(in_tmp_path)}" in text
    assert f"seed0/{FILE}" in text
    assert iio.imread(picture).shape[0] > 300

    direct = smrl.train("ddpg", "Pendulum-v1", steps=60, runs=in_tmp_path / "direct", **KEYWORDS)
    assert (direct.path / "evaluations.csv").read_bytes() == (runs[0] / "evaluations.csv").read_bytes()

    monkeypatch.setattr(study, "run_all", lambda *given: pytest.fail("there is nothing left to train"))
    main([*WORDS, "--steps", "40", "60", "--seeds", "2"])
    assert capsys.readouterr().out == text


def test_run_with_more_steps_is_measured_at_its_end(in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained = smrl.train("ddpg", "Pendulum-v1", steps=60, **KEYWORDS)
    main([*WORDS, "--steps", "30", "40", "--seeds", "1"])
    assert "step 60" in capsys.readouterr().out
    (fit,) = read(trained.path, (1, 3), 2)
    assert fit.step == 60


@pytest.mark.slow
def test_custom_environment_and_algorithm(in_tmp_path: Path) -> None:
    """They come from a module in the working directory, as for smrl train."""
    (in_tmp_path / "mine_to_fit.py").write_text(
        "import gymnasium\n"
        "from smrl.algorithms.ddpg import ddpg\n"
        "def arm(render_mode=None):\n"
        "    return gymnasium.make('Pendulum-v1', render_mode=render_mode)\n"
    )
    words = ["reproduce", "batch-fit", "mine_to_fit:ddpg", "mine_to_fit:arm", *FLAGS, "--steps", "40", "--seeds", "1"]
    code, text, errors = run(*words)
    assert code == 0, errors
    assert "mine_to_fit:ddpg, reuse 1, step 40: after 1 update" in text


def test_all_moments_belong_to_one_run(monkeypatch: pytest.MonkeyPatch, in_tmp_path: Path) -> None:
    """Also where a default depends on the steps, as the exploration of DQN does."""
    asked: list[Any] = []

    def noted(moments: Any, *rest: Any) -> None:
        asked.extend([moments, *rest])
        raise SmrlError("enough.")

    monkeypatch.setattr("smrl.paper.batch_fit.batch_fit", noted)
    with pytest.raises(SystemExit):
        main(["reproduce", "batch-fit", "dqn", "X-v1", "--steps", "30000", "20000", "--seeds", "1", "--reuse", "1"])
    moments, options, updates, batches = asked
    assert [[one.steps for one in several] for several in moments] == [[20000], [30000]]
    assert moments[0][0].hyper == moments[1][0].hyper
    assert (options, updates, batches) == (RunOptions(), [1, 2, 5, 10, 20], 10)


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "no algorithm": ((), "begin with an algorithm: smrl reproduce batch-fit ALGORITHM ENVIRONMENT"),
    "no environment": (("sac",), "required: ENVIRONMENT; see smrl reproduce batch-fit --help"),
    "two environments": (("sac", "Hopper-v4", "Ant-v4"), "no algorithm 'Hopper-v4'"),
    "no such algorithm": (("sca", "Hopper-v4"), "did you mean sac?"),
    "no such environment": (("sac", "Hoper-v4"), "did you mean Hopper-v4?"),
    "discrete actions": (("sac", "CartPole-v1"), "SAC needs continuous actions"),
    "no updates": (("sac", "X-v1", "--updates", "0"), "updates must be a whole number of at least 1, not 0"),
    "updates without a number": (("sac", "X-v1", "--updates"), "--updates: expected at least one argument"),
    "no batches": (("sac", "X-v1", "--batches", "0"), "batches must be a whole number of at least 1, not 0"),
    "two numbers of batches": (("sac", "X-v1", "--batches", "1", "2"), "unexpected argument '2'"),
    "no seeds": (("sac", "X-v1", "--seeds", "0"), "seeds must be .* at least 1"),
    "a moment in the warm-up": (("sac", "X-v1", "--steps", "5000", "9000"), "raise --steps or lower --warmup"),
    "a moment before the first evaluation": (
        ("sac", "X-v1", "--steps", "600", "--warmup", "500"),
        "before their first evaluation .*lower --eval-every",
    ),
    "a word for steps": (("sac", "X-v1", "--steps", "ten"), "steps must be a whole number .*'ten'"),
    "earlier data": (("sac", "X-v1", "--data", "none", "old.npz"), "has collected itself: leave --data out"),
    "a flag of other commands": (("sac", "X-v1", "--max-minutes", "1"), "--max-minutes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, capsys: pytest.CaptureFixture[str], in_tmp_path: Path) -> None:
    words, pattern = REFUSED[case]
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "batch-fit", *words])
    errors = capsys.readouterr().err
    assert stop.value.code == 2
    assert errors.startswith("smrl: ")
    assert errors.count("\n") == 1, errors
    assert re.search(pattern, errors), errors
    assert not list(in_tmp_path.iterdir())
