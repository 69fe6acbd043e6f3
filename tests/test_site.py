"""The documentation site: what its navigation lists, and that it works in a browser without a network."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from documents import ROOT

CONFIG = (ROOT / "mkdocs.yml").read_text()
PAGES = sorted(str(path.relative_to(ROOT / "docs")) for path in ROOT.glob("docs/**/*.md"))
SITE = ROOT / "build" / "site"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage"]


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", CONFIG.split("\nnav:\n")[1], re.MULTILINE)
    assert sorted(listed) == PAGES


@pytest.fixture(scope="module")
def site() -> Path:
    """The site, built strictly."""
    pytest.importorskip("zensical", reason="zensical is not installed: smrl[docs] has it")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return SITE


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: smrl[browser] has it")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium; apt-get install chromium")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_on_a_phone_and_load_nothing_from_elsewhere(scheme: str, site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 400, "height": 900}, color_scheme=scheme)
    problems: list[str] = []

    def request(made: Any) -> None:
        if not made.url.startswith("file:"):
            problems.append(made.url)

    def failure(failed: Any) -> None:
        if failed.failure != "net::ERR_ABORTED":  # as that of an icon when the next page is opened
            problems.append(f"{failed.failure}: {failed.url}")

    page.on("request", request)
    page.on("requestfailed", failure)
    page.on("pageerror", lambda error: problems.append(str(error)))
    for name in PAGES:
        page.goto(f"file://{site}/{name.removesuffix('.md')}.html")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 400, f"{name} is {width} pixels wide"
        backgrounds = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(float, re.findall(r"[\d.]+", backgrounds)[:3])) < 200) == (scheme == "dark"), backgrounds
    page.close()
    assert problems == []


@pytest.mark.slow
def test_equations_are_drawn_and_the_search_works(site: Path, browser: Any) -> None:
    page = browser.new_page()
    page.goto(f"file://{site}/algorithms/sac.html")
    assert page.locator("math").bounding_box()["height"] > 80
    page.wait_for_timeout(500)
    page.keyboard.press("Control+k")
    page.wait_for_timeout(1_000)
    page.keyboard.type("quantile", delay=50)
    page.get_by_text(re.compile(r"\d+ results?")).first.wait_for(timeout=60_000)
    page.close()
