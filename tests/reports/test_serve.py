"""The server answers this machine alone, and names runs by the folder's listing."""

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_worlds import write_run

from reports.faults import InputError
from reports.serve import make_server

Answer = tuple[int, str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    runs = tmp_path / "runs"
    runs.mkdir()
    write_run(runs / "one & <two>")
    write_run(runs / "three", created="2026-02-01T00:00:00+00:00")
    (tmp_path / "secret").mkdir()
    write_run(tmp_path / "secret" / "run")
    return runs


@pytest.fixture
def port(folder: Path) -> Iterator[int]:
    with make_server(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def ask(port: int, path: str, host: str | None = None, method: str = "GET") -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {} if host is None else {"Host": host}
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_index_lists_the_runs_and_their_pages_open(port: int) -> None:
    status, index = ask(port, "/")
    assert status == 200
    assert "three" in index
    assert "one & \\u003ctwo>" in index
    status, page = ask(port, "/runs?run=three&run=one%20%26%20%3Ctwo%3E")
    assert status == 200
    assert "connect-src &#39;self&#39;" in page
    assert '"live":"/state?run=three&run=one%20%26%20%3Ctwo%3E"' in page


@pytest.mark.parametrize(
    "path",
    [
        "/runs?run=../secret/run",
        "/runs?run=..%2Fsecret%2Frun",
        "/runs?run=",
        "/runs",
        "/../secret/run/run.json",
        "/three/run.json",
        "/etc/passwd",
        "//etc/passwd",
    ],
)
def test_nothing_outside_the_listing_is_served(port: int, path: str) -> None:
    assert ask(port, path)[0] == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "", "127.0.0.1:1"]
)
def test_foreign_host_is_refused(port: int, host: str) -> None:
    assert ask(port, "/", host.format(port=port))[0] == 403


def test_localhost_is_this_machine(port: int) -> None:
    assert ask(port, "/", f"localhost:{port}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_reading_is_offered(port: int, method: str) -> None:
    assert ask(port, "/", method=method)[0] == 501


def test_state_changes_when_a_run_does(port: int, folder: Path) -> None:
    before = ask(port, "/state?run=three")[1]
    all_before = ask(port, "/state-of-all")[1]
    assert ask(port, "/state?run=three")[1] == before
    (folder / "three" / "headroom.json").write_text("{}")
    assert ask(port, "/state?run=three")[1] != before
    write_run(folder / "four")
    assert ask(port, "/state-of-all")[1] != all_before


def test_damaged_run_does_not_hide_the_others(port: int, folder: Path) -> None:
    (folder / "three" / "run.json").write_text("{")
    status, index = ask(port, "/")
    assert status == 200
    assert "no JSON" in index
    assert ask(port, "/runs?run=three")[0] == 500


def test_only_the_loopback_address_is_listened_on(folder: Path) -> None:
    with make_server(folder, 0) as server:
        assert server.server_address[0] == "127.0.0.1"


def test_folder_is_refused_when_it_is_no_folder_of_runs(folder: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        make_server(folder / "absent", 0)
    with pytest.raises(InputError, match="a run, not a folder of runs"):
        make_server(folder / "three", 0)


def test_taken_port_is_named(folder: Path) -> None:
    with make_server(folder, 0) as server, pytest.raises(InputError, match="--port"):
        make_server(folder, server.server_address[1])
