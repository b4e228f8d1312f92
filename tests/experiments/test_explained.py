"""`assay search --explain` on a screen: a few lines a stage, each with what is left out."""

import re
from pathlib import Path
from typing import Any

import pytest
from worlds import HashedWords, write_corpus

from experiments.explained import explained_lines
from retriever import Query, Retriever, RetrieverConfig, build_index
from retriever.explain import explain


@pytest.fixture
def found(tmp_path: Path) -> dict[str, Any]:
    texts = {f"d{i:02}": f"kinase {'renal ' * (i % 3)}dose word{i}" for i in range(40)}
    write_corpus(tmp_path / "c", texts)
    config = RetrieverConfig(namespace="general")
    encoders = {"eagle_text": HashedWords()}
    build_index(tmp_path / "c", tmp_path / "i", config, encoders=encoders)
    retriever = Retriever.open(tmp_path / "i", config, encoders=encoders)
    return explain(retriever, retriever.trace([Query("renal dose")]))


def test_explanation_fits_a_screen_and_counts_what_it_leaves_out(found: dict[str, Any]) -> None:
    lines = list(explained_lines(found))
    assert len(lines) < 30
    assert "list eagle_text:bm25, weight 0.5: 40 hits, the first 3" in lines
    assert "merged: 40 chunks, the first 3" in lines
    assert lines[-1].endswith("--explain --json")
    assert max(map(len, lines)) < 200


def test_hit_shows_the_share_of_each_word(found: dict[str, Any]) -> None:
    lines = list(explained_lines(found))
    at = lines.index("list eagle_text:bm25, weight 0.5: 40 hits, the first 3")
    (shares,) = re.findall(r"\[renal ([\d.]+), dose ([\d.]+)\]", lines[at + 1])
    (score,) = re.findall(r" score ([\d.]+)", lines[at + 1])
    assert sum(map(float, shares)) == pytest.approx(float(score), abs=1e-3)


def test_section_says_nothing_of_a_rest_when_there_is_none(found: dict[str, Any]) -> None:
    bare = {**found, "plans": [], "merged": [], "reranked": [], "weights": None, "drugs": []}
    lines = list(explained_lines(bare))
    assert "merged: 0 chunks" in lines
    assert "drugs: none" in lines
