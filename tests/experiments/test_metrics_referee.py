"""Per query our figures are trec_eval's: its bindings, and its own published test output."""

import os
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.metrics import parse_measure, per_query
from gold import read_qrels, read_run

DATA = Path(os.environ.get("ASSAY_DATA", Path(__file__).resolve().parents[2] / "../shared/data"))
FIXTURES = DATA / "trec_eval_fixtures" / "test"
needs_fixtures = pytest.mark.skipif(
    not FIXTURES.is_dir(), reason="needs trec_eval_fixtures under ASSAY_DATA"
)

# Our key: trec_eval's name.
NAMES = {
    "hit@1": "success_1",
    "hit@5": "success_5",
    "hit@10": "success_10",
    "recall@5": "recall_5",
    "recall@100": "recall_100",
    "precision@5": "P_5",
    "precision@10": "P_10",
    "mrr": "recip_rank",
    "map": "map",
    "map@10": "map_cut_10",
    "map@100": "map_cut_100",
    "ndcg": "ndcg",
    "ndcg@5": "ndcg_cut_5",
    "ndcg@10": "ndcg_cut_10",
}
MEASURES = [parse_measure(key) for key in NAMES]


def trec_eval(run, qrels, level):
    """What the bindings say: query_id -> trec_eval's name -> value.

    They crash on a query whose grades are all negative: give them queries with something relevant.
    """
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, set(NAMES.values()), relevance_level=level)
    return evaluator.evaluate(run)


documents = [f"d{i}" for i in range(14)]
grades = st.dictionaries(st.sampled_from(documents), st.integers(-2, 4), max_size=10)
orders = st.lists(st.sampled_from(documents), unique=True, max_size=14)
queries = st.sampled_from([f"q{i}" for i in range(6)])


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(queries, grades), st.dictionaries(queries, orders), st.integers(1, 3))
def test_figures_equal_trec_eval_when_grades_and_rankings_are_any(qrels, rankings, level):
    scores = per_query(rankings, qrels, MEASURES, relevant_from=level)
    run = {
        query_id: {d: float(len(ranking) - rank) for rank, d in enumerate(ranking)}
        for query_id, ranking in rankings.items()
        if ranking
    }
    theirs = trec_eval(run, {q: qrels[q] for q in scores.query_ids}, level)
    for row, query_id in enumerate(scores.query_ids):
        for key, name in NAMES.items():
            expected = theirs[query_id][name] if query_id in theirs else 0.0
            assert scores.values[key][row] == pytest.approx(expected, abs=1e-9), (query_id, key)
    left_out = set(qrels) - set(scores.query_ids)
    assert left_out == {q for q, judged in qrels.items() if max(judged.values(), default=0) < level}


@settings(max_examples=50, deadline=None)
@given(grades, orders)
def test_figures_stay_within_0_and_1_when_grades_and_rankings_are_any(judged, ranking):
    measures = [*MEASURES, *map(parse_measure, ("ndcg_burges", "ndcg_burges@5", "judged@5"))]
    for column in per_query({"q": ranking}, {"q": judged}, measures).values.values():
        assert ((column >= 0) & (column <= 1 + 1e-12)).all()


@settings(max_examples=50, deadline=None)
@given(grades.filter(lambda judged: max(judged.values(), default=0) > 0), st.integers(1, 14))
def test_reciprocal_rank_at_a_cutoff_is_trec_evals_when_the_run_is_cut_there(judged, cutoff):
    scores = per_query({"q": documents}, {"q": judged}, [parse_measure(f"mrr@{cutoff}")])
    run = {"q": {d: -float(rank) for rank, d in enumerate(documents[:cutoff])}}
    expected = trec_eval(run, {"q": judged}, 1)["q"]["recip_rank"]
    assert scores.values[f"mrr@{cutoff}"][0] == pytest.approx(expected, abs=1e-9)


def published(name):
    """Read trec_eval's printed output: query_id -> name -> value to 4 decimals."""
    table = {}
    for line in (FIXTURES / name).read_text().splitlines():
        measure, query_id, value = line.split()
        if measure in NAMES.values():
            table.setdefault(query_id, {})[measure] = float(value)
    return table


@pytest.mark.data
@needs_fixtures
@pytest.mark.parametrize(
    ("qrels_name", "output", "level"),
    [("qrels.test", "out.test.aq", 1), ("qrels.rel_level", "out.test.aql", 2)],
)
def test_figures_equal_the_published_output_when_trec_evals_own_run_is_scored(
    qrels_name, output, level
):
    qrels = read_qrels(FIXTURES / qrels_name)
    run = read_run(FIXTURES / "results.test")
    scores = per_query(run.rankings, qrels, MEASURES, relevant_from=level)
    expected = published(output)
    means = expected.pop("all")
    assert scores.query_ids == tuple(sorted(expected))
    for key, name in NAMES.items():
        for row, query_id in enumerate(scores.query_ids):
            assert scores.values[key][row] == pytest.approx(expected[query_id][name], abs=5.1e-5)
        assert np.mean(scores.values[key]) == pytest.approx(means[name], abs=5.1e-5)


@pytest.mark.data
@needs_fixtures
def test_figures_equal_the_bindings_when_trec_evals_own_run_is_scored():
    qrels = read_qrels(FIXTURES / "qrels.test")
    run = read_run(FIXTURES / "results.test")
    scores = per_query(run.rankings, qrels, MEASURES)
    raw = {q: dict(zip(run.rankings[q], run.scores[q], strict=True)) for q in run.rankings}
    theirs = trec_eval(raw, qrels, 1)
    for key, name in NAMES.items():
        expected = [theirs[query_id][name] for query_id in scores.query_ids]
        assert scores.values[key] == pytest.approx(expected, abs=1e-9), key
