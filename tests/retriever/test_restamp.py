"""A changed lexicon reaches an index without a vector: on disk by --restamp, in memory at once."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage_worlds import LEXICON, config_of
from worlds import HashedWords

from retriever import Index, InputError, Retriever, RetrieverConfig, build_index
from retriever.biomed.mentions import whole_text
from retriever.encoders.molecule import MorganStructures
from retriever.ingest.chunk import Document, chunk_document, word_spans

OVERLAY = {
    "add": [{"id": "sunitinib", "name": "sunitinib", "aliases": ["Sutent"], "is_drug": True}],
    "change": [{"id": "gefitinib", "aliases": ["Iressa"]}],
    "remove": ["erlotinib"],
}
DOCUMENTS = [
    {"_id": "a", "title": "Sutent label", "text": "Sunitinib malate (SM) daily. SM with food."},
    {"_id": "b", "title": "", "text": "Erlotinib or gefitinib.\n\nTake sunitinib (SUN). SUN, SUN!"},
    {"_id": "c", "title": "ZD1839", "text": "WARNINGS\nLung disease. " * 30 + "Iressa. " * 40},
    {"_id": "d", "title": "Note", "text": "Tarceva. Tarceva. Iressa.", "smiles": "CCO"},
    {"_id": "e", "title": "Travel", "text": "No drug at all.", "domain": "general"},
]
QUERIES = ["Sutent with food", "Iressa warnings", "Tarceva", "sunitinib plus gefitinib", "ZD1839"]


def encoders() -> dict[str, Any]:
    return {
        "eagle_text": HashedWords(),
        "eagle_text_biomed": HashedWords(seed=1),
        "eagle_chemical": MorganStructures(),
    }


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "corpus").mkdir()
    lines = []
    for document in DOCUMENTS:
        metadata = {k: document[k] for k in ("smiles", "domain") if k in document}
        top = {k: document[k] for k in ("_id", "title", "text")}
        lines.append(json.dumps({**top, "metadata": {"domain": "biomedical", **metadata}}))
    (tmp_path / "corpus" / "corpus.jsonl").write_text("\n".join(lines), "utf-8")
    return tmp_path / "corpus"


@pytest.fixture
def configs(tmp_path: Path) -> tuple[RetrieverConfig, RetrieverConfig]:
    """The configuration before the change of the lexicon, and the one after it."""
    overlay = tmp_path / "overlay.json"
    overlay.write_text(json.dumps(OVERLAY), "utf-8")
    small = {"index.chunk.max_tokens": 48, "index.chunk.overlap": 8}
    after = {**small, "plugins.biomed.lexicon.overlays": [str(overlay)]}
    return config_of(tmp_path, small), config_of(tmp_path, after)


def stamps(index: Index) -> dict[str, dict[str, list[int]]]:
    chunks = index.chunks
    return {
        name: {value: rows.tolist() for value, rows in chunks.rows_by_value(name).items()}
        for name in chunks.list_columns
    }


def hits(retriever: Retriever) -> list[list[tuple[str, float]]]:
    results = retriever.search_many(QUERIES)
    return [[(hit.chunk_id, hit.score) for hit in result.hits] for result in results]


def test_restamped_index_equals_a_fresh_build_and_computes_no_vector(
    corpus: Path, configs: tuple[RetrieverConfig, RetrieverConfig], tmp_path: Path
) -> None:
    before, after = configs
    out, cache, served = tmp_path / "index", tmp_path / "cache", encoders()
    old = stamps(build_index(corpus, out, before, encoders=served, cache=cache).index)
    calls = [served[name].calls for name in ("eagle_text", "eagle_text_biomed")]
    report = build_index(corpus, out, after, encoders=served, cache=cache, restamp=True)
    assert report.built
    assert report.computed == 0
    assert [served[name].calls for name in ("eagle_text", "eagle_text_biomed")] == calls
    fresh = build_index(corpus, tmp_path / "fresh", after, encoders=encoders()).index
    restamped = Index.open(out)
    assert stamps(restamped) == stamps(fresh) != old
    assert restamped.manifest.fingerprint == fresh.manifest.fingerprint
    differ = {
        name
        for name, record in fresh.manifest.files.items()
        if restamped.manifest.files[name] != record
    }
    assert differ <= {"registry.sqlite"}  # which has a change counter of its own
    answers = hits(Retriever.open(restamped, after, encoders=served))
    assert answers == hits(Retriever.open(fresh, after, encoders=served))


def test_stamps_in_memory_equal_those_of_a_fresh_build(
    corpus: Path, configs: tuple[RetrieverConfig, RetrieverConfig], tmp_path: Path
) -> None:
    before, after = configs
    served = encoders()
    old = build_index(corpus, tmp_path / "index", before, encoders=served).index
    fresh = build_index(corpus, tmp_path / "fresh", after, encoders=served).index
    assert hits(Retriever.open(old, after, encoders=served)) == hits(
        Retriever.open(fresh, after, encoders=served)
    )


def test_restamp_is_refused_when_a_vector_is_missing_and_the_index_stays(
    corpus: Path, configs: tuple[RetrieverConfig, RetrieverConfig], tmp_path: Path
) -> None:
    before, after = configs
    out = tmp_path / "index"
    build_index(corpus, out, before, encoders=encoders())
    with pytest.raises(InputError, match="are not in the cache, and none may be computed"):
        build_index(corpus, out, after, encoders=encoders(), cache=tmp_path / "empty", restamp=True)
    assert stamps(Index.open(out))


def test_restamp_is_refused_without_the_index_or_of_another_corpus(
    corpus: Path, configs: tuple[RetrieverConfig, RetrieverConfig], tmp_path: Path
) -> None:
    before, after = configs
    with pytest.raises(InputError, match="no index here"):
        build_index(corpus, tmp_path / "none", after, encoders=encoders(), restamp=True)
    build_index(corpus, tmp_path / "index", before, encoders=encoders())
    (corpus / "corpus.jsonl").write_text('{"_id": "z", "text": "other"}')
    with pytest.raises(InputError, match="another corpus"):
        build_index(corpus, tmp_path / "index", after, encoders=encoders(), restamp=True)


def test_command_restamps_under_the_settings_of_the_index(assay: Any, tmp_path: Path) -> None:
    corpus, out = tmp_path / "corpus.jsonl", tmp_path / "index"
    corpus.write_text('{"_id": "a", "text": "Newdrug for gout."}\n')
    overlay = tmp_path / "o.json"
    add = [{"id": "drug:newdrug", "name": "Newdrug", "is_drug": True}]
    overlay.write_text(json.dumps({"add": add}))
    first = assay("index", corpus, "-o", out, "--set", "index.bm25.k1=0.9", "--json")
    assert first.code == 0, first.err
    changed = f'plugins.biomed.lexicon.overlays=["{overlay}"]'
    again = assay("index", corpus, "-o", out, "--restamp", "--set", changed, "--json")
    assert again.code == 0, again.err
    found = json.loads(again.out)
    assert (found["built"], found["vectors_computed"]) == (True, 0)
    index = Index.open(out)
    assert index.manifest.index.bm25.k1 == 0.9
    assert index.chunks.rows_by_value("biomed:primary")["drug:newdrug"].tolist() == [0]


WORD = st.sampled_from(["gefitinib", "dose", "of", "mg.", "Lung", "the", "WARNINGS\n", "x-ray"])


@settings(max_examples=60, deadline=None)
@given(words=st.lists(WORD, min_size=1, max_size=120), title=st.lists(WORD, max_size=6))
def test_text_of_a_document_is_whole_when_joined_from_its_chunks(
    words: list[str], title: list[str]
) -> None:
    # Six words of title are 18 tokens at most: beside a longer one a word itself may be cut.
    document = Document("d", " ".join(title).replace("\n", " "), " ".join(words), {}, "d")
    chunks = chunk_document(document, word_spans, max_tokens=24, overlap=6)
    joined = whole_text(document.title, [chunk.text for chunk in chunks])
    if document.text.strip():
        # Runs of one word repeated cannot be told from an overlap: as many at least stay.
        assert set(joined.split()) == set(document.text.split())
        # An overlap too short to be told from chance stays twice: two words a seam at most.
        most = len(document.text.split()) + 2 * (len(chunks) - 1)
        assert len(joined.split()) <= most


def test_repeated_sentences_are_taken_once_and_chance_agreement_is_not() -> None:
    pieces = ["T\nOne two three. Four five.", "T\nFour five. Six g", "T\ngefitinib"]
    assert whole_text("T", pieces) == "One two three. Four five. Six g\ngefitinib"
    assert {record["id"] for record in LEXICON} >= {"gefitinib", "erlotinib"}
