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


# A baseline under which every companion below moves some queries by itself.
BASE = {
    "merge__method": "rrf",
    "fuse__hybrid_text_collections": ["eagle_text"],
    "fuse__fuse_with_bm25_plan": True,
    "route__recall_top_k": 28,
}
MILD = {
    "merge__weights": {"dense": 0.52, "bm25": 0.48},
    "merge__rrf_k": 40,
    "fuse__alpha": 0.55,
    "route__recall_top_k": 22,
}
PLANTED = {
    "route__bm25_search": False,
    "route__dense_search": False,
    "merge__method": "minmax",
    "fuse__sparse_method": "bm25",
}


def moved_by(baseline: RecordedRun, candidate: RecordedRun) -> set[str]:
    pairing = pair(baseline, candidate)
    one, other = pairing.values(NDCG)
    return {q for q, d in zip(pairing.query_ids, other - one, strict=True) if abs(d) > 1e-12}


def test_planted_change_is_named_in_the_company_of_changes_that_move_queries_too(world) -> None:
    baseline = world("base", **BASE)
    for name, value in MILD.items():
        alone = moved_by(baseline, world(name, **BASE | {name: value}))
        assert 1 <= len(alone) <= 15, name
    counted = put_back = named = 0
    for name, value in PLANTED.items():
        planted = world(f"planted-{name}", **BASE | {name: value})
        candidate = world(f"all-{name}", **BASE | MILD | {name: value})
        found = attribute(pair(baseline, candidate), NDCG)
        assert len(found["differences"]) == 5
        moved = moved_by(baseline, planted) & moved_by(baseline, candidate)
        by_id = {query["query_id"]: query for query in found["queries"]}
        unit = name.replace("__", ".")
        for query in (by_id[query_id] for query_id in moved):
            counted += 1
            put_back += [unit] in query["causes"]
            named += [unit] in query["causes"] or unit in query["made_alone"]
    assert counted >= 100
    # By putting back alone it would be fewer: a companion keeps some of the loss in place.
    assert put_back < 0.9 * counted
    assert named >= 0.95 * counted


def test_inert_company_is_never_named(world) -> None:
    planted = {"merge__weights": {"dense": 0.8, "bm25": 0.2}}
    baseline = world("a", merge__weights={"dense": 0.5, "bm25": 0.5})
    # Four more parameters differ that can move nothing here: a cause must be told from company.
    candidate = world(
        "b",
        **planted,
        merge__rrf_k=20,
        trim__final_top_k=7,
        inject__min_new=1,
        recall__search_depth=150,
    )
    found = attribute(pair(baseline, candidate), NDCG)
    assert len(found["queries"]) >= 25
    assert all(query["causes"] == [["merge.weights"]] for query in found["queries"])
    assert not any(query["made_alone"] for query in found["queries"])
    assert any(line.startswith("merge.weights explains") for line in found["summary"])


def test_two_that_do_the_same_are_a_pair_and_each_would_have_sufficed(world) -> None:
    # dense_search=false leaves BM25 alone, and so does a weight of 0 for it: either put back alone
    # changes nothing, and either made alone makes the whole move.
    baseline = world("a")
    candidate = world("b", route__dense_search=False, merge__weights={"dense": 0.0})
    found = attribute(pair(baseline, candidate), NDCG)
    moved = found["queries"]
    assert moved
    both = ["route.dense_search", "merge.weights"]
    assert all(query["causes"] == [both] for query in moved)
    assert all(query["made_alone"] == both for query in moved)
    assert found["pairs"] == {"tried": 1, "left_out": 0}
    losses = found["losses"]["queries"]
    assert {row["losses"] for row in found["made_alone"]} == {losses}
    line = f"merge.weights made alone brings about {losses} of {losses} losses"
    assert any(said.startswith(line) for said in found["summary"])


def test_change_that_moved_a_query_the_other_way_is_no_cause(world) -> None:
    # What the weights gain alone, the depth of 2 takes away and more: they are not to blame.
    weights = {"merge__weights": {"dense": 0.8, "bm25": 0.2}}
    baseline, alone = world("a"), world("alone", **weights)
    candidate = world("b", **weights, route__recall_top_k=2)
    one, other = pair(baseline, alone).values(NDCG)
    after = pair(baseline, candidate).values(NDCG)[1]
    turned = {f"q{i:03}" for i in np.flatnonzero((other > one) & (after < one))}
    assert turned
    found = {
        query["query_id"]: query for query in attribute(pair(baseline, candidate), NDCG)["queries"]
    }
    for query_id in turned:
        assert ["merge.weights"] not in found[query_id]["causes"]
        assert found[query_id]["made_alone"] in ([], ["route.recall_top_k"])


def test_pairs_beyond_the_limit_are_counted(world) -> None:
    baseline = world("a")
    candidate = world("b", route__dense_search=False, merge__weights={"dense": 0.0}, merge__rrf_k=9)
    found = attribute(pair(baseline, candidate), NDCG, most_pairs=0)
    assert found["pairs"] == {"tried": 0, "left_out": 3}
    assert all(query["causes"] == [] for query in found["queries"])
    # Each of the two would have sufficed, which needs no pair to be seen.
    assert found["losses"]["explained"] + found["gains"]["explained"] == len(found["queries"])


def test_difference_that_cannot_be_put_back_is_said_to_be_untried(world) -> None:
    # Depth 100 put back alone leaves search_depth 60 below it, which the configuration refuses.
    baseline = world("a")
    candidate = world("b", recall__search_depth=60, route__recall_top_k=2)
    found = attribute(pair(baseline, candidate), NDCG)
    # Nor can search_depth 60 be made alone, below the baseline's 100.
    assert list(found["untried"]) == ["route.recall_top_k", "recall.search_depth alone"]
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
    put_back = {path: value for unit in units for path, value in unit.baseline.items()}
    restored = other.with_overrides(put_back)
    assert restored.with_overrides({"evaluation.depth": 100}) == one
    made = {path: value for unit in units for path, value in unit.candidate.items()}
    assert one.with_overrides({**made, "evaluation.depth": 50}) == other
