"""rerank_plan: replace, blend and off by hand; the entity filter; structures."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stage_worlds import open_world, subscribers_of, understood

from retriever import Retriever
from retriever.biomed.lexicon import load_lexicon
from retriever.biomed.mentions import Mentions
from retriever.config import RerankPlanConfig
from retriever.explain import explain
from retriever.hooks import Candidates
from retriever.pipeline import Trace
from retriever.stages.rerank_plan import rerank_plan
from retriever.types import ListId, RankedList

DENSE = ListId("eagle_text_biomed", "dense")
CHEMICAL = ListId("eagle_chemical", "dense")


def reranked(
    mode: str,
    cosine: list[float] | None,
    keep: list[bool] | None = None,
    scores: tuple[float, ...] = (0.9, 0.8, 0.7),
) -> RankedList:
    rank = np.arange(1, len(scores) + 1, dtype=np.int32)[None]
    return rerank_plan(
        RerankPlanConfig(mode=mode, w=0.25),  # type: ignore[arg-type]
        RankedList(DENSE, rank, np.array([scores])),
        None if cosine is None else np.array([cosine]),
        None if keep is None else np.array([keep]),
    )


def test_replace_orders_by_the_cosine_alone() -> None:
    # (1 + cosine) / 2
    found = reranked("replace", [0.0, 0.6, 0.2])
    assert found.score[0].tolist() == [0.5, 0.8, 0.6]
    assert found.rank[0].tolist() == [3, 1, 2]


def test_blend_is_the_weighted_sum_of_dense_and_combined() -> None:
    # w .25: .25 * .5 + .75 * .9 = .8; .25 * .8 + .75 * .8 = .8; .25 * 1 + .75 * .7 = .775
    found = reranked("blend", [0.0, 0.6, 1.0])
    assert found.score[0].tolist() == [0.8, 0.8, 0.775]
    # the tie goes to the better rank before
    assert found.rank[0].tolist() == [1, 2, 3]


def test_off_leaves_order_and_scores() -> None:
    found = reranked("off", [0.0, 0.6, 0.2])
    assert (found.rank[0].tolist(), found.score[0].tolist()) == ([1, 2, 3], [0.9, 0.8, 0.7])


@pytest.mark.parametrize("mode", ["off", "replace", "blend"])
def test_filter_keeps_its_chunks_in_every_mode(mode: str) -> None:
    found = reranked(mode, [0.0, 0.6, 0.2], keep=[True, False, True])
    assert (found.rank[0] > 0).tolist() == [True, False, True]
    assert sorted(found.rank[0].tolist()) == [0, 1, 2]


@pytest.mark.parametrize("mode", ["off", "replace"])
def test_filtered_places_keep_the_rank_they_had(mode: str) -> None:
    found = reranked(mode, [0.0, 0.6, 0.2], keep=[True, False, False])
    assert found.rank[0].tolist() == [1, 0, 0]
    assert found.filtered is not None
    assert found.filtered[0].tolist() == [0, 2, 3]
    assert reranked(mode, [0.0, 0.6, 0.2]).filtered is None


@pytest.mark.parametrize("mode", ["off", "replace"])
def test_filter_keeps_all_when_nothing_would_be_left(mode: str) -> None:
    kept = reranked(mode, [0.0, 0.6, 0.2], keep=[False] * 3)
    assert kept.filtered is not None
    assert not kept.filtered.any()
    assert kept.rank[0].tolist() == reranked(mode, [0.0, 0.6, 0.2]).rank[0].tolist()


def test_filter_looks_at_the_list_alone_when_a_place_was_cut_off() -> None:
    # only a place that the cut left out would be kept: so all stay
    rank = np.array([[1, 2, 0]], dtype=np.int32)
    one = RankedList(DENSE, rank, np.array([[0.9, 0.8, 0.7]]))
    found = rerank_plan(RerankPlanConfig(), one, None, np.array([[False, False, True]]))
    assert found.rank[0].tolist() == [1, 2, 0]


# replace: 0 and .05; blend: .25 * 0 + .75 * .8 = .6 and .25 * .05 + .75 * .7 = .5375
@pytest.mark.parametrize(("mode", "expected"), [("replace", [3, 2, 1]), ("blend", [3, 1, 2])])
def test_chunk_without_a_vector_comes_last_and_has_no_score(mode: str, expected: list[int]) -> None:
    found = reranked(mode, [math.nan, -1.0, -0.9])
    assert found.rank[0].tolist() == expected
    assert np.isnan(found.score[0, 0])
    assert np.isnan(found.parts["tier1"][0, 0])


# ------------------------------------------------------------------------ the plugin's filter

DOCUMENTS: list[dict[str, Any]] = [
    {"_id": "a", "text": "Response in lung cancer.", "name": "Gefitinib trial"},
    {"_id": "b", "text": "Response in lung cancer.", "path": "labels/iressa.pdf", "name": "x"},
    {"_id": "c", "text": "Given Iressa, afatinib, erlotinib or dacomitinib.", "name": "y"},
    {"_id": "d", "text": "word " * 103 + "gefitinib afatinib erlotinib", "name": "late"},
    {"_id": "e", "text": "Response in lung cancer.", "name": "Erlotinib trial"},
]
ROWS = np.arange(5, dtype=np.int32)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    folder = tmp_path_factory.mktemp("tier1")
    return open_world(folder, DOCUMENTS, {"index.chunk.max_tokens": None})


def lexicon_of(world: Retriever) -> Any:
    return load_lexicon(world.config.plugins["biomed"].lexicon.path)


def test_entity_boost_is_one_half_or_nothing(world: Retriever) -> None:
    # a: in its name, so primary; b: in its path only (its alias); c: in the head only; d: in its
    # text after 515 characters, one of three drugs; e: another drug
    mentions = Mentions.of(world.index, lexicon_of(world))
    assert mentions.entity_boost(["gefitinib"], ROWS).tolist() == [1.0, 0.5, 0, 0, 0]
    assert mentions.marked("head", ["gefitinib"], ROWS).tolist() == [
        False,
        False,
        True,
        False,
        False,
    ]


def kept(world: Retriever, text: str, collection: ListId = DENSE) -> list[bool] | None:
    subscribers = subscribers_of(world.config)
    candidates = Candidates(world.index, (text,), understood(world.config, text), ROWS[None])
    answer = subscribers.one("rerank", "rerank_plan", item=collection, candidates=candidates)
    return None if answer is None or answer.keep is None else answer.keep[0].tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gefitinib", [True, True, True, False, False]),
        ("gefitinib warnings", [True, True, True, False, False]),  # cues do not pass the filter
        ("Iressa or Tarceva", [True, True, True, False, True]),
        ("EGFR in lung", [True] * 5),  # no drug: related drugs do not filter
        ("drug label of EGFR", [True] * 5),  # an entity is asked for, and no drug given
        ("response", [True] * 5),
    ],
)
def test_filter_keeps_chunks_of_the_query_drugs(
    world: Retriever, text: str, expected: list[bool]
) -> None:
    assert kept(world, text) == expected


def test_filter_is_off_when_its_switch_is(world: Retriever, tmp_path: Path) -> None:
    off = world.config.with_overrides({"plugins.biomed.rerank_plan.entity_filter": False})
    assert kept(world.with_config(off), "gefitinib") is None


def test_explanation_lists_what_the_filter_took_out(world: Retriever) -> None:
    explained = explain(world, world.trace(["gefitinib in lung cancer"]))
    (plan,) = (
        p
        for p in explained["plans"]
        if (p["collection"], p["search"]) == ("eagle_text_biomed", "dense")
    )
    assert {hit["source_chunk_id"][0] for hit in plan["hits"]} == set("abc")
    assert {hit["source_chunk_id"][0] for hit in plan["filtered"]} == set("de")
    places = [hit["rank"] for hit in plan["filtered"]]
    assert places == sorted(places)
    assert {1, 2, 3} <= {hit["rank"] for hit in plan["hits"]}
    assert all(hit["dense"] is not None for hit in plan["filtered"])


def test_other_lists_pass(world: Retriever) -> None:
    assert kept(world, "gefitinib", ListId("eagle_text", "dense")) is None
    assert kept(world, "gefitinib", ListId("eagle_text_biomed", "bm25")) is None


def dense_list(trace: Trace, item: ListId) -> tuple[list[int], list[float]]:
    at = trace.slots.lists.index(item)
    rank = trace.lists[at].rank[0]
    member = np.flatnonzero(rank > 0)
    order = member[np.argsort(rank[member])]
    return trace.found[at].rows[0, order].tolist(), trace.lists[at].score[0, order].tolist()


@pytest.mark.parametrize(("mode", "moved"), [("replace", False), ("off", True)])
def test_alpha_has_no_effect_when_tier_1_replaces(world: Retriever, mode: str, moved: bool) -> None:
    base = {
        "rerank_plan.mode": mode,
        "route.bm25_search": False,
        "plugins.biomed.route.mode": "text",
    }
    lists = [
        dense_list(
            world.with_config(world.config.with_overrides({**base, "fuse.alpha": alpha})).trace(
                ["lung cancer response"]
            ),
            DENSE,
        )
        for alpha in (0.0, 0.5, 1.0)
    ]
    assert (lists[0] != lists[1] or lists[1] != lists[2]) is moved


def test_tier_1_compares_the_raw_query_when_the_dense_text_was_expanded(world: Retriever) -> None:
    config = world.config.with_overrides({"rerank_plan.mode": "replace"})
    replaced = dense_list(world.with_config(config).trace(["EGFR lung"]), DENSE)
    bare = world.config.with_overrides({"plugins.biomed.expand.expand_collections": []})
    raw = dense_list(world.with_config(bare).trace(["EGFR lung"]), DENSE)
    assert replaced == raw
    assert dense_list(world.trace(["EGFR lung"]), DENSE)[1] != raw[1]


def test_tier_1_reads_the_first_2048_characters_of_a_chunk(tmp_path: Path) -> None:
    # Both begin alike; what follows character 2,048 must not tell them apart. `abcdefg ` is 8
    # characters, and 256 of them are 2,048.
    head = "abcdefg " * 256
    documents = [{"_id": "m", "text": head + "lung " * 200}, {"_id": "n", "text": head.strip()}]
    overrides = {"index.chunk.max_tokens": None, "rerank_plan.mode": "replace"}
    world = open_world(tmp_path, documents, overrides)
    _, scores = dense_list(world.trace(["lung"]), DENSE)
    assert scores[0] == scores[1]
    off = world.config.with_overrides({"rerank_plan.mode": "off"})
    _, scores = dense_list(world.with_config(off).trace(["lung"]), DENSE)
    assert scores[0] != scores[1]


def test_structures_are_compared_and_never_prose(tmp_path: Path) -> None:
    documents = [
        {"_id": "p", "text": "propane card", "smiles": "CCC"},
        {"_id": "e", "text": "some gas card", "smiles": "CC.[Na+]"},
        {"_id": "n", "text": "ethane prose without a structure"},
    ]
    overrides = {
        "rerank_plan.mode": "replace",
        "plugins.biomed.rerank_plan.entity_filter": False,
    }
    world = open_world(tmp_path, documents, overrides)
    chunks, scores = dense_list(world.trace(["ethane gas"]), CHEMICAL)
    ids = [world.index.chunks.value("chunk_id", row) for row in chunks]
    # The salt's parent is ethane: 1. Ethane and propane share CH3 alone, 2 * 2 / (sqrt 5 sqrt 10)
    # = .565685; dense = (1 + cosine) / 2 = .7828425
    assert ids == ["e#compound", "p#compound"]
    assert scores == pytest.approx([1.0, 0.7828425], abs=1e-9)
    # a drug without a structure makes no chemical vector
    assert dense_list(world.trace(["gefitinib compound"]), CHEMICAL) == ([], [])
