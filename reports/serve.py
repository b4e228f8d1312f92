"""Serve the dashboards of a folder of runs on this machine.

Only 127.0.0.1 is listened on, only GET is answered, and only for a Host that means this machine,
so that no page of another site can read the runs through a name of its own. An address names runs
by the folder's listing: no part of it is ever used as a path.
"""

import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from reports.dashboard import dashboard
from reports.faults import InputError
from reports.page import render_page
from reports.run_directory import RunDirectory

__all__ = ["Runs", "make_server", "serve_folder"]

HOST = "127.0.0.1"
NAMES_OF_HOST = (HOST, "localhost")
PAGES_KEPT = 8


class Runs:
    """The runs of one folder, listed anew at each call: a folder with a run.json is a run."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError("no such folder", path=folder, fix="name a folder of runs")
        self.folder = folder

    def listed(self) -> dict[str, Path]:
        """Return the runs by name, in order of name."""
        paths = sorted(self.folder.iterdir())
        found = {path.name: path for path in paths if (path / "run.json").is_file()}
        if (self.folder / "run.json").is_file():
            raise InputError(
                "a run, not a folder of runs", path=self.folder, fix="assay dashboard RUN -o FILE"
            )
        return found

    def state(self, names: list[str]) -> str:
        """Return a text that changes whenever one of these runs does."""
        listed = self.listed()
        stamps = [(name, RunDirectory(listed[name], {}).stamp) for name in names if name in listed]
        return hashlib.sha256(repr(stamps).encode()).hexdigest()

    def page(self, names: list[str]) -> str:
        """Return the dashboard of some runs. Raises KeyError for a name that is not listed."""
        listed = self.listed()
        paths = tuple(listed[name] for name in names)
        live = "/state?" + "&".join(f"run={quote(name, safe='')}" for name in names)
        return _page(paths, self.state(names), live)

    def index(self) -> str:
        """Return the page that lists the runs, newest first."""
        rows, broken = [], []
        for name, path in self.listed().items():
            try:
                record = RunDirectory.open(path).record
                rows.append(_row(name, record))
            except (InputError, LookupError, TypeError, ValueError) as error:
                broken.append({"name": name, "why": str(error)})
        rows.sort(key=lambda row: (row["created"], row["name"]), reverse=True)
        data = {"runs": rows, "broken": broken, "live": "/state-of-all"}
        return render_page(
            "runs.html",
            title="Runs",
            data=data,
            styles=("dashboard.css",),
            scripts=("runs.js",),
            may_connect=True,
        )

    def state_of_all(self) -> str:
        """Return a text that changes whenever a run comes, goes or changes."""
        return self.state(list(self.listed()))


@lru_cache(maxsize=PAGES_KEPT)
def _page(paths: tuple[Path, ...], state: str, live: str) -> str:
    del state  # it is there to tell one page from the next of the same runs
    return dashboard(paths, live=live)


def _row(name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "created": str(record["created"]),
        "gold": f"{record['gold']['name']} {record['gold']['split']}",
        "queries": record["queries"],
        "metrics": {k: record["metrics"][k]["value"] for k in record["metrics"]},
        "classes": record.get("classes") or {},
    }


class _Handler(BaseHTTPRequestHandler):
    server_version = "assay"
    sys_version = ""

    def __init__(self, runs: Runs, *arguments: Any) -> None:
        self.runs = runs
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Answer one of the four addresses there are."""
        if not self._is_for_us():
            self._send(HTTPStatus.FORBIDDEN, "this server answers to 127.0.0.1 alone", "plain")
            return
        try:
            address = urlsplit(self.path)
        except ValueError:
            self._send(HTTPStatus.BAD_REQUEST, "no address", "plain")
            return
        names = parse_qs(address.query).get("run", [])
        answers: dict[str, tuple[str, Callable[[], str]]] = {
            "/": ("html", self.runs.index),
            "/runs": ("html", lambda: self.runs.page(names)),
            "/state": ("plain", lambda: self.runs.state(names)),
            "/state-of-all": ("plain", self.runs.state_of_all),
        }
        if address.path not in answers or (address.path == "/runs" and not names):
            self._send(HTTPStatus.NOT_FOUND, "no such page", "plain")
            return
        kind, answer = answers[address.path]
        try:
            self._send(HTTPStatus.OK, answer(), kind)
        except KeyError:
            self._send(HTTPStatus.NOT_FOUND, "no such run", "plain")
        except (InputError, OSError) as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, str(error), "plain")

    def _is_for_us(self) -> bool:
        port = self.connection.getsockname()[1]
        return self.headers.get("Host", "") in {f"{name}:{port}" for name in NAMES_OF_HOST}

    def _send(self, status: HTTPStatus, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"text/{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: a page asks every few seconds."""


def make_server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of a folder's runs on 127.0.0.1, not yet serving; port 0 takes a free one.

    Raises InputError where the folder is none, is itself a run, or the port is taken.
    """
    runs = Runs(folder)
    runs.listed()
    try:
        return ThreadingHTTPServer((HOST, port), partial(_Handler, runs))
    except OSError as error:
        raise InputError(
            f"port {port} cannot be had: {error.strerror}", fix="name another with --port"
        ) from error


def serve_folder(folder: Path, port: int, announce: Callable[[str], None]) -> None:
    """Serve until interrupted; `announce` is told the address."""
    with make_server(folder, port) as server:
        announce(f"http://{HOST}:{server.server_address[1]}/  (Ctrl-C ends it)")
        server.serve_forever()
