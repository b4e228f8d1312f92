"""A file that cannot be written is one error that names it, and what was there stays."""

import errno
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from retriever.files import InputError, writing

CALLS = {
    "write_atomically": "from retriever.files import write_atomically as w; w(place, data)",
    "page": (
        "from reports.page import render_page, write_page\n"
        "write_page(place, render_page('page.html', title='t', data=str(data)))"
    ),
    "table": "from experiments.run import write_table as w; w(place, {'a': [str(data)] * 9})",
    "json": "from experiments.run import write_json as w; w(place, {'a': str(data)})",
    "trec": "from gold import write_qrels as w; w(place, {'q': {f'd{i}': 1 for i in range(999)}})",
    "cache": (
        "from retriever.encoders.cache import VectorCache\nVectorCache(place).write([(b'k', data)])"
    ),
    "run": (
        "from experiments.run import new_run_folder\n"
        "with new_run_folder(place) as folder: (folder / 'config.yaml').write_bytes(data)"
    ),
    "index": (
        "from retriever.index.manifest import building\n"
        "with building(place) as made: (made.folder / 'rows.npy').write_bytes(data)"
    ),
}
# Two kilobytes a file: Linux says EFBIG beyond them as it says ENOSPC on a full disk.
LIMIT = 2000


@pytest.mark.parametrize("call", CALLS)
def test_what_does_not_fit_is_one_error_that_names_the_file(tmp_path: Path, call: str) -> None:
    place = tmp_path / "given"
    code = (
        "import os, sys\nfrom pathlib import Path\n"
        f"place, data = Path({str(place)!r}), os.urandom(9000)\n"
        f"try:\n    exec({CALLS[call]!r})\n"
        "except ValueError as error:\n"
        "    assert type(error).__name__ == 'InputError', error\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT)),
    )
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"{place}: ")
    assert "make room there" in line
    if call not in ("cache", "table", "json"):  # those are written beside their place, or not yet
        assert not [p for p in tmp_path.rglob("*") if p.is_file() and p.name != ".lock"]


def test_error_that_names_its_file_keeps_it_and_another_stays_what_it_was() -> None:
    with (
        pytest.raises(InputError, match=r"^/a/b: cannot be written: No space left"),
        writing(Path("/a")),
    ):
        raise OSError(errno.ENOSPC, "No space left on device", "/a/b")
    with pytest.raises(FileNotFoundError), writing(Path("/a")):
        raise FileNotFoundError(errno.ENOENT, "No such file", "/c")
