"""The scorer of a sweep says what ranx says, and what one works out by hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import HashedWords, write_gold

from experiments.metrics import Measure, parse_measure, per_query
from experiments.sweep.objective import Objective, ScorerDifferenceError
from experiments.sweep.scoring import Scorer, scorable
from gold import load
from retriever import InputError, Retriever, RetrieverConfig, build_index
from retriever.types import FinalScores, Floats, Ranking, Reranked, Slots

MEASURES = [
    parse_measure(text)
    for text in (
        "ndcg@3",
        "ndcg_burges@3",
        "hit@2",
        "mrr@3",
        "recall@3",
        "precision@2",
        "map",
        "mrr",
    )
]
DOCUMENTS = [f"d{i}" for i in range(6)]


def final_of(rankings: Sequence[Sequence[int]], width: int) -> tuple[Slots, Reranked]:
    """Orders over chunk rows, slot s of every query being chunk s."""
    queries = len(rankings)
    chunk = np.broadcast_to(np.arange(width, dtype=np.int32), (queries, width)).copy()
    order = np.zeros((queries, width), dtype=np.int32)
    for row, ranking in enumerate(rankings):
        rest = [slot for slot in range(width) if slot not in ranking]
        order[row] = [*ranking, *rest]
    count = np.array([len(ranking) for ranking in rankings], dtype=np.int32)
    flags = np.zeros(chunk.shape, dtype=np.bool_)
    merged = Ranking(order, count, np.zeros(chunk.shape), order, np.zeros((0, queries)))
    scores = FinalScores(merged, flags, order, merged.ranked)
    final = Reranked(order, count, scores, order, flags, flags, {}, {})
    return Slots((), chunk, ()), final


def scored(
    rankings: Sequence[Sequence[int]],
    qrels: Mapping[str, Mapping[str, int]],
    document_of: Sequence[int],
    measures: Sequence[Measure] = MEASURES,
    relevant_from: int = 1,
) -> dict[str, Floats]:
    """Score rankings of chunk rows of queries q0, q1, ..."""
    of = np.array(document_of, dtype=np.int32)
    scorer = Scorer(
        [f"q{i}" for i in range(len(rankings))],
        qrels,
        measures,
        lambda rows: of[rows],
        DOCUMENTS,
        depth=len(document_of),
        relevant_from=relevant_from,
    )
    return scorer.score(*final_of(rankings, len(document_of)))


def test_ndcg_is_the_figure_worked_out_when_a_document_has_two_chunks() -> None:
    # Chunks 0 and 1 are document d0, so d2 stands second: 1 / log2(3) over the ideal 1.
    found = scored([[0, 1, 2]], {"q0": {"d2": 1}}, [0, 0, 2, 3])
    assert found["ndcg@3"] == pytest.approx([0.6309297535714575])
    assert found["mrr@3"].tolist() == [0.5]
    assert found["precision@2"].tolist() == [0.5]


def test_ideal_counts_documents_that_are_not_in_the_index() -> None:
    # Two relevant, one found first: dcg 1, ideal 1 + 1 / log2(3) = 1.6309297535714575.
    found = scored([[0]], {"q0": {"d0": 1, "gone": 1}}, [0, 1])
    assert found["ndcg@3"] == pytest.approx([1 / 1.6309297535714575])
    assert found["recall@3"].tolist() == [0.5]


def test_nothing_retrieved_scores_nought() -> None:
    found = scored([[], [0]], {"q0": {"d0": 1}, "q1": {"d0": 1}}, [0, 1])
    assert all(values[0] == 0 for values in found.values())


@pytest.mark.parametrize("name", ["judged@3", "coverage@3"])
def test_measure_is_refused_when_it_reads_more_than_grades(name: str) -> None:
    with pytest.raises(InputError, match="cannot be an objective"):
        scored([[0]], {"q0": {"d0": 1}}, [0], [parse_measure(name)])


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_figures_are_those_of_ranx(data: st.DataObject) -> None:
    chunks = data.draw(st.integers(1, 14))
    document_of = data.draw(st.lists(st.integers(0, 5), min_size=chunks, max_size=chunks))
    rankings = data.draw(
        st.lists(st.lists(st.integers(0, chunks - 1), unique=True), min_size=1, max_size=4)
    )
    grades = st.dictionaries(st.sampled_from([*DOCUMENTS, "gone"]), st.integers(-1, 3), min_size=1)
    level = data.draw(st.integers(1, 2))
    qrels = {f"q{i}": data.draw(grades) | {"d1": level} for i in range(len(rankings))}
    documents = {
        f"q{i}": list(dict.fromkeys(DOCUMENTS[document_of[row]] for row in ranking))
        for i, ranking in enumerate(rankings)
    }
    expected = per_query(documents, qrels, MEASURES, relevant_from=level)
    found = scored(rankings, qrels, document_of, relevant_from=level)
    assert expected.query_ids == scorable(qrels, level)
    for name, values in expected.values.items():
        assert found[name] == pytest.approx(values, abs=1e-12), name


@pytest.fixture
def objective(tmp_path: Path) -> Objective:
    texts = {f"d{i}": f"word{i % 3} topic{i} common" for i in range(8)}
    queries = {f"q{i}": f"topic{i} word{i % 3}" for i in range(4)}
    qrels = {f"q{i}": {f"d{i}": 2, f"d{i + 3}": 1} for i in range(3)} | {"q3": {"d3": 0}}
    write_gold(tmp_path / "gold", texts, queries, qrels)
    config = RetrieverConfig(namespace="general")
    encoders = {"eagle_text": HashedWords()}
    build_index(tmp_path / "gold", tmp_path / "index", config, encoders=encoders)
    retriever = Retriever.open(tmp_path / "index", config, encoders=encoders)
    return Objective(retriever, load(tmp_path / "gold"), [parse_measure("ndcg@10")])


def test_objective_is_the_evaluations_figure(objective: Objective) -> None:
    assert objective.query_ids == ("q0", "q1", "q2")  # q3 has no relevant document
    for overrides in ({}, {"merge.method": "rrf"}, {"merge.weights": {"dense": 0.0}}):
        config = objective.retriever.config.with_overrides(overrides)
        objective.prove(config, objective.score(config))


def test_difference_from_ranx_is_named_when_there_is_one(objective: Objective) -> None:
    scores = objective.score(objective.retriever.config)
    wrong = {name: values + 1e-9 for name, values in scores.items()}
    with pytest.raises(ScorerDifferenceError, match="ndcg@10 of query q"):
        objective.prove(objective.retriever.config, wrong)


def test_queries_are_taken_in_blocks_when_they_are_many(
    objective: Objective, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = objective.score(objective.retriever.config)["ndcg@10"]
    monkeypatch.setattr("experiments.sweep.objective.QUERIES_AT_ONCE", 2)
    blocks = Objective(objective.retriever, objective.gold, objective.measures)
    assert len(blocks.batches) == 2
    assert blocks.score(objective.retriever.config)["ndcg@10"].tolist() == whole.tolist()


def test_no_query_with_a_relevant_document_is_refused(objective: Objective) -> None:
    with pytest.raises(InputError, match="no query has a relevant document"):
        Objective(objective.retriever, objective.gold, objective.measures, ["q3"])
