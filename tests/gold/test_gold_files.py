"""Bytes and lines: encodings, line ends, strict JSON, whole writes, the one error."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from gold import InputError
from gold.faults import Fault, refuse
from gold.files import json_lines, numbered_lines, read_bytes, write_whole


def lines_of(path: Path, data: bytes) -> tuple[list[tuple[int, str]], list[tuple[str, int | None]]]:
    path.write_bytes(data)
    faults: list[Fault] = []
    lines = list(numbered_lines(path, faults.append))
    return lines, [(fault.code, fault.line) for fault in faults]


def test_error_reads_as_path_line_message_fix_when_all_are_given() -> None:
    error = InputError("the grade is 0.9", "a/test.tsv", 3, "use integers")
    assert str(error) == "a/test.tsv:3: the grade is 0.9 (use integers)"
    assert str(InputError("no such file", "a.tsv")) == "a.tsv: no such file"
    assert str(InputError("no query")) == "no query"


def test_error_keeps_its_parts_when_pickled_between_processes() -> None:
    error = pickle.loads(pickle.dumps(InputError("m", "p", 7, "f")))
    assert (error.message, error.path, error.line, error.fix) == ("m", Path("p"), 7, "f")


def test_bom_is_dropped_and_told_when_a_file_starts_with_one(tmp_path: Path) -> None:
    lines, faults = lines_of(tmp_path / "f", b"\xef\xbb\xbfa\nb\n")
    assert lines == [(1, "a"), (2, "b")]
    assert faults == [("byte-order-mark", 1)]


def test_crlf_and_blank_lines_keep_line_numbers_when_dropped(tmp_path: Path) -> None:
    lines, faults = lines_of(tmp_path / "f", b"a\n\nb\r\nc\r\n  \n")
    assert lines == [(1, "a"), (3, "b"), (4, "c")]
    assert faults == [("crlf", 3), ("blank-line", 2)]


def test_line_ends_at_line_feed_alone_when_text_holds_other_separators(tmp_path: Path) -> None:
    text = "a\u2028b\x0bc\x85d\x1ee"
    lines, faults = lines_of(tmp_path / "f", text.encode())
    assert lines == [(1, text)]
    assert faults == []


def test_every_line_that_is_not_utf8_is_named_when_others_are(tmp_path: Path) -> None:
    lines, faults = lines_of(tmp_path / "f", b"ok\n\xe9t\xe9\nTGF-\xce\xb2\n\xff\n")
    assert lines == [(1, "ok"), (3, "TGF-β")]
    assert faults == [("not-utf8", 2), ("not-utf8", 4)]


def test_one_fault_is_told_when_the_file_is_utf16(tmp_path: Path) -> None:
    assert lines_of(tmp_path / "f", "a\nb\n".encode("utf-16")) == ([], [("not-utf8", 1)])


def test_gzip_is_unpacked_when_the_content_says_so(tmp_path: Path) -> None:
    packed = gzip.compress(b"a\nb\n")
    assert lines_of(tmp_path / "plain-name", packed)[0] == [(1, "a"), (2, "b")]
    assert read_bytes(tmp_path / "plain-name") == b"a\nb\n"


def test_broken_gzip_is_refused_when_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "f.gz"
    assert lines_of(path, gzip.compress(b"abc" * 99)[:-9])[1] == [("unreadable-file", None)]
    with pytest.raises(InputError, match="broken gzip"):
        read_bytes(path)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", "invalid-json"),
        (b"[1]", "invalid-json"),
        (b"null", "invalid-json"),
        (b'{"a": NaN}', "invalid-json"),
        (b'{"a": -Infinity}', "invalid-json"),
        (b'{"a": 1e999}', "invalid-json"),
        (b'{"a": ' + b"9" * 5000 + b"}", "invalid-json"),
        (b'{"a": ' + b"[" * 200_000, "invalid-json"),
        (b'{"a": "\\ud800"}', "invalid-json"),
        (b'{"a": 1} {"b": 2}', "invalid-json"),
        (b'{"a": {"b": 1, "b": 2}}', "duplicate-key"),
    ],
)
def test_line_is_refused_and_the_rest_read_when_it_is_not_one_strict_object(
    tmp_path: Path, line: bytes, code: str
) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(b'{"ok": 1}\n' + line + b'\n{"ok": "\\ud83d\\ude00"}\n')
    faults: list[Fault] = []
    assert list(json_lines(path, faults.append)) == [(1, {"ok": 1}), (3, {"ok": "😀"})]
    assert [(fault.code, fault.line) for fault in faults] == [(code, 2)]
    with pytest.raises(InputError, match=r"f\.jsonl:2: "):
        list(json_lines(path, refuse))


def test_nothing_is_left_behind_when_a_write_fails(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        write_whole(tmp_path / "folder", b"x")
    with pytest.raises(InputError, match="make the folder first"):
        write_whole(tmp_path / "absent" / "f", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_old_content_is_replaced_when_a_write_succeeds(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a long old content")
    write_whole(tmp_path / "f", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("f", b"new")]


def test_old_content_stays_when_the_rename_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InputError, match="No space left"):
        write_whole(tmp_path / "f", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("f", b"old")]


def test_no_heavy_library_is_imported_when_the_package_is() -> None:
    heavy = ["numpy", "pandas", "pyarrow", "ranx", "scipy", "torch", "yaml"]
    code = f"import gold, json, sys; print(json.dumps([m for m in {heavy} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert json.loads(done.stdout) == []
