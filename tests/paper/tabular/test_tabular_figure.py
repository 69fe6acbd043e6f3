"""The figure and the table of `smrl reproduce q-smr`."""

import io
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.figure import Figure
from rich.console import Console

from smrl.paper.tabular.learning import Result
from smrl.paper.tabular.q_smr import NOTE, arrivals, draw, summary


def result(returns: np.ndarray, goals: np.ndarray) -> Result:
    """Results whose training and greedy episodes are the same."""
    steps = np.full(returns.shape, 7)
    return Result(returns, steps, goals, returns, steps, goals, np.zeros((len(returns), 2, 2)))


def drawn(results: Result) -> Figure:
    kept: list[Figure] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda self, *args, **kwargs: kept.append(self))
        draw({"task": {1: results}}, Path("figure.png"))
    return kept[0]


def band(found: Figure, panel: int) -> np.ndarray:
    """Corners (episode, value) of the band of a panel."""
    (filled,) = (part for part in found.axes[panel].collections if isinstance(part, FillBetweenPolyCollection))
    return np.concatenate([np.zeros((0, 2)), *(np.asarray(path.vertices) for path in filled.get_paths())])


def test_band_is_the_sample_standard_deviation() -> None:
    found = drawn(result(np.array([[1.0, 1.0], [3.0, 3.0]]), np.ones((2, 2), bool)))
    assert np.ptp(band(found, 0)[:, 1]) / 2 == pytest.approx(np.std([1.0, 3.0], ddof=1))
    assert "sample standard deviation (n − 1)" in NOTE


def test_single_success_has_a_mean_and_no_band() -> None:
    goals = np.array([[True, True], [False, True]])
    found = drawn(result(np.zeros((2, 2)), goals))
    np.testing.assert_array_equal(found.axes[2].lines[0].get_ydata(), [7, 7])
    assert 1 not in band(found, 2)[:, 0]


def test_titles_of_panels() -> None:
    found = drawn(result(np.zeros((2, 2)), np.ones((2, 2), bool)))
    titles = [axes.get_title(loc="left") for axes in found.axes]
    assert "the paper's evaluation" in titles[1]
    assert "successes only" in titles[2]


def test_arrivals() -> None:
    reached = np.array([[1, 1, 1, 1], [0, 1, 0, 1], [1, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]], bool)
    assert arrivals(reached).tolist() == [1, 4, 4]


def test_table_does_not_count_a_temporary_success_as_arrival() -> None:
    passing = result(np.zeros((2, 3)), np.array([[0, 1, 0], [0, 1, 0]], bool))
    text = io.StringIO()
    Console(file=text, width=200).print(summary({"task": {1: passing}}, [0.0]))
    assert text.getvalue().splitlines()[3].split()[-6:] == ["0", "of", "2", "seeds", "–", "0.0"]
    assert "sample standard deviation (n − 1)" in text.getvalue()
