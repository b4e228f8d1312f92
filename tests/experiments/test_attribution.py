"""A difference is a cause when putting it back alone undoes the move, and only then."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stage_worlds import config_of
from worlds import HashedWords, write_gold

import experiments.comparison.attribution as attribution
from experiments.comparison.attribution import attribute, units_of
from experiments.comparison.pairing import pair
from experiments.evaluate import evaluate
from experiments.metrics import Measure
from experiments.recorded import RecordedRun
from gold import load
from retriever import Retriever, RetrieverConfig, build_index
from retriever.files import InputError

NDCG = Measure("ndcg", 10)
GENERAL = RetrieverConfig(namespace="general")
WORDS = ["egfr", "dose", "label", "tumour", "renal", "trial", "met", "kinase", "safety", "lung"]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A gold set over random texts, and a function that evaluates a configuration on it."""
    rng = np.random.default_rng(5)
    texts = {f"d{i:02}": " ".join(rng.choice(WORDS, size=8)) for i in range(30)}
    queries = {f"q{i:03}": " ".join(rng.choice(WORDS, size=3)) for i in range(120)}
    qrels = {q: {f"d{rng.integers(30):02}": 1} for q in queries}
    folder = write_gold(tmp_path / "gold", texts, queries, qrels)
    encoders = {"eagle_text": HashedWords()}
    index = build_index(folder, tmp_path / "index", GENERAL, encoders=encoders).index
    judged = load(folder)
    retriever = Retriever.open(index, GENERAL, encoders=encoders)
    monkeypatch.setattr(
        attribution, "reopen", lambda run, **_: (judged, retriever.with_config(run.config))
    )

    def run(name: str, **overrides: Any) -> RecordedRun:
        config = GENERAL.with_overrides({k.replace("__", "."): v for k, v in overrides.items()})
        done = evaluate(judged, retriever.with_config(config), tmp_path / name)
        return RecordedRun.open(done.path)

    return run


def test_planted_change_is_named_for_the_queries_it_moved(world) -> None:
    planted = {"merge__weights": {"dense": 0.8, "bm25": 0.2}}
    baseline = world("a", merge__weights={"dense": 0.5, "bm25": 0.5})
    alone = world("planted", **planted)
    # Four more parameters differ that can move nothing here: a cause must be told from company.
    candidate = world(
        "b",
        **planted,
        merge__rrf_k=20,
        trim__final_top_k=7,
        inject__min_new=1,
        recall__search_depth=150,
    )
    one, other = pair(baseline, alone).values(NDCG)
    moved = {f"q{i:03}" for i in np.flatnonzero(one != other)}
    assert len(moved) >= 25
    found = attribute(pair(baseline, candidate), NDCG)
    assert len(found["differences"]) == 5
    named = {q["query_id"] for q in found["queries"] if ["merge.weights"] in q["causes"]}
    assert len(named & moved) >= 0.95 * len(moved)
    inert = set(found["differences"]) - {"merge.weights"}
    assert not inert & {name for row in found["totals"] for name in row["cause"]}
    assert any(line.startswith("merge.weights explains") for line in found["summary"])


def test_pair_is_named_when_neither_alone_undoes_the_move(world) -> None:
    # dense_search=false leaves BM25 alone, and so does a weight of 0 for it: either put back alone
    # changes nothing.
    baseline = world("a")
    candidate = world("b", route__dense_search=False, merge__weights={"dense": 0.0})
    found = attribute(pair(baseline, candidate), NDCG)
    moved = found["queries"]
    assert moved
    both = [["route.dense_search", "merge.weights"]]
    assert all(query["causes"] == both for query in moved)
    assert found["pairs"] == {"tried": 1, "left_out": 0}


def test_pairs_beyond_the_limit_are_counted(world) -> None:
    baseline = world("a")
    candidate = world("b", route__dense_search=False, merge__weights={"dense": 0.0}, merge__rrf_k=9)
    found = attribute(pair(baseline, candidate), NDCG, most_pairs=0)
    assert found["pairs"] == {"tried": 0, "left_out": 3}
    assert found["losses"]["not_attributable"] + found["gains"]["not_attributable"] == len(
        found["queries"]
    )


def test_difference_that_cannot_be_put_back_is_said_to_be_untried(world) -> None:
    # Depth 100 put back alone leaves search_depth 60 below it, which the configuration refuses.
    baseline = world("a")
    candidate = world("b", recall__search_depth=60, route__recall_top_k=2)
    found = attribute(pair(baseline, candidate), NDCG)
    assert list(found["untried"]) == ["route.recall_top_k"]
    assert "search_depth" in found["untried"]["route.recall_top_k"]


def test_query_that_no_longer_scores_as_recorded_has_no_cause(world) -> None:
    baseline, candidate = world("a"), world("b", merge__weights={"dense": 0.95, "bm25": 0.05})
    table = candidate.queries
    column = table.columns.get_loc("ndcg@10")
    table.iloc[0, column] = 0.123456
    found = attribute(pair(baseline, candidate), NDCG)
    (odd,) = (query for query in found["queries"] if query["query_id"] == "q000")
    assert (odd["reproduced"], odd["causes"]) == (False, [])
    assert found["losses"]["not_reproduced"] + found["gains"]["not_reproduced"] == 1


def test_equal_runs_have_nothing_to_explain(world) -> None:
    found = attribute(pair(world("a"), world("b", trim__final_top_k=9)), NDCG)
    assert found["queries"] == []
    assert found["summary"] == []


def test_coverage_is_not_explained_by_rankings(world) -> None:
    run = world("a")
    with pytest.raises(InputError, match="not by coverage@5"):
        attribute(pair(run, run), Measure("coverage", 5))


def test_units_take_a_mapping_of_data_as_one_and_leave_scoring_out(tmp_path: Path) -> None:
    one = config_of(tmp_path)
    other = one.with_overrides(
        {
            "merge.weights": {"dense": 0.7, "bm25": 0.3},
            "evaluation.depth": 50,
            "plugins.biomed.rerank_merged.profiles.regulatory.w_section": 0.9,
            "index.bm25.k1": 0.9,
        }
    )
    units = units_of(one, other, same_index=False)
    assert sorted(unit.name for unit in units) == [
        "index",
        "merge.weights",
        "plugins.biomed.rerank_merged.profiles.regulatory.w_section",
    ]
    put_back = {path: value for unit in units for path, value in unit.overrides.items()}
    restored = other.with_overrides(put_back)
    assert restored.with_overrides({"evaluation.depth": 100}) == one
