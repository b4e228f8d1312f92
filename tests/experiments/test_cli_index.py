"""`assay index` over a folder: what it prints, as text and as JSON."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.md").write_text("# Gefitinib\n\n## Dosage\n\n250 mg once daily.")
    (folder / "b.txt").write_bytes(b"5 \xb5g of gefitinib")
    for i in range(25):
        (folder / f"{i:02}.docx").write_text("x")
    return folder


def index(assay, *arguments: object):
    return assay("index", *arguments, "--set", "namespace=general")


def test_build_lists_the_first_files_that_it_skipped(assay, folder: Path, tmp_path: Path) -> None:
    done = index(assay, folder, "-o", tmp_path / "index")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "2 documents, 2 chunks; vectors: 2 computed, 0 from the cache"
    assert lines[1] == "skipped, no reader: 25"
    assert lines[2] == "altered, not UTF-8: 1"
    assert lines[3] == "  skipped 00.docx: no reader (none for .docx)"
    assert len(lines) == 3 + 20 + 1
    assert lines[-1] == "  and 6 more: --json lists all"


def test_json_has_every_file(assay, folder: Path, tmp_path: Path) -> None:
    done = index(assay, folder, "-o", tmp_path / "index", "--sample", 1, "--json")
    found = json.loads(done.out)
    assert done.err == ""
    assert found["sample"] == {"documents": 1, "of": 2}
    assert (found["documents"], found["chunks"]) == (1, 1)
    assert found["skipped"] == {"no reader": 25}
    assert found["altered"] == {"not UTF-8": 1}
    assert len(found["remarks"]) == 26
    assert found["remarks"][0] == {
        "kind": "skipped",
        "path": "00.docx",
        "reason": "no reader",
        "detail": "none for .docx",
        "count": 1,
    }
    again = json.loads(index(assay, folder, "-o", tmp_path / "index", "--sample", 1, "--json").out)
    assert (again["built"], again["remarks"]) == (False, found["remarks"])


def test_estimate_writes_no_index(assay, folder: Path, tmp_path: Path, store: Path) -> None:
    done = index(assay, folder, "-o", tmp_path / "index", "--estimate", "--json")
    found = json.loads(done.out)
    assert done.code == 0
    assert (found["documents"], found["chunks"], found["vectors"]) == (2, 2, 2)
    assert found["minutes"] > 0
    assert found["index_mb"] > 0
    assert found["basis"]["timed_texts"] == 2
    assert not (tmp_path / "index").exists()
    assert not (store / "cache" / "vectors").exists()
    text = index(assay, folder, "--estimate").out
    assert text.startswith("2 documents, 2 chunks; about ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give the folder of the index"),
        (["-o", "x", "--sample", 0], "--sample"),
    ],
)
def test_misuse_is_one_line(assay, folder: Path, arguments: list[object], message: str) -> None:
    done = assay("index", folder, *arguments)
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert message in line
