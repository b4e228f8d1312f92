"""A folder as a corpus: which files are read, how they are named, what is said of the others."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import HashedWords, write_corpus

from retriever import InputError, RetrieverConfig, build_index
from retriever.ingest.chunk import Document
from retriever.ingest.corpus import Corpus, sample
from retriever.ingest.folder import files_of

GENERAL = RetrieverConfig(namespace="general")
ENCODERS = {"eagle_text": HashedWords()}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def said(corpus: Path) -> list[tuple[str, str, str]]:
    return [(r.path, r.reason, r.detail) for r in Corpus(corpus).read().remarks]


def ids(corpus: Path) -> list[str]:
    return [document.document_id for document in Corpus(corpus).read().documents]


def test_hidden_files_are_left_out_and_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "f", {"a.txt": "x", ".hidden.txt": "x", ".git/b.txt": "x", "~$a.txt": "x"}
    )
    (folder / "again").symlink_to(folder)
    (folder / "loop.txt").symlink_to("loop.txt")
    (folder / "link.txt").symlink_to("a.txt")
    os.mkfifo(folder / "pipe.txt")
    assert ids(folder) == ["a.txt", "link.txt"]
    assert said(folder) == [
        ("again", "not followed", "a link to a folder"),
        ("loop.txt", "unreadable", "a link to nothing"),
        ("pipe.txt", "unreadable", "no regular file"),
    ]


def test_files_are_named_by_their_path_and_blanks_are_as_in_a_url(tmp_path: Path) -> None:
    folder = write(tmp_path / "f", {"b/My label.TXT": "x", "a.txt": "y"})
    (one, other) = Corpus(folder).read().documents
    assert one.document_id == "a.txt"
    assert (other.document_id, other.path) == ("b/My%20label.TXT", "b/My label.TXT")
    assert (other.name, other.file_name) == ("My label.TXT", "My label.TXT")


def test_files_that_give_nothing_are_named_with_their_reason(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "f",
        {"a.txt": "x", "b.docx": "x", "LICENSE": "x", "c.pdf": "no", "d.html": "", "e.png": ""},
    )
    assert said(folder) == [
        ("LICENSE", "no reader", "none for files without a suffix"),
        ("b.docx", "no reader", "none for .docx"),
        ("c.pdf", "broken", "no PDF: it begins with b'no'"),
        ("d.html", "empty", ""),
        ("e.png", "empty", ""),
    ]


def test_file_is_skipped_when_it_is_too_large(tmp_path: Path) -> None:
    folder = write(tmp_path / "f", {"a.txt": "x", "big.md": ""})
    with (folder / "big.md").open("wb") as stream:
        stream.truncate(201_000_000)  # a hole in the file: nothing is stored
    assert said(folder) == [("big.md", "too large", "201 MB, at most 200")]


def test_file_is_skipped_when_it_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "f", {"a.txt": "x", "b.txt": "x"})
    (folder / "b.txt").chmod(0)
    if os.geteuid() == 0:  # root may read everything: say what others are told
        as_it_was = Path.open

        def refuse(self: Path, *args: Any, **options: Any) -> Any:
            if self.name == "b.txt":
                raise PermissionError(13, "Permission denied", str(self))
            return as_it_was(self, *args, **options)

        monkeypatch.setattr(Path, "open", refuse)
    assert said(folder) == [("b.txt", "unreadable", "Permission denied")]


def test_file_that_breaks_its_reader_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: object) -> None:
        raise KeyError("/Root")

    monkeypatch.setattr("retriever.ingest.readers.markdown.read", fail)
    folder = write(tmp_path / "f", {"a.txt": "x", "b.md": "x"})
    assert said(folder) == [("b.md", "broken", "KeyError: '/Root'")]


def test_document_is_skipped_when_its_id_was_there_before(tmp_path: Path) -> None:
    line = json.dumps({"_id": "d", "text": "x"})
    folder = write(tmp_path / "f", {"a.jsonl": line, "b.jsonl": line})
    assert ids(folder) == ["d"]
    assert said(folder) == [("b.jsonl", "repeated id", "'d' is in a.jsonl already")]


def test_folder_with_a_corpus_file_is_that_corpus(tmp_path: Path) -> None:
    folder = write(write_corpus(tmp_path / "f", {"d1": "x"}), {"notes.txt": "y"})
    assert ids(folder) == ["d1"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"queries.jsonl": "{}"}, "no such corpus"),
        ({"a.pdf": "x", "b.txt": ""}, r"no document has any text \(2 skipped, .* a.pdf: broken"),
        ({".hidden": "x"}, "no document has any text"),
    ],
)
def test_folder_is_refused_when_it_is_no_corpus(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    folder = write(tmp_path / "f", files)
    with pytest.raises(InputError, match=message):
        build_index(folder, tmp_path / "index", GENERAL, encoders=ENCODERS)
    assert not (tmp_path / "index").exists()


def test_digest_changes_with_any_file_and_with_nothing_else(tmp_path: Path) -> None:
    folder = write(tmp_path / "f", {"a.txt": "x", "b/c.md": "y"})
    first = Corpus(folder).digest
    write(folder, {".hidden": "z"})
    (folder / "a.txt").touch()
    assert Corpus(folder).digest == first
    digests = {first, Corpus(folder, 1).digest, Corpus(folder, 2).digest}
    for files in ({"b/c.md": "y2"}, {"new.txt": "x"}, {"no.docx": "x"}):
        digests.add(Corpus(write(folder, files)).digest)
    (folder / "a.txt").rename(folder / "z.txt")
    digests.add(Corpus(folder).digest)
    assert len(digests) == 7


def test_index_within_its_own_folder_is_no_part_of_it(tmp_path: Path) -> None:
    folder = write(tmp_path / "f", {"a.txt": "egfr", "b.pdf": "broken"})
    report = build_index(folder, folder / "index", GENERAL, encoders=ENCODERS)
    again = build_index(folder, folder / "index", GENERAL, encoders=ENCODERS)
    assert (report.built, again.built) == (True, False)
    assert [source.place for source in files_of(folder)] == ["a.txt", "b.pdf"]
    # What was skipped is still said when there was nothing to build.
    assert again.index.manifest.skipped == {"broken": 1}
    assert [remark.path for remark in again.remarks] == ["b.pdf"]


def test_manifest_counts_what_is_skipped_apart_from_what_is_altered(tmp_path: Path) -> None:
    folder = write(tmp_path / "f", {"a.txt": "egfr", "m.smi": "CCO ethanol\nxx\nyy\n"})
    (folder / "w.txt").write_bytes(b"5 \xb5g")
    report = build_index(folder, tmp_path / "index", GENERAL, encoders=ENCODERS)
    manifest = report.index.manifest
    assert manifest.skipped == {"no structure": 2}
    assert manifest.altered == {"not UTF-8": 1}
    assert manifest.documents == 3
    assert manifest.sample is None


def test_sample_is_named_in_the_manifest(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "c", {f"d{i}": f"egfr {i}" for i in range(20)})
    report = build_index(corpus, tmp_path / "index", GENERAL, encoders=ENCODERS, sample=5)
    assert report.index.manifest.model_dump()["sample"] == {"documents": 5, "of": 20}
    assert len(report.index.chunks.document_ids) == 5
    whole = build_index(corpus, tmp_path / "index", GENERAL, encoders=ENCODERS)
    assert whole.built
    assert whole.index.manifest.sample is None


@given(st.sets(st.text(min_size=1), max_size=30), st.integers(0, 30), st.integers(0, 30))
def test_smaller_sample_is_part_of_a_larger_one(names: set[str], one: int, other: int) -> None:
    documents = [Document(name, "", name, {}, name) for name in sorted(names)]
    small, large = sample(documents, min(one, other)), sample(documents, max(one, other))
    assert len(small) == min(one, other, len(names))
    assert [d for d in large if d in small] == small
    assert sample(documents[::-1], len(small)) == small[::-1]


def test_sample_is_chosen_by_the_hash_of_the_id() -> None:
    # SHA-256 of "a" begins ca978112, of "b" 3e23e816, of "c" 2e7d2c03.
    documents = [Document(name, "", name, {}, name) for name in "abc"]
    assert [d.document_id for d in sample(documents, 2)] == ["b", "c"]


def test_image_files_are_named_when_no_encoder_reads_them(tmp_path: Path) -> None:
    folder = write(tmp_path / "f", {"a.txt": "egfr", "scans/ct.png": "x"})
    assert ids(folder) == ["a.txt", "scans/ct.png"]
    encoders = {"eagle_text": HashedWords(), "eagle_text_biomed": HashedWords(seed=1)}
    report = build_index(folder, tmp_path / "index", encoders=encoders)
    (remark,) = report.remarks
    assert (remark.kind, remark.path) == ("skipped", "scans/ct.png")
    assert remark.reason == "no encoder for eagle_medical_radiology in the model set embedded"
    assert report.index.chunks.document_ids == ["a.txt"]
