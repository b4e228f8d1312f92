"""What an estimate says, against what the build then does."""

from pathlib import Path

import pytest
from worlds import HashedWords, write_corpus

from retriever import InputError, RetrieverConfig, build_index
from retriever.encoders.molecule import MorganStructures
from retriever.ingest.estimate import estimate_index

GENERAL = RetrieverConfig(namespace="general")


def folder_of(tmp_path: Path, documents: int) -> Path:
    words = "In trial {} gefitinib inhibits the receptor and its dose is kept in {}. "
    texts = {
        f"d{i}": "".join(words.format(i, part) for part in range(5 + i % 7))
        for i in range(documents)
    }
    return write_corpus(tmp_path / "c", texts)


def test_estimate_is_what_the_build_finds(tmp_path: Path) -> None:
    corpus, encoders = folder_of(tmp_path, 100), {"eagle_text": HashedWords(dimension=64)}
    config = GENERAL.with_overrides({"index.chunk.max_tokens": 64})
    found = estimate_index(corpus, config, encoders=encoders, cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    report = build_index(
        corpus, tmp_path / "index", config, encoders=encoders, cache=tmp_path / "cache"
    )
    assert found.chunks == report.index.manifest.chunks
    assert found.vectors == pytest.approx(report.computed, rel=0.1)
    assert found.cached == 0
    assert found.minutes > 0
    size = sum(f.size for f in report.index.manifest.files.values()) / 1e6
    assert found.index_mb == pytest.approx(size, rel=0.5)
    # A second look: nothing is left to compute.
    again = estimate_index(corpus, config, encoders=encoders, cache=tmp_path / "cache")
    assert (again.cached, again.timed_texts, again.cache_mb) == (again.vectors, 0, 0.0)
    assert again.seconds_per_text is None


def test_estimate_computes_few_vectors_however_many_documents(tmp_path: Path) -> None:
    encoder = HashedWords()
    found = estimate_index(folder_of(tmp_path, 300), GENERAL, encoders={"eagle_text": encoder})
    assert found.tried_documents == 24
    assert encoder.calls <= 24 + 1
    assert len(found.reading.documents) == 300


def test_structures_are_counted_as_the_build_has_them(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "m.smi").write_text("CC(=O)Oc1ccccc1C(=O)O aspirin\nCCO ethanol\n")
    encoders = {
        "eagle_text": HashedWords(),
        "eagle_text_biomed": HashedWords(seed=1),
        "eagle_chemical": MorganStructures(),
    }
    found = estimate_index(folder, encoders=encoders)
    report = build_index(folder, tmp_path / "index", encoders=encoders)
    # Two texts and two structures.
    assert found.chunks == report.index.manifest.chunks == 4


def test_estimate_of_a_sample_is_that_of_its_documents(tmp_path: Path) -> None:
    encoders = {"eagle_text": HashedWords()}
    corpus = folder_of(tmp_path, 100)
    found = estimate_index(corpus, GENERAL, encoders=encoders, sample_size=10)
    report = build_index(corpus, tmp_path / "index", GENERAL, encoders=encoders, sample=10)
    assert found.chunks == report.index.manifest.chunks
    assert found.reading.sample is not None
    assert (found.reading.sample.documents, found.reading.sample.of) == (10, 100)


def test_estimate_of_nothing_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(InputError, match="no document has any text"):
        estimate_index(tmp_path / "f", GENERAL, encoders={"eagle_text": HashedWords()})
