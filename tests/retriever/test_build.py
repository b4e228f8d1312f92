"""Building an index: whole or not at all, resumable, and clear about a bad corpus."""

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
from worlds import HashedWords, write_corpus

from retriever import Index, InputError, Retriever, RetrieverConfig, build_index
from retriever.registry import Registry

ENCODERS = {"eagle_text": HashedWords()}
GENERAL = RetrieverConfig(namespace="general")


def names(hits: object) -> list[str]:
    return [hit.document_id for hit in hits]  # type: ignore[attr-defined]


def test_index_holds_what_the_corpus_says(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    records = [
        {"_id": "b", "title": "Gefitinib label", "text": "It inhibits EGFR."},
        {"_id": "a", "title": "", "text": "Travel rules.", "metadata": {"name": "travel.md"}},
        {"_id": "empty", "title": " ", "text": ""},
        {"_id": 7, "text": "A number for an id."},
    ]
    corpus.write_text("\n".join(map(json.dumps, records)), "utf-8")
    report = build_index(corpus, tmp_path / "index", GENERAL, encoders=ENCODERS)
    index = Index.open(tmp_path / "index")
    assert report.built
    assert index.manifest.documents == 3
    assert index.manifest.skipped == {"empty": 1}
    assert index.chunks.document_ids == ["7", "a", "b"]
    assert index.chunks.values("text", [2]) == ["Gefitinib label\nIt inhibits EGFR."]
    index.verify()
    with Registry.open(index.registry_url) as registry:
        known = registry.get("index", ["a", "b", "7"])
    assert {i: r.name for i, r in known.items()} == {
        "a": "travel.md",
        "b": "Gefitinib label",
        "7": "7",
    }


def test_same_corpus_gives_the_same_bytes(tmp_path: Path) -> None:
    write_corpus(tmp_path / "c", {"a": "egfr met", "b": "dose"})
    manifests = []
    for name in ("one", "other"):
        build_index(tmp_path / "c", tmp_path / name, GENERAL, encoders=ENCODERS)
        files = dict(Index.open(tmp_path / name).manifest.files)
        # SQLite stamps its file with a change counter of its own.
        files.pop("registry.sqlite")
        manifests.append(files)
    assert manifests[0] == manifests[1]


def test_rerun_does_nothing_when_nothing_changed(tmp_path: Path) -> None:
    write_corpus(tmp_path / "c", {"a": "egfr met"})
    build_index(tmp_path / "c", tmp_path / "index", GENERAL, encoders=ENCODERS)
    report = build_index(tmp_path / "c", tmp_path / "index", GENERAL, encoders=ENCODERS)
    assert not report.built


def test_rebuild_reuses_vectors_and_leaves_one_generation(tmp_path: Path) -> None:
    write_corpus(tmp_path / "c", {"a": "egfr met", "b": "dose"})
    out, cache = tmp_path / "index", tmp_path / "cache"
    build_index(tmp_path / "c", out, GENERAL, encoders=ENCODERS, cache=cache)
    other = GENERAL.with_overrides({"index.bm25.k1": 0.9})
    report = build_index(tmp_path / "c", out, other, encoders=ENCODERS, cache=cache)
    assert (report.computed, report.reused) == (0, 2)
    assert [p.name for p in out.glob("generation-*")] == [report.index.manifest.generation]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"_id": "a", "text": "x"}', '{"_id": "a", "text": "y"}'], r":2: .*line 1 already"),
        (['{"text": "x"}'], ":1: _id is None"),
        (['{"_id": 1.5, "text": "x"}'], ":1: _id is 1.5"),
        (['{"_id": "a", "text": 3}'], ":1: text is int"),
        (['{"_id": "a", "text": "x", "metadata": []}', "{"], ":2: not JSON"),
        (['{"_id": "a", "text": "x", "metadata": [1]}'], ":1: metadata is not"),
        (['{"_id": "a", "text": "x", "metadata": {"tags": "t"}}'], ":1: tags"),
        (["[1]"], ":1: expected a JSON object"),
        (['{"_id": "a", "text": NaN}'], ":1: not JSON"),
        (['{"_id": "a", "text": "\\ud800"}'], ":1: text holds a lone surrogate"),
        (['{"_id": "a\\ud800", "text": "x"}'], ":1: _id holds a lone surrogate"),
        (['{"_id": "a\\u0000", "text": "x"}'], ":1: _id holds a NUL"),
        (['{"_id": "a", "title": "\\u0000", "text": "x"}'], ":1: title holds a NUL"),
        (['{"_id": "a", "text": "x", "metadata": {"tags": ["\\u0000"]}}'], ":1: tags holds a NUL"),
        (['{"_id": "a", "text": "x", "metadata": {"tags": ["\\ud800"]}}'], ":1: tags holds a lone"),
        (['{"_id": "a", "text": "x"}', '{"_id": "b", "_id": "c"}'], ":2: the key '_id' stands tw"),
        (['{"_id": "a", "metadata": {"k": 1, "k": 1}}'], ":1: the key 'k' stands twice"),
        (['{"_id": "a", "text": ""}'], "no document has any text"),
        ([""], "no document has any text"),
    ],
)
def test_corpus_is_refused_with_its_line_and_nothing_is_left(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    with pytest.raises(InputError, match=message):
        build_index(tmp_path, tmp_path / "index", GENERAL, encoders=ENCODERS)
    assert not list((tmp_path / "index").glob("generation-*"))
    with pytest.raises(InputError, match="no index here"):
        Index.open(tmp_path / "index")


def test_old_index_stays_when_the_new_corpus_is_bad(tmp_path: Path) -> None:
    write_corpus(tmp_path / "c", {"a": "egfr met"})
    build_index(tmp_path / "c", tmp_path / "index", GENERAL, encoders=ENCODERS)
    (tmp_path / "c" / "corpus.jsonl").write_text("{")
    with pytest.raises(InputError):
        build_index(tmp_path / "c", tmp_path / "index", GENERAL, encoders=ENCODERS)
    found = Retriever.open(tmp_path / "index", GENERAL, encoders=ENCODERS).search("egfr")
    assert names(found.hits) == ["a"]


def test_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    write_corpus(tmp_path / "c", {"a": "egfr met"})
    with pytest.raises(InputError, match="holds other files"):
        build_index(tmp_path / "c", tmp_path / "c", GENERAL, encoders=ENCODERS)
    assert [p.name for p in (tmp_path / "c").iterdir()] == ["corpus.jsonl"]


def test_damage_is_named(tmp_path: Path) -> None:
    write_corpus(tmp_path / "c", {"a": "egfr met"})
    report = build_index(tmp_path / "c", tmp_path / "index", GENERAL, encoders=ENCODERS)
    vectors = report.index.folder / "collections" / "eagle_text" / "dense" / "vectors.faiss"
    content = bytearray(vectors.read_bytes())
    content[-1] ^= 1
    vectors.write_bytes(content)
    with pytest.raises(InputError, match=r"vectors\.faiss: damaged"):
        Index.open(tmp_path / "index").verify()
    vectors.write_bytes(content[:-4])
    with pytest.raises(InputError, match=r"vectors\.faiss: damaged: \d+ bytes"):
        Index.open(tmp_path / "index")


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 99}', '{"format": 1}'])
def test_manifest_is_refused_when_it_is_no_manifest(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(InputError, match=r"manifest\.json: "):
        Index.open(tmp_path)


class SlowWords(HashedWords):
    """The stand-in encoder, slow enough to be killed at work."""

    def encode_documents(self, texts):  # type: ignore[no-untyped-def]
        time.sleep(0.05)
        return super().encode_documents(texts)


def build_slowly(corpus: Path, out: Path, cache: Path) -> None:
    build_index(corpus, out, GENERAL, encoders={"eagle_text": SlowWords()}, cache=cache)


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.15, 0.3, 0.6])
def test_killed_build_leaves_the_old_index_and_its_vectors(tmp_path: Path, delay: float) -> None:
    out, cache = tmp_path / "index", tmp_path / "cache"
    write_corpus(tmp_path / "c", {"old": "egfr met"})
    build_index(tmp_path / "c", out, GENERAL, encoders={"eagle_text": SlowWords()}, cache=cache)
    write_corpus(tmp_path / "c", {f"d{i}": f"egfr w{i}" for i in range(3000)})
    worker = multiprocessing.get_context("fork").Process(
        target=build_slowly, args=(tmp_path / "c", out, cache)
    )
    worker.start()
    time.sleep(delay)
    os.kill(worker.pid or 0, signal.SIGKILL)
    worker.join()
    index = Index.open(out)
    index.verify()
    assert index.manifest.documents in (1, 3000)
    report = build_index(
        tmp_path / "c", out, GENERAL, encoders={"eagle_text": SlowWords()}, cache=cache
    )
    assert report.computed + report.reused in (0, 3000)
    assert Index.open(out).manifest.documents == 3000
    assert len(list(out.glob("generation-*"))) == 1


def test_two_processes_may_build_the_same_index(tmp_path: Path) -> None:
    write_corpus(tmp_path / "c", {f"d{i}": f"egfr w{i}" for i in range(600)})
    context = multiprocessing.get_context("fork")
    workers = [
        context.Process(
            target=build_slowly, args=(tmp_path / "c", tmp_path / "index", tmp_path / "cache")
        )
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    Index.open(tmp_path / "index").verify()
