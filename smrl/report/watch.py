"""The report page of runs in progress, served on this machine and loaded again when they change.

The server answers GET for three paths and opens no file that a request names. A web page that the user visits cannot
read it: requests must name this machine as their host, which they do not after DNS rebinding.
"""

import hashlib
import html
import json
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from smrl.errors import SmrlError
from smrl.report.page import asset, digest, page
from smrl.report.report import make_report
from smrl.runs.paths import CONFIG, EVALUATIONS, TRAINING, find_files

ADDRESS = "127.0.0.1"
REQUEST_SECONDS = 10.0  # for a request to arrive
TABLES = (CONFIG, EVALUATIONS, TRAINING)  # files that the page is made of


class ReportServer(ThreadingHTTPServer):
    """Serves the report of some folders; the page is made again only if a table has changed."""

    daemon_threads = True

    def __init__(self, folders: Sequence[Path], port: int = 0) -> None:
        """Listen on a port; by default the system chooses one that is free."""
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            raise SmrlError(f"port {port} cannot be used ({error.strerror}); choose another with --port.") from error
        self._folders, self._lock = folders, threading.Lock()
        self._made = ("", "")  # stamp and page

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def stamp(self) -> str:
        """Return a text that changes with the tables of the runs."""
        seen = hashlib.sha256()
        for file in sorted(file for folder in self._folders for file in find_files(folder, *TABLES)):
            try:
                facts = file.lstat()
            except OSError:
                continue  # deleted in between
            seen.update(f"{file!r} {facts.st_mtime_ns} {facts.st_size}\n".encode(errors="backslashreplace"))
        return seen.hexdigest()

    def report(self) -> str:
        """Return the report page, or a page that says why there is none."""
        with self._lock:
            stamp = self.stamp()
            if stamp != self._made[0]:
                try:
                    self._made = (stamp, page(make_report(self._folders)))
                except SmrlError as error:
                    self._made = (stamp, f"<!doctype html><meta charset=utf-8><p>{html.escape(str(error))}</p>")
            return self._made[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that leaves before it has read its answer."""


class _Handler(BaseHTTPRequestHandler):
    server: ReportServer
    timeout = REQUEST_SECONDS
    server_version, sys_version = "smrl", ""

    def do_GET(self) -> None:
        port = self.server.server_port
        if self.headers.get_all("Host") not in ([f"{ADDRESS}:{port}"], [f"localhost:{port}"]):
            self.send_error(HTTPStatus.FORBIDDEN, "open the address that smrl watch has printed")
            return
        answers: dict[str, tuple[str, Callable[[], str]]] = {
            "/": ("text/html", frame),
            "/report": ("text/html", self.server.report),
            "/state": ("application/json", lambda: json.dumps({"stamp": self.server.stamp()})),
        }
        if self.path not in answers:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        kind, make = answers[self.path]
        body = make().encode(errors="backslashreplace")
        self.send_response(HTTPStatus.OK)
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "SAMEORIGIN",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing: a request every few seconds is of no interest."""


def frame() -> str:
    """Return the page around the report, which loads it again when it has changed."""
    style, script = asset("watch.css"), asset("watch.js")
    policy = (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; connect-src 'self'; "
        "frame-src 'self'; base-uri 'none'; form-action 'none'"
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>smrl watch</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><style>{style}</style></head>'
        f'<body><p id="state" role="status"></p><iframe id="report" src="/report" title="report"></iframe>'
        f"<script>{script}</script></body></html>"
    )
