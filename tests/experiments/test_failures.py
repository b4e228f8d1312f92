"""Each class and sub-class by the smallest corpus that gives it, and a near miss that does not."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from failure_worlds import World, world

from experiments.failures import CLASSES, SUBCLASSES, Pairs, Reach, Verdict, classify, lost_words
from retriever import InputError

BETTER = {"_id": "other", "text": "alpha alpha alpha"}
WORSE = {"_id": "gold", "text": "alpha beta gamma delta epsilon"}


def named(folder: Path, *arguments: Any, **more: Any) -> tuple[str | None, ...]:
    return world(folder, *arguments, **more).named()


def test_query_passes_when_a_relevant_document_is_in_the_top_k(tmp_path: Path) -> None:
    assert named(tmp_path, [WORSE]) == ("ok", None, None)
    assert named(tmp_path / "2", [WORSE, BETTER], k=2) == ("ok", None, None)


def test_success_all_asks_for_every_relevant_document(tmp_path: Path) -> None:
    both = {"gold": 1, "other": 1}
    every = {"settings": {"success": "all"}, "relevant": both}
    assert named(tmp_path / "1", [WORSE, BETTER], k=2, **every)[0] == "ok"
    assert named(tmp_path / "2", [WORSE, BETTER], k=1, **every)[0] == "ranking_gap"
    assert named(tmp_path / "3", [WORSE, BETTER], k=1, relevant=both)[0] == "ok"


def test_own_k_of_a_query_overrides_the_cutoff(tmp_path: Path) -> None:
    assert named(tmp_path / "1", [WORSE, BETTER], own={"k": 2})[0] == "ok"
    assert named(tmp_path / "2", [WORSE, BETTER], own={"k": 1}, k=2)[0] == "ranking_gap"
    with pytest.raises(InputError, match="deeper than"):
        world(tmp_path / "3", [WORSE, BETTER], own={"k": 101})


def test_query_without_a_relevant_document_is_unscorable(tmp_path: Path) -> None:
    assert named(tmp_path, [WORSE], relevant={"gold": 0}) == (None, None, None)


def test_corpus_gap_when_no_relevant_document_is_indexed(tmp_path: Path) -> None:
    assert named(tmp_path / "1", [BETTER], relevant={"absent": 1}) == (
        "gold_corpus_gap",
        None,
        None,
    )
    near = {"absent": 1, "gold": 1}
    assert named(tmp_path / "2", [BETTER, WORSE], relevant=near)[0] == "ranking_gap"


def test_over_specified_when_absent_documents_are_asked_for(tmp_path: Path) -> None:
    asked = {"relevant": {"absent": 1, "gold": 1}, "settings": {"success": "all"}}
    found = named(tmp_path / "1", [WORSE], **asked)
    assert found == ("gold_over_specified", "absent_documents", None)
    assert named(tmp_path / "2", [WORSE, BETTER], **asked)[0] == "ranking_gap"


def test_over_specified_when_a_term_stands_in_no_relevant_document(tmp_path: Path) -> None:
    terms = {"expected_terms": ["beta", "zeta"]}
    # zeta stands in the corpus, but in no relevant document.
    found = named(tmp_path / "1", [WORSE, {"_id": "x", "text": "zeta"}], **terms)
    assert found == ("gold_over_specified", "impossible_terms", None)
    # In another relevant document it is possible, and was not covered.
    near = [WORSE, {"_id": "gold2", "text": "zeta"}]
    found = named(tmp_path / "2", near, relevant={"gold": 1, "gold2": 1}, **terms)
    assert found == ("term_metric_strict", None, None)


def test_threshold_says_how_many_terms_must_be_covered(tmp_path: Path) -> None:
    terms = {"expected_terms": ["beta", "zeta"]}
    half = {"settings": {"coverage_threshold": 0.5}}
    assert named(tmp_path, [WORSE], **terms, **half)[0] == "ok"


LONG = {
    "_id": "gold",
    "text": "alpha alpha one two three four five six seven eight. "
    "Beta gamma nine ten eleven twelve thirteen fourteen fifteen alpha.",
}
CUT = {"index.chunk.max_tokens": 16, "index.chunk.overlap": 0}
BY_CHUNK = {"settings": {"level": "chunk"}, "overrides": CUT}


def test_too_fine_when_another_chunk_of_the_document_is_found(tmp_path: Path) -> None:
    second = {"gold#0001": 1}
    found = named(tmp_path / "1", [LONG], relevant=second, **BY_CHUNK)
    assert found == ("gold_over_specified", "too_fine", None)
    near = [LONG, {"_id": "other", "text": "alpha alpha alpha alpha"}]
    assert named(tmp_path / "2", near, relevant=second, **BY_CHUNK)[0] == "ranking_gap"


def test_too_fine_when_an_exact_duplicate_is_found(tmp_path: Path) -> None:
    copy = {"_id": "copy", "text": WORSE["text"]}
    settings = {"settings": {"level": "chunk"}, "relevant": {"gold#0000": 1}}
    found = named(tmp_path / "1", [WORSE, copy], **settings)
    assert found == ("gold_over_specified", "too_fine", None)
    near = {"_id": "copy", "text": "alpha beta gamma delta"}
    assert named(tmp_path / "2", [WORSE, near], **settings)[0] == "ranking_gap"


GENERAL = {**WORSE, "domain": "general"}
ONE_TEXT = {"plugins.biomed.route.default_dual_text_search": False}


def test_route_gap_when_the_collection_was_not_searched(tmp_path: Path) -> None:
    found = named(tmp_path / "1", [GENERAL, BETTER], overrides=ONE_TEXT)
    assert found == ("query_route_gap", None, "route")
    dual = {"plugins.biomed.route.default_dual_text_search": True}
    assert named(tmp_path / "2", [GENERAL, BETTER], overrides=dual)[0] == "ranking_gap"


def test_no_route_gap_when_one_of_several_was_searched(tmp_path: Path) -> None:
    both = {"gold": 1, "gold2": 1}
    documents = [GENERAL, {"_id": "gold2", "text": "alpha beta gamma"}, BETTER]
    found = named(tmp_path, documents, relevant=both, overrides=ONE_TEXT)
    assert found == ("ranking_gap", "lost_in_rerank", "rerank_merged")


def test_supplement_counts_as_a_search(tmp_path: Path) -> None:
    documents = [
        {"_id": "gold", "text": "nothing of it", "name": "card", "smiles": "CC"},
        {"_id": "other", "text": "gefitinib alpha", "name": "gefitinib label"},
    ]
    switches = {
        **ONE_TEXT,
        "plugins.biomed.supplement.enabled": True,
        "plugins.biomed.route.drug_hits_search_chemical": False,
    }
    documents[0]["domain"] = "general"
    found = named(tmp_path / "1", documents, "gefitinib", overrides=switches)
    assert found == ("ranking_gap", "not_recalled", "recall")
    switches["plugins.biomed.supplement.enabled"] = False
    found = named(tmp_path / "2", documents, "gefitinib", overrides=switches)
    assert found == ("query_route_gap", None, "route")


def test_not_recalled_when_below_the_depth(tmp_path: Path) -> None:
    shallow = {"route.recall_top_k": 1}
    found = named(tmp_path / "1", [WORSE, BETTER], overrides=shallow)
    assert found == ("ranking_gap", "not_recalled", "recall")
    deeper = {"route.recall_top_k": 2}
    found = named(tmp_path / "2", [WORSE, BETTER], overrides=deeper)
    assert found == ("ranking_gap", "lost_in_rerank", "rerank_merged")


def test_filtered_when_tier_1_drops_it(tmp_path: Path) -> None:
    documents = [
        {"_id": "gold", "text": "the dose of a kinase inhibitor", "name": "guide"},
        {"_id": "other", "text": "gefitinib", "name": "label"},
    ]
    searches = {"route.dense_search": True, "route.bm25_search": False}
    on = {**searches, "plugins.biomed.rerank_plan.entity_filter": True}
    found = named(tmp_path / "1", documents, "gefitinib dose", overrides=on)
    assert found == ("ranking_gap", "filtered", "rerank_plan")
    off = {**searches, "plugins.biomed.rerank_plan.entity_filter": False}
    found = named(tmp_path / "2", documents, "gefitinib dose", overrides=off)
    assert found[:2] != ("ranking_gap", "filtered")


def test_filtered_when_the_scope_leaves_it_out(tmp_path: Path) -> None:
    found = named(tmp_path / "1", [WORSE, BETTER], scope={"document_ids": ["other"]})
    assert found == ("ranking_gap", "filtered", "scope")
    found = named(tmp_path / "2", [WORSE, BETTER], scope={"document_ids": ["other", "gold"]})
    assert found == ("ranking_gap", "lost_in_rerank", "rerank_merged")


def test_filtered_when_the_merge_cuts_lists_of_one_model(tmp_path: Path) -> None:
    # A list of one hit in each of two collections; read as one they are cut to one hit.
    documents = [GENERAL, BETTER]
    one = {
        "route.recall_top_k": 1,
        "plugins.biomed.route.default_dual_text_search": True,
    }
    found = named(tmp_path / "1", documents, overrides={**one, "merge.minmax_over": "model"})
    assert found == ("ranking_gap", "filtered", "merge")
    found = named(tmp_path / "2", documents, overrides={**one, "merge.minmax_over": "list"}, k=2)
    assert found[0] == "ok"


NAMED = [
    {"_id": "gold", "text": "nothing of it", "name": "gefitinib label"},
    {"_id": "other", "text": "alpha gefitinib", "name": "other card"},
]
SUPPLEMENT = {"plugins.biomed.supplement.enabled": True, "inject.rerank_pool": 1}


def test_not_injected_when_in_the_supplement_alone(tmp_path: Path) -> None:
    none = {**SUPPLEMENT, "inject.min_new": 0}
    found = named(tmp_path / "1", NAMED, "alpha gefitinib", overrides=none)
    assert found == ("ranking_gap", "not_injected", "inject")
    one = {**SUPPLEMENT, "inject.min_new": 1}
    found = named(tmp_path / "2", NAMED, "alpha gefitinib", overrides=one)
    assert found[0] == "ok"


def test_lost_in_merge_when_outside_the_pool(tmp_path: Path) -> None:
    found = named(tmp_path / "1", [WORSE, BETTER], overrides={"inject.rerank_pool": 1})
    assert found == ("ranking_gap", "lost_in_merge", "merge")
    found = named(tmp_path / "2", [WORSE, BETTER], overrides={"inject.rerank_pool": 2})
    assert found == ("ranking_gap", "lost_in_rerank", "rerank_merged")


def test_lost_in_rerank_when_out_ranked_without_a_policy(tmp_path: Path) -> None:
    none = {"rerank_merged.rerank_policy": "none"}
    found = named(tmp_path, [WORSE, BETTER], overrides=none)
    assert found == ("ranking_gap", "lost_in_rerank", "merge")
    assert lost_words(*found[1:]) == "out-ranked in the merge; tier 2 passed through"


def test_lost_at_the_injection_when_displaced_and_tier_2_passes_through(tmp_path: Path) -> None:
    none = {**SUPPLEMENT, "inject.rerank_pool": 2, "rerank_merged.rerank_policy": "none"}
    asked = {"relevant": {"other": 1}, "overrides": {**none, "inject.min_new": 1}}
    found = named(tmp_path, NAMED, "alpha gefitinib", **asked)
    assert found == ("ranking_gap", "lost_in_rerank", "inject")
    assert lost_words(*found[1:]).startswith("displaced by what was injected")


def test_term_metric_strict_when_the_passage_is_not_retrieved(tmp_path: Path) -> None:
    terms = {"expected_terms": ["eight", "thirteen"], "overrides": {**CUT, "route.recall_top_k": 1}}
    assert named(tmp_path / "1", [LONG], **terms) == ("term_metric_strict", None, None)
    terms["overrides"] = CUT
    assert named(tmp_path / "2", [LONG], **terms)[0] == "ok"


def test_one_that_got_furthest_decides(tmp_path: Path) -> None:
    both = {"gold": 1, "far": 1}
    documents = [WORSE, {"_id": "far", "text": "no word of it"}, BETTER]
    assert named(tmp_path, documents, relevant=both)[1] == "lost_in_rerank"


def test_evidence_shows_ranks_plans_and_what_is_above(tmp_path: Path) -> None:
    found = world(tmp_path, [WORSE, BETTER]).findings["q"].evidence
    (gold,) = found["gold"]
    assert gold["document_id"] == "gold"
    assert gold["ranks"] == {
        "eagle_text_biomed:bm25": 2,
        "supplement": None,
        "merged": 2,
        "injected": 2,
        "reranked": 2,
        "final": 2,
    }
    assert [row["document_id"] for row in found["above"]] == ["other"]
    assert found["plans"] == [
        {"list": "eagle_text_biomed:bm25", "depth": 100, "hits": 2, "weight": 1.0}
    ]


def test_contributions_add_up_to_the_score(tmp_path: Path) -> None:
    documents = [
        {"_id": "gold", "text": "gefitinib warnings", "name": "card"},
        {"_id": "other", "text": "gefitinib gefitinib", "name": "erlotinib label"},
        {"_id": "salt", "text": "compound", "name": "card", "smiles": "CC"},
    ]
    found: World = world(tmp_path, documents, "gefitinib compound CC(C)C warnings", k=1)
    evidence = found.findings["q"].evidence
    rows = [*evidence["gold"], *evidence.get("above", [])]
    assert rows
    for row in rows:
        assert sum(row["terms"].values()) == pytest.approx(row["score"], abs=1e-8)


# --------------------------------------------------------------------- every small world at once


def small_worlds() -> Iterator[tuple[Pairs, str, bool, bool, list[dict[str, Any]]]]:
    """Every world of up to two relevant units, each in one of a few states."""
    states = [{"indexed": False, "top": False, "near": False, "searched": False, "reach": 0}]
    states += [
        {"indexed": True, "top": top, "near": near, "searched": reach > 0, "reach": reach}
        for top, near in ((True, False), (False, True), (False, False))
        for reach in map(int, Reach)
        if reach >= 0 and (not top or reach == Reach.IN_POOL)
    ]
    for count in range(3):
        for units in product(states, repeat=count):
            for success, covered, possible in product(("any", "all"), (0, 1), (0, 1)):
                if covered and not possible:
                    continue  # what covers all terms covers those that are possible
                pairs = Pairs(
                    np.zeros(count, np.int32),
                    np.array([0 if u["indexed"] else -1 for u in units], np.int32),
                    np.array([u["top"] for u in units], np.bool_),
                    np.array([u["near"] for u in units], np.bool_),
                    np.array([u["searched"] for u in units], np.bool_),
                    np.array([u["reach"] for u in units], np.int32),
                )
                yield pairs, success, bool(covered), bool(possible), list(units)


def test_every_small_world_has_one_class_as_defined() -> None:
    reached = set()
    for pairs, success, covered, possible, units in small_worlds():
        (found,) = classify(1, pairs, success, np.array([covered]), np.array([possible]))  # type: ignore[arg-type]
        reached.add((found.failure, found.subclass))
        relevant, indexed = units, [u for u in units if u["indexed"]]
        hits = [u for u in relevant if u["top"]]
        meets = bool(hits) if success == "any" else len(hits) == len(relevant)
        if not relevant:
            assert found == Verdict(None)
            continue
        assert (found.failure == "ok") == (meets and covered)
        if found.failure == "ok":
            continue
        assert (found.failure == "gold_corpus_gap") == (not indexed)
        if found.failure in ("query_route_gap", "ranking_gap"):
            lost = [u for u in indexed if not u["top"]]
            assert lost
            assert (found.failure == "query_route_gap") == (not any(u["searched"] for u in indexed))
        if found.failure == "term_metric_strict":
            assert hits
            assert not possible
        if found.failure == "gold_over_specified":
            assert possible
            assert hits or found.subclass == "too_fine"
        assert (found.subclass is not None) == (found.failure in SUBCLASSES)
    assert {name for name, _ in reached} == {None, *CLASSES}
    assert {pair for pair in reached if pair[1]} == {
        (name, sub) for name, subs in SUBCLASSES.items() for sub in subs
    }
