"""The report's page in a real browser."""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from written_runs import write_run, write_study

from smrl.paper.bands import PUBLISHED
from smrl.report.figures import learning_curves
from smrl.report.page import page as make_page
from smrl.report.report import make_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: smrl[browser] has it")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; apt-get install chromium")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
EVIL = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page on a study, a run with HTML in its settings and folder, and a damaged one."""
    runs = write_study(tmp_path_factory.mktemp("runs"))
    write_run(runs / "<img src=x onerror=alert(1)>", [(1000, 1.0)], env=EVIL, tau=EVIL)
    write_run(runs / "<b>damaged</b>", [(1000, 1.0)])
    (runs / "<b>damaged</b>" / "evaluations.csv").unlink()
    file = runs / "report.html"
    file.write_text(make_page(make_report([runs], published=PUBLISHED)), encoding="utf-8")
    return file


@pytest.fixture
def page(browser: Any, report: Path) -> Iterator[Any]:
    yield from opened(browser, report, width=1200)


def opened(browser: Any, report: Path, **options: Any) -> Iterator[Any]:
    """Open the page; it must not write to the console, open dialogs or load anything."""
    messages: list[str] = []
    size = {"width": options.pop("width"), "height": 900}
    tab = browser.new_page(viewport=size, **options)
    tab.on("console", lambda message: messages.append(message.text))
    tab.on("pageerror", lambda error: messages.append(str(error)))
    tab.on("dialog", lambda dialog: messages.append(dialog.message) or dialog.dismiss())  # type: ignore[func-returns-value]
    tab.on("request", lambda request: messages.append(request.url) if not request.url.startswith("file:") else None)
    tab.goto(report.as_uri())
    yield tab
    assert messages == []
    tab.close()


def panel(page: Any, title: str = "Hopper-v4") -> Any:
    return page.locator("figure.panel").filter(has=page.locator("strong", has_text=re.compile(f"^{title}$")))


def soon(is_true: Callable[[], bool]) -> None:
    """Assert a condition that the page meets soon; on a busy machine it may draw late."""
    end = time.monotonic() + 20
    while not is_true() and time.monotonic() < end:
        time.sleep(0.05)
    assert is_true()


def axis(page: Any) -> str:
    return " ".join(panel(page).locator("svg.plot text").all_text_contents())


def test_hover_shows_the_values(page: Any) -> None:
    tip = panel(page).locator(".tip")
    soon(lambda: not tip.is_visible())
    box = panel(page).locator("svg.plot").bounding_box()
    page.mouse.move(box["x"] + 52 + (box["width"] - 72) * 20 / 30, box["y"] + 60)  # between the chart's margins
    soon(lambda: tip.is_visible())
    soon(lambda: tip.locator("div").count() > 2)
    lines = tip.locator("div").all_text_contents()
    assert lines[0] == "step 20,000"
    assert lines[1] == "SAC, reuse 102,507 ± 7"  # 1.25 · 3,000 · 20/30 + 10 · 20/30
    assert lines[2] == "SAC, reuse 11,007 ± 7"
    inside = tip.bounding_box()
    assert box["y"] <= inside["y"] <= box["y"] + box["height"]
    page.mouse.move(2, 2)
    soon(lambda: not tip.is_visible())


def test_curves_can_be_chosen_by_mouse_and_keyboard(page: Any) -> None:
    means = panel(page).locator("svg.plot path.mean")
    soon(lambda: means.count() == 2)
    choice = panel(page).get_by_role("checkbox", name="SAC, reuse 10", exact=True)
    choice.uncheck()
    soon(lambda: means.count() == 1)
    other = panel(page, "dmc/cheetah-run").get_by_role("checkbox", name="SAC, reuse 10", exact=True)
    soon(lambda: not other.is_checked())  # in all panels
    choice.focus()
    page.keyboard.press("Space")
    soon(lambda: means.count() == 2)
    soon(lambda: panel(page).locator("svg.plot path.theirs").count() == 1)  # the same algorithm's is shown at first
    panel(page).locator("summary").click()
    panel(page).get_by_role("checkbox", name="crossq, published").check()
    soon(lambda: panel(page).locator("svg.plot path.theirs").count() == 2)
    bands = panel(page).locator("path.band").count()
    page.get_by_role("checkbox", name="± deviation").uncheck()
    soon(lambda: (bands, panel(page).locator("path.band").count()) == (4, 0))
    page.get_by_role("checkbox", name="single seeds").check()
    soon(lambda: panel(page).locator("path.thin").count() == 6)


def test_dragging_zooms_and_a_double_click_zooms_out(page: Any) -> None:
    before = axis(page)
    box = panel(page).locator("svg.plot").bounding_box()
    middle, zoom_out = box["y"] + box["height"] / 2, panel(page).get_by_role("button", name="zoom out")
    page.mouse.move(box["x"] + 0.4 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=4)
    soon(lambda: panel(page).locator(".selection").count() == 1)
    page.mouse.up()
    soon(lambda: axis(page) != before)
    soon(lambda: "30k" not in axis(page))
    soon(lambda: zoom_out.is_visible())
    page.mouse.dblclick(box["x"] + 0.5 * box["width"], middle)
    soon(lambda: axis(page) == before)
    soon(lambda: not zoom_out.is_visible())


def test_keyboard_moves_and_zooms(page: Any) -> None:
    before = axis(page)
    panel(page).locator("svg.plot").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    soon(lambda: panel(page).locator(".tip div").first.text_content() == "step 2,000")
    page.keyboard.press("+")
    soon(lambda: axis(page) != before)
    page.keyboard.press("0")
    soon(lambda: axis(page) == before)


def test_axis_in_hours(page: Any) -> None:
    page.get_by_role("radio", name="hours").check()
    soon(lambda: "hours of training" in axis(page))
    soon(lambda: panel(page).locator("svg.plot path.mean").count() == 2)
    soon(lambda: panel(page).locator("svg.plot path.theirs").count() == 0)  # published curves have no hours


def test_text_of_runs_is_text(page: Any) -> None:
    assert page.locator("img, b:text('damaged')").count() == 0
    assert page.locator("figure.panel strong").all_text_contents() == [
        EVIL,
        "Hopper-v4",
        "dmc/cheetah-run",
        "Performance profiles",
    ]
    assert "<b>damaged</b>" in page.locator("#problems li").text_content()
    assert "<img src=x onerror=alert(1)>" in page.locator("#runs").text_content()


def test_phone_needs_no_horizontal_scrolling(browser: Any, report: Path) -> None:
    for tab in opened(browser, report, width=390, is_mobile=True, has_touch=True):
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
        boxes = [figure.bounding_box() for figure in tab.locator("#panels figure").all()]
        assert len({box["x"] for box in boxes}) == 1  # one column
        assert all(box["x"] + box["width"] <= 390 for box in boxes)


@pytest.mark.parametrize("width", [400, 1200])
def test_curves_come_before_their_legend(browser: Any, report: Path, width: int) -> None:
    for tab in opened(browser, report, width=width):
        soon(lambda: panel(tab).locator("svg.plot path.mean").count() > 0)  # noqa: B023
        curves, legend = (panel(tab).locator(place).first.bounding_box() for place in ("svg.plot", ".legend"))
        assert legend["y"] >= curves["y"] + curves["height"]
        assert (
            tab.locator("#panels .legend").first.bounding_box()["y"] > tab.locator("svg.plot").first.bounding_box()["y"]
        )


def test_only_published_curves_are_dashed(browser: Any, tmp_path: Path) -> None:
    for reuse in range(1, 20):
        write_run(tmp_path / "runs" / f"{reuse}", [(10_000, 1.0), (100_000, 2.0)], reuse=f"{reuse}")
    file = tmp_path / "report.html"
    file.write_text(make_page(make_report([tmp_path / "runs"], 1.5, published=PUBLISHED)), encoding="utf-8")
    for tab in opened(browser, file, width=1200):
        soon(lambda: panel(tab).locator("svg.plot path.mean").count() == 19)  # noqa: B023
        script = "all => all.map(one => [one.getAttribute('class'), getComputedStyle(one).strokeDasharray])"
        lines = panel(tab).locator("svg path, svg line").evaluate_all(script)
        assert {kind for kind, dash in lines if dash != "none"} == {"theirs"}
        assert panel(tab).locator("svg.plot path.mark").count() == 12  # all but the first seven


def test_legends_are_short_and_a_setting_has_one_colour(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only SAC on Hopper has two tau; what the page draws has the colours of the figures of compare and report."""
    several: list[dict[str, Any]] = [
        {"env": "Hopper-v4", "tau": 0.02, "eval_every": 500},
        {"env": "Hopper-v4", "tau": 0.03, "eval_every": 1000},
        {"env": "Hopper-v4", "algorithm": "td3", "tau": 0.02},
        {"env": "Ant-v4", "tau": 0.02},
        {"env": "Ant-v4", "algorithm": "td3", "tau": 0.02},
    ]
    for index, changes in enumerate(several):
        write_run(tmp_path / "runs" / f"{index}", [(1000, 1.0), (2000, 2.0)], **changes)
    report, file = make_report([tmp_path / "runs"]), tmp_path / "report.html"
    file.write_text(make_page(report), encoding="utf-8")
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    records = [run.record for run in report.runs]
    for drawn in (records, [one for one in records if one.env == "Hopper-v4"]):  # as report and compare do
        learning_curves(drawn, tmp_path / "curves.png")
    colours = {
        (number, axes.get_title("left")): {str(line.get_label()): to_rgb(line.get_color()) for line in axes.lines}
        for number, figure in enumerate(figures)
        for axes in figure.axes
    }
    assert {place: list(names) for place, names in colours.items()} == {
        (0, "Ant-v4"): ["SAC, reuse 1", "TD3, reuse 1"],
        (0, "Hopper-v4"): ["SAC, reuse 1, tau 0.02", "SAC, reuse 1, tau 0.03", "TD3, reuse 1"],
        (1, "Hopper-v4"): ["SAC, reuse 1, tau 0.02", "SAC, reuse 1, tau 0.03", "TD3, reuse 1"],
    }
    stroke = "all => all.map(one => getComputedStyle(one).stroke)"
    for tab in opened(browser, file, width=1200, color_scheme="light"):
        for (_, env), wanted in colours.items():
            soon(lambda: panel(tab, env).locator("svg.plot path.mean").count() == len(wanted))  # noqa: B023
            assert panel(tab, env).locator(".legend .name").all_text_contents() == list(wanted)
            for place in (".legend path.mean", "svg.plot path.mean"):
                found = panel(tab, env).locator(place).evaluate_all(stroke)
                shown = [tuple(int(part) / 255 for part in re.findall(r"\d+", colour)) for colour in found]
                assert shown == list(wanted.values()), (env, place)


def test_dark_mode_is_dark(browser: Any, report: Path) -> None:
    for scheme, is_dark in (("dark", True), ("light", False)):
        for tab in opened(browser, report, width=1200, color_scheme=scheme):
            colour = tab.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (max(map(int, re.findall(r"\d+", colour))) < 64) is is_dark
