"""The fall of TD errors: statistics against closed forms, the table, the sentence and the figure."""

from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from smrl.paper.batch_fit_results import Fall, Fit, draw_falls, fall_table, falls, sentences

UPDATES = (0, 1, 20)


def fit(left: float, seed: int = 0, step: int = 1000, batches: int = 2, **changes: Any) -> Fit:
    """Return a run whose batches keep this fraction of their error after 20 updates; the errors themselves differ."""
    settings = {"algorithm": "sac", "env": "Ant-v4", "reuse": "10", "seed": seed, "steps": 5000, "tau": 0.005}
    shares = 1 - (1 - left) * np.array(UPDATES)[:, None] / 20 * np.array([1.0, 0.5, 0.25, -1.0])
    errors = np.stack([(batch + 1) * shares for batch in range(batches)])
    return Fit(settings | changes, step, UPDATES, errors)


def printed(found: list[Fall]) -> str:
    output = StringIO()
    Console(file=output, width=80).print(fall_table(found))
    return output.getvalue()


def test_errors_are_relative_and_averaged_over_runs() -> None:
    (fall,) = falls([fit(0.4, seed=0), fit(0.6, seed=1)])
    assert (fall.runs, fall.updates, fall.step) == (2, UPDATES, 1000)
    np.testing.assert_allclose(fall.mean[0], 1)
    np.testing.assert_allclose(fall.mean[-1], [0.5, 0.75, 0.875, 1.5])
    np.testing.assert_allclose(fall.reach[0], 0, atol=1e-12)
    np.testing.assert_allclose(fall.reach[-1, 0], 12.706 * 0.1, rtol=1e-3)  # the standard error of 0.4 and 0.6 is 0.1


def test_interval_of_a_single_run_is_over_its_batches() -> None:
    one = fit(0.5, batches=3)
    one.errors[:, -1, 0] = one.errors[:, 0, 0] * [0.4, 0.5, 0.6]
    (fall,) = falls([one])
    np.testing.assert_allclose(fall.reach[-1, 0], 4.303 * 0.1 / 3**0.5, rtol=1e-3)
    (alone,) = falls([fit(0.5, batches=1)])
    assert np.isnan(alone.reach).all()
    assert "±" not in printed([alone]).replace("±: 95", "")


def test_identities_and_steps_are_separate() -> None:
    found = falls([fit(0.5, step=2000), fit(0.5), fit(0.5, seed=1), fit(0.5, reuse="1"), fit(0.5, tau=0.01)])
    assert [(fall.settings["reuse"], fall.settings["tau"], fall.step, fall.runs) for fall in found] == [
        ("10", 0.005, 1000, 2),
        ("10", 0.005, 2000, 1),
        ("1", 0.005, 1000, 1),
        ("10", 0.01, 1000, 1),
    ]


def test_table_fits_80_columns() -> None:
    found = falls(
        [fit(left, seed, step, reuse=reuse) for reuse in "15" for step in (1, 300_000) for seed, left in SEEDS]
    )
    text = printed(found)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("Ant-v4: RMS TD error in % of that before the updates")
    assert [line.strip() for line in lines if line.startswith("SAC")] == ["SAC, reuse 1", "SAC, reuse 5"]
    row = "20  50.0 ± 9.9  75.0 ± 5.0  87.5 ± 2.5  150.0 ± 9.9"
    assert sum(" ".join(line.split()).endswith(" ".join(row.split())) for line in lines) == 4
    assert text.count("step 300,000") == 2


SEEDS = list(enumerate((0.46, 0.5, 0.54)))


def test_sentence_describes_the_last_step() -> None:
    found = falls([fit(0.2, step=1000), fit(0.5, step=2000), fit(0.5, reuse="1")])
    assert sentences(found) == [
        "SAC, reuse 10, step 2,000: after 1 update on a batch its TD error is 97.5 % of that before and that of "
        "held-out transitions 99.4 %; after 20 updates they are 50.0 % and 87.5 %, and to the moving target 75.0 % "
        "and 150.0 %.",
        "SAC, reuse 1, step 1,000: after 1 update on a batch its TD error is 97.5 % of that before and that of "
        "held-out transitions 99.4 %; after 20 updates they are 50.0 % and 87.5 %, and to the moving target 75.0 % "
        "and 150.0 %.",
    ]


def test_figure_has_a_panel_per_identity_and_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[Figure] = []
    save = Figure.savefig

    def keep(figure: Figure, *given: Any, **keywords: Any) -> None:
        saved.append(figure)
        save(figure, *given, **keywords)

    monkeypatch.setattr(Figure, "savefig", keep)
    found = falls([fit(0.5, step=1000), fit(0.4, step=2000), fit(0.5, step=2000, reuse="1")])
    path = draw_falls(found, tmp_path / "new" / "fit.png")
    assert matplotlib.image.imread(path)[..., :3].std() > 0.05  # something is drawn
    shown = [axes for axes in saved[0].axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == [
        "SAC, reuse 10\nAnt-v4, step 1,000",
        "SAC, reuse 10\nAnt-v4, step 2,000",
        "SAC, reuse 1\nAnt-v4, step 2,000",
    ]
    assert [text.get_text() for text in saved[0].legends[0].get_texts()] == ["the batch", "held-out transitions"]
    batch, held_out = shown[0].lines[:2]
    np.testing.assert_allclose(np.asarray(batch.get_xydata())[-1], [20, 50])
    np.testing.assert_allclose(np.asarray(held_out.get_xydata())[-1], [20, 87.5])
