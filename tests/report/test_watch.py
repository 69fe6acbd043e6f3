"""`smrl watch`: what its server answers, what it refuses, and how it ends."""

import http.client
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import refused_here
from written_runs import write_run

from smrl.report.watch import ReportServer

POINTS = [(1000, 1.0), (2000, 2.0)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ReportServer]:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "runs").mkdir()
    with ReportServer([tmp_path / "runs"]) as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def answer(
    server: ReportServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    return response.status, response.read().decode(), response.headers


def test_the_report_follows_the_runs(server: ReportServer, tmp_path: Path) -> None:
    status, page, headers = answer(server, "/report")
    assert status == 200
    assert "runs holds no run; give the folder of a run" in page
    before = json.loads(answer(server, "/state")[1])["stamp"]
    assert before == json.loads(answer(server, "/state")[1])["stamp"]
    write_run(tmp_path / "runs" / "one" / "seed0", POINTS, env="Hop</script>per-v4")
    after = json.loads(answer(server, "/state")[1])["stamp"]
    assert before != after
    page = answer(server, "/report")[1]
    assert "Experiment report" in page
    assert "Hop\\u003c/script\\u003eper-v4" in page
    with (tmp_path / "runs" / "one" / "seed0" / "evaluations.csv").open("a") as table:
        table.write("3000,10,3\n")
    assert after != json.loads(answer(server, "/state")[1])["stamp"]
    assert headers["X-Frame-Options"] == "SAMEORIGIN"
    assert headers["Cache-Control"] == "no-store"
    assert "connect-src 'self'" in answer(server, "/")[1]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", ""])
def test_other_hosts_are_refused(server: ReportServer, host: str) -> None:
    for path in ("/", "/report", "/state"):
        status, body, _ = answer(server, path, Host=host)
        assert status == 403
        assert "stamp" not in body
    assert answer(server, "/state", Host=f"localhost:{server.server_port}")[0] == 200


def test_other_paths_and_methods_are_refused(server: ReportServer) -> None:
    for path in (
        "/../secret.txt",
        "/secret.txt",
        "//secret.txt",
        "/%2e%2e/secret.txt",
        "/report/",
        "/report?x",
        "/<b>",
    ):
        status, body, _ = answer(server, path)
        assert status == 404
        assert "secret" not in body.replace("secret.txt", "")
        assert "<b>" not in body
    for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
        assert answer(server, "/", method)[0] == 501


def test_what_the_command_refuses(capsys: pytest.CaptureFixture[str], server: ReportServer, tmp_path: Path) -> None:
    assert "is not a folder" in refused_here(capsys, "watch", str(tmp_path / "none"))
    assert "port must be a port from 0 to 65535" in refused_here(capsys, "watch", str(tmp_path), "--port", "70000")
    taken = refused_here(capsys, "watch", str(tmp_path), "--port", str(server.server_port))
    assert f"port {server.server_port} cannot be used (Address already in use); choose another" in taken


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "smrl", "watch", str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert re.fullmatch(r"open http://127\.0\.0\.1:\d+/ in a browser; Ctrl-C ends it\.\n", line)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("", "")
        assert process.returncode == 0


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; apt-get install chromium")
def test_a_browser_shows_new_rows_and_keeps_choices(server: ReportServer, tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: smrl[browser] has it")
    run = tmp_path / "runs" / "one" / "seed0"
    write_run(run, POINTS)
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        errors: list[str] = []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(server.url)
        report = page.frame_locator("#report")
        report.locator("#bands").uncheck(timeout=10_000)
        write_run(tmp_path / "runs" / "two" / "seed0", POINTS, env="Other-v0")
        report.get_by_text("Other-v0").first.wait_for(timeout=15_000)
        assert not report.locator("#bands").is_checked()
        server.shutdown()
        server.server_close()
        page.get_by_text("smrl watch does not answer").wait_for(timeout=15_000)
        assert [error for error in errors if "ERR_CONNECTION_REFUSED" not in error] == []
        browser.close()
