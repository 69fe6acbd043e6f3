"""The figure of README.md is drawn from whatever runs there are."""

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from written_runs import write_run

from benchmarks import results
from benchmarks.readme_figure import HOME, THEMES, choose, draw, updates_per_second
from smrl.errors import SmrlError
from smrl.report.report import make_report


def written(runs: Path, env: str, reuse: str, seeds: int, **changes: float) -> None:
    for seed in range(seeds):
        place = runs / env / f"{reuse}-{seed}-{len(changes)}"
        write_run(place, [(1000 * k, float(k + seed)) for k in range(1, 4)], env=env, reuse=reuse, seed=seed, **changes)


def test_what_is_there_is_drawn(tmp_path: Path) -> None:
    for env, plain, reused in (("A", 0, 5), ("B", 1, 1), ("C", 3, 3), ("D", 0, 1), ("E", 1, 0), ("F", 2, 2)):
        written(tmp_path, env, "1", plain)
        written(tmp_path, env, "10", reused)
    written(tmp_path, "A", "1", 2, tau=0.5)  # no baseline for other settings
    written(tmp_path, "B", "5", 3, tau=0.5)  # better documented than 10, but without a baseline
    rows = choose(make_report([tmp_path]).rows)
    found = {env: [(row.curve.settings["reuse"], len(row.returns)) for row in of_env] for env, of_env in rows.items()}
    assert list(found.items()) == [
        ("C", [("10", 3), ("1", 3)]),
        ("F", [("10", 2), ("1", 2)]),
        ("B", [("10", 1), ("1", 1)]),
        ("A", [("10", 5)]),
    ]
    speeds = updates_per_second(results.read(HOME / "benchmarks").records)
    assert next(iter(speeds)) == "smrl"
    assert len(speeds) == 5
    for name, theme in THEMES.items():
        image = matplotlib.image.imread(draw(tmp_path / name, rows, speeds, theme))[..., :3]
        assert image.shape[:2] == (576, 1760)
        np.testing.assert_allclose(image[0, 0], to_rgb(theme.paper), atol=0.01)
        assert (abs(image - np.array(to_rgb(theme.ours))).sum(axis=2) < 0.02).mean() > 0.005  # lines and bars


def test_missing_measurements_are_named() -> None:
    with pytest.raises(SmrlError, match=r"results\.json has no updates/sac, M = 10, 2 cores: "):
        updates_per_second([])
    with pytest.raises(SmrlError, match="results/ holds no run"):
        choose([])
