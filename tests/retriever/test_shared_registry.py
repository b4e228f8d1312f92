"""An index whose documents registry is in a shared database: the same answers, and clear errors."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from stage_worlds import config_of
from worlds import HashedWords, write_corpus

from retriever import Index, InputError, Query, Retriever, RetrieverConfig, build_index
from retriever.encoders.base import Encoder
from retriever.encoders.molecule import MorganStructures
from retriever.explain import explain
from retriever.registry import Registry
from retriever.types import Scope

DOCUMENTS: list[dict[str, Any]] = [
    {"_id": "a1", "text": "gefitinib dose", "name": "Gefitinib label", "kb_name": "one"},
    {"_id": "a2", "text": "gefitinib lung", "name": "Iressa trial", "tags": ["x", "ü"]},
    {"_id": "b1", "text": "lung dose", "name": "50%_mix leaflet", "kb_name": "one", "tags": ["x"]},
    {"_id": "c1", "text": "dose of ethane", "name": "Ethane", "smiles": "CC", "kb_name": "two"},
    {"_id": "g1", "text": "annual report", "name": "report", "domain": "general"},
]
QUERIES = [
    Query("gefitinib dose"),
    Query("lung"),
    Query("ethane compound"),
    Query("lung dose", scope=Scope(kb_names=("one",))),
    Query("gefitinib", scope=Scope(tags=("ü", "y"))),
    Query("dose", scope=Scope(document_ids=("g1", "c1"), kb_names=("two",))),
    Query("dose", scope=Scope(kb_names=("none",))),
]
ENCODERS: dict[str, Encoder] = {
    "eagle_text": HashedWords(),
    "eagle_text_biomed": HashedWords(seed=1),
    "eagle_chemical": MorganStructures(),
}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shared' / 'registry.sqlite'}"
    psycopg = pytest.importorskip("psycopg")
    server: str = request.getfixturevalue("postgres")
    schema = f"shared{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{server}&options=-csearch_path%3D{schema}"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    lines = []
    for document in DOCUMENTS:
        metadata = {k: v for k, v in document.items() if k not in ("_id", "text")}
        record = {"_id": document["_id"], "text": document["text"], "title": ""}
        lines.append(json.dumps({**record, "metadata": {"domain": "biomedical", **metadata}}))
    (folder / "corpus.jsonl").write_text("\n".join(lines), "utf-8")
    return folder


def answers(index: Path, config: RetrieverConfig) -> str:
    retriever = Retriever.open(index, config, encoders=ENCODERS)
    trace = retriever.trace(QUERIES)
    found = [explain(retriever, trace, row) for row in range(len(QUERIES))]
    return json.dumps([{k: v for k, v in one.items() if k != "timings_ms"} for one in found])


def test_search_gives_the_same_bytes_when_the_registry_is_shared(
    tmp_path: Path, corpus: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(tmp_path)
    build_index(corpus, tmp_path / "own", config, encoders=ENCODERS)
    own = answers(tmp_path / "own", config)
    monkeypatch.setenv("ASSAY_REGISTRY", url)
    built = build_index(corpus, tmp_path / "shared-index", config, encoders=ENCODERS).index
    assert built.manifest.registry == "shared"
    assert not (built.folder / "registry.sqlite").exists()
    assert answers(tmp_path / "shared-index", config) == own
    # An index that has its own keeps to it, whatever the environment says.
    assert Index.open(tmp_path / "own").registry_id == "index"
    assert answers(tmp_path / "own", config) == own
    # The supplement and the scopes did find something.
    found = json.loads(own)
    assert [hit["chunk_id"] for hit in found[0]["supplement"]] == ["a1#0000", "a2#0000"]
    assert {hit["document_id"] for hit in found[3]["results"]} == {"a1", "b1"}
    assert [hit["document_id"] for hit in found[4]["results"]] == ["a2"]
    assert {hit["document_id"] for hit in found[5]["results"]} == {"c1"}
    assert found[6]["results"] == []


def test_indexes_stand_side_by_side_by_their_fingerprints(
    tmp_path: Path, corpus: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_REGISTRY", url)
    config = config_of(tmp_path)
    one = build_index(corpus, tmp_path / "one", config, encoders=ENCODERS).index
    write_corpus(tmp_path / "other-corpus", {"a1": "another document", "z": "and one more"})
    other = build_index(tmp_path / "other-corpus", tmp_path / "two", config, encoders=ENCODERS)
    with Registry.open(url) as registry:
        assert registry.count(one.manifest.fingerprint) == 5
        assert registry.count(other.index.manifest.fingerprint) == 2
        assert registry.count("index") == 0
    assert one.registry.get(one.registry_id, ["a1"])["a1"].name == "Gefitinib label"


def test_opening_needs_the_url_when_the_registry_is_shared(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, assay
) -> None:
    config, index = config_of(tmp_path), tmp_path / "index"
    url = f"sqlite:///{tmp_path / 'registry.sqlite'}"
    monkeypatch.setenv("ASSAY_REGISTRY", url)
    build_index(corpus, index, config, encoders=ENCODERS)
    assert not build_index(corpus, index, config, encoders=ENCODERS).built
    monkeypatch.delenv("ASSAY_REGISTRY")
    with pytest.raises(InputError, match=r"shared registry.*\(export ASSAY_REGISTRY=postgresql"):
        Index.open(index)
    refused = assay("search", index, "dose")
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)
    # Without the variable the index is built anew, with a registry of its own.
    report = build_index(corpus, index, config, encoders=ENCODERS)
    assert (report.built, report.index.manifest.registry) == (True, "file")
    monkeypatch.setenv("ASSAY_REGISTRY", url)
    assert build_index(corpus, index, config, encoders=ENCODERS).built


def test_database_that_lacks_the_index_is_named_and_filled_by_a_build(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, index = config_of(tmp_path), tmp_path / "index"
    monkeypatch.setenv("ASSAY_REGISTRY", f"sqlite:///{tmp_path / 'one.sqlite'}")
    build_index(corpus, index, config, encoders=ENCODERS)
    other = f"sqlite:///{tmp_path / 'other.sqlite'}"
    monkeypatch.setenv("ASSAY_REGISTRY", other)
    with Registry.open(other) as registry:
        registry.replace("something else", [])
    retriever = Retriever.open(index, config, encoders=ENCODERS)
    with pytest.raises(InputError, match="holds 0 documents of this index, expected 5"):
        retriever.search("gefitinib")
    assert build_index(corpus, index, config, encoders=ENCODERS).built
    assert Retriever.open(index, config, encoders=ENCODERS).search("gefitinib").hits


def test_password_stands_nowhere_in_the_index_or_a_message(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, index = config_of(tmp_path), tmp_path / "index"
    monkeypatch.setenv("ASSAY_REGISTRY", f"sqlite:///{tmp_path / 'r.sqlite'}")
    build_index(corpus, index, config, encoders=ENCODERS)
    assert "r.sqlite" not in (index / "manifest.json").read_text()
    monkeypatch.setenv("ASSAY_REGISTRY", "postgresql://me:hunter2@127.0.0.1:1/db")
    with pytest.raises(InputError) as caught:
        Index.open(index).registry.count("x")
    assert "hunter2" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


def test_build_leaves_no_index_when_the_shared_registry_cannot_be_reached(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_REGISTRY", "postgresql://me@127.0.0.1:1/db")
    with pytest.raises(InputError, match="the registry failed"):
        build_index(corpus, tmp_path / "index", config_of(tmp_path), encoders=ENCODERS)
    assert not (tmp_path / "index").exists()
