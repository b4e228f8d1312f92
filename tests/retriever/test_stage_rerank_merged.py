"""rerank_merged: the formula by hand for every row of weights, fallbacks, floors and policies."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage_worlds import open_world, subscribers_of, understood

from retriever import InputError, Retriever, RetrieverConfig
from retriever.config import InjectConfig
from retriever.encoders.cache import CachedCrossEncoder
from retriever.explain import explain, shown
from retriever.hooks import Candidates, MergedFeatures
from retriever.stages.inject import Injected, inject
from retriever.stages.rerank_merged import rerank_domain, rerank_general
from retriever.types import Floats, Ranking, Reranked, Slots, Supplement

P = "plugins.biomed.rerank_merged"
NOTHING = np.zeros((1, 0))


@dataclass(frozen=True)
class Pool:
    """One query whose chunks stand in the order of their merged scores, slot for slot."""

    slots: Slots
    merged: Ranking
    injected: Injected


def pool_of(scores: Sequence[float], size: int = 100, extra: Sequence[int] = ()) -> Pool:
    """Return a merged list with falling scores; `extra` are slots of the supplement."""
    width = len(scores)
    chunk = np.arange(width, dtype=np.int32)[None]
    rows = np.array([extra], dtype=np.int32).reshape(1, -1)
    slots = Slots((), chunk, (rows,))
    count = int(np.isfinite(scores).sum())
    merged = Ranking(
        chunk,
        np.array([count]),
        np.array([scores]),
        np.where(np.isfinite([scores]), 0, -1),
        NOTHING,
    )
    nothing = np.zeros(rows.shape)
    searched = np.ones((1, 1), dtype=np.bool_)
    found = Supplement(("eagle_text",), rows, np.zeros_like(rows), *(nothing,) * 4, searched)
    section = InjectConfig(rerank_pool=size, min_new=2)
    return Pool(
        slots, merged, inject(section, slots, merged, found, ("eagle_text",), np.array([True]))
    )


def weights_of(**weights: float) -> dict[str, Floats]:
    names = ("ce", "rank", "entity", "section", "xdrug")
    return {name: np.array([weights.get(name, 0.0)]) for name in names}


def features_of(pool: Pool, **features: Sequence[float]) -> dict[str, Floats]:
    width = pool.slots.chunk.shape[1]
    names = ("entity", "section", "xdrug", "floor")
    return {name: np.array([features.get(name, [0.0] * width)]) for name in names}


def reranked(
    pool: Pool,
    weights: Mapping[str, Floats],
    features: Mapping[str, Floats],
    logits: Sequence[float] | None = None,
    failed: bool = False,
    structure: Sequence[float] | None = None,
    floor_weights: tuple[str, ...] = (),
) -> Reranked:
    offered = MergedFeatures(lambda: features, weights, "eagle_chemical", floor_weights)
    return rerank_domain(
        pool.merged,
        pool.injected,
        offered,
        features,
        None if logits is None else (np.array([logits]), np.array([failed])),
        None if structure is None else np.array([structure]),
    )


def finals(found: Reranked) -> list[float]:
    return found.terms["final"][0].tolist()


# --------------------------------------------------------------------------------- the formula


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    documents: list[dict[str, Any]] = [
        {"_id": "a", "text": "Response.", "name": "Gefitinib trial"},
        {"_id": "b", "text": "Response.", "name": "x", "path": "warnings/iressa.pdf"},
        {"_id": "c", "text": "Iressa, afatinib, erlotinib or dacomitinib.", "name": "y"},
        {"_id": "d", "text": "Response to its indications and usage.", "name": "Erlotinib card"},
        {"_id": "e", "text": "Compared with Iressa.", "name": "Erlotinib trial"},
        {"_id": "f", "text": "x " * 101 + "warnings", "name": "late"},
        {"_id": "g", "text": "A gas.", "name": "Ethane card"},
    ]
    folder = tmp_path_factory.mktemp("tier2")
    return open_world(folder, documents, {"index.chunk.max_tokens": None})


def offered_by(world: Retriever, text: str) -> MergedFeatures:
    rows = np.arange(len(world.index.chunks), dtype=np.int32)[None]
    candidates = Candidates(world.index, (text,), understood(world.config, text), rows)
    found = subscribers_of(world.config).one(
        "rerank_merged", "rerank_merged", candidates=candidates
    )
    assert isinstance(found, MergedFeatures)
    return found


# ce_norm 1, .5, 0; entity 1, .75, 0; section .5, 0, 1; xdrug 0, 0, 1, without rank_norm
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # .50 + .25 + .15/2; .50/2 + .25 * .75; .15 - 2
        ("response in lung", [0.825, 0.4375, -1.85]),
        # .30 + .20 + .35/2; .30/2 + .20 * .75; .35 - 2.5
        ("drug label", [0.675, 0.3, -2.15]),
        # .35 + .35 + .10/2; .35/2 + .35 * .75; .10 - 3
        ("gefitinib", [0.75, 0.4375, -2.9]),
        # .25 + .40 + .10/2; .25/2 + .40 * .75; .10 - 3
        ("compound", [0.7, 0.425, -2.9]),
        # .35 + .35 + .10/2; .35/2 + .35 * .75; .10 - 2.5
        ("gefitinib plus erlotinib", [0.75, 0.4375, -2.4]),
    ],
)
@pytest.mark.parametrize("w_rank", [0.0, 1.0])
def test_final_is_the_sum_worked_out_by_hand(
    world: Retriever, text: str, expected: list[float], w_rank: float
) -> None:
    weights = {**offered_by(world, text).weights, "rank": np.array([w_rank])}
    pool = pool_of([0.9, 0.5, 0.1])
    features = features_of(pool, entity=[1, 0.75, 0], section=[0.5, 0, 1], xdrug=[0, 0, 1])
    found = reranked(pool, weights, features, logits=[2.0, 1.0, 0.0])
    # rank_norm is 1, .5, 0
    by_rank = [w_rank, w_rank / 2, 0]
    assert finals(found) == pytest.approx(
        [a + b for a, b in zip(expected, by_rank, strict=True)], abs=1e-12
    )


def test_profile_is_the_workflows_own_when_it_is_configured(world: Retriever) -> None:
    own = {f"{P}.profiles.drug_entity.w_section": 0.9, f"{P}.profiles.default.w_rank": 0.25}
    changed = world.with_config(world.config.with_overrides(own))
    assert offered_by(changed, "gefitinib").weights["section"].tolist() == [0.9]
    assert offered_by(changed, "lung").weights["rank"].tolist() == [0.25]
    assert offered_by(changed, "drug label").weights["section"].tolist() == [0.35]


def test_equal_logits_count_nothing() -> None:
    pool = pool_of([0.9, 0.5])
    found = reranked(pool, weights_of(ce=1.0), features_of(pool), logits=[3.0, 3.0])
    assert found.terms["ce_norm"][0].tolist() == [0.0, 0.0]
    assert found.order[0].tolist() == [0, 1]


def test_cross_encoder_that_is_not_configured_counts_nothing_and_is_no_failure() -> None:
    pool = pool_of([0.9, 0.5])
    found = reranked(pool, weights_of(ce=1.0, rank=0.5), features_of(pool))
    assert finals(found) == [0.5, 0.0]
    assert found.weights["ce"].tolist() == [0.0]
    assert [event.event for event in found.audit] == ["rerank_t2_domain"]


def test_merged_score_stands_in_when_the_cross_encoder_failed() -> None:
    # min-max of .9, .6, .5: 1, .25, 0
    pool = pool_of([0.9, 0.6, 0.5])
    nan = [math.nan] * 3
    found = reranked(pool, weights_of(ce=2.0), features_of(pool), logits=nan, failed=True)
    assert finals(found) == [2.0, 0.5, 0.0]
    assert [event.event for event in found.audit] == ["rerank_t2_domain", "cross_encoder_fallback"]


def test_injected_chunk_has_no_rank_and_leaves_the_scale_alone() -> None:
    # slot 3 is at rank 4 of a pool of 3, so it is injected: the pool is 3, 0, 1
    pool = pool_of([0.9, 0.6, 0.5, 0.1], size=3, extra=[3])
    found = reranked(pool, weights_of(rank=1.0), features_of(pool))
    # .9 and .6 alone make the scale
    assert found.terms["rank_norm"][0].tolist() == [
        1.0,
        0.0,
        pytest.approx(math.nan, nan_ok=True),
        0,
    ]
    # 3 and 1 have the same score: the order before decides; 2 is outside and follows
    assert found.order[0].tolist() == [0, 3, 1, 2]


def test_chunks_outside_the_pool_follow_in_merged_order_whatever_they_score() -> None:
    pool = pool_of([0.9, 0.8, 0.7, 0.6], size=2)
    features = features_of(pool, entity=[0, 1, 1, 1])
    found = reranked(pool, weights_of(entity=1.0), features)
    assert found.order[0].tolist() == [1, 0, 2, 3]
    assert np.isnan(found.terms["entity"][0, 2:]).all()


quarters = st.integers(0, 4).map(lambda n: n / 4)


@settings(max_examples=40, deadline=None)
@given(
    chunks=st.lists(st.tuples(quarters, quarters, st.booleans()), min_size=1, max_size=7),
    penalties=st.tuples(quarters, quarters).map(sorted),
)
def test_penalty_never_helps_a_chunk_of_another_drug(
    chunks: list[tuple[float, float, bool]], penalties: list[float]
) -> None:
    pool = pool_of(np.linspace(1, 0.5, len(chunks)).tolist())
    entity, section, wrong = zip(*chunks, strict=True)
    features = features_of(pool, entity=entity, section=section, xdrug=[float(x) for x in wrong])
    places = []
    for penalty in penalties:
        weights = weights_of(entity=0.5, section=0.25, rank=0.3, xdrug=-penalty)
        places.append(np.argsort(reranked(pool, weights, features).order[0]))
    assert (places[1] >= places[0])[list(wrong)].all()


# ------------------------------------------------------------------------------------- floors


@pytest.mark.parametrize(
    ("floor_weights", "expected"),
    [
        # .565685 * (.25 + 1 + .40 + .10) = .565685 * 1.75 = .98994875
        (("ce", "rank", "entity", "section"), 0.98994875),
        ((), 0.565685),
    ],
)
def test_floor_lifts_a_chunk_to_its_structures_cosine(
    floor_weights: tuple[str, ...], expected: float
) -> None:
    pool = pool_of([0.9, 0.1, 0.1])
    weights = weights_of(ce=0.25, rank=1.0, entity=0.4, section=0.1, xdrug=-3.0)
    features = features_of(pool, floor=[1, 1, 0], xdrug=[0, 1, 1])
    found = reranked(
        pool,
        weights,
        features,
        logits=[1.0, 0.0, 0.0],
        structure=[math.nan, 0.565685, 0.9],
        floor_weights=floor_weights,
    )
    # 0: .25 + 1, without a structure; 1: at least the floor, its penalty -3 notwithstanding;
    # 2: no floor, since neither drug nor structure of the query's own carries it
    assert finals(found) == pytest.approx([1.25, expected, -3.0], abs=1e-12)


def test_floor_never_lowers_a_score() -> None:
    pool = pool_of([0.9])
    features = features_of(pool, entity=[1], floor=[1])
    found = reranked(pool, weights_of(entity=0.7), features, structure=[0.2])
    assert finals(found) == [0.7]


@pytest.mark.parametrize(
    ("floor", "expected"),
    # no cross-encoder: w_ce counts 0, so the weights add up to .1 + .4 + .1; the card's own sum is
    # at most .1 (rank) + .1 (its section is the cue `compound`)
    [("weighted", 0.6), ("bare", 1.0)],
)
def test_structure_carries_its_card_when_the_query_writes_it(
    tmp_path: Path, floor: str, expected: float
) -> None:
    documents = [
        {"_id": "p", "text": "some card", "smiles": "CC(=O)[O-].[Na+]"},
        {"_id": "q", "text": "ligand CC of interest"},
    ]
    sets = {f"{P}.chemical_floor": floor, f"{P}.profiles.chemical.w_rank": 0.1}
    world = open_world(tmp_path, documents, sets)
    found = explain(world, world.trace(["ligand CC(=O)O"]))
    (card,) = (hit for hit in found["reranked"] if hit["chunk_id"] == "p#compound")
    assert (card["structure"], card["final"]) == (1.0, expected)


# ----------------------------------------------------------------------- the plugin's features


def feature(world: Retriever, text: str, name: str) -> list[float]:
    return [round(float(x), 6) for x in offered_by(world, text).features()[name][0]]


def test_entity_is_one_three_quarters_or_nothing(world: Retriever) -> None:
    # a: about it; b: in its path; c: in its head; d, g: another; e: in its head; f: none
    assert feature(world, "gefitinib", "entity") == [1, 0.75, 0.75, 0, 0.75, 0, 0]
    assert feature(world, "Iressa", "entity") == feature(world, "gefitinib", "entity")


def test_entity_looks_for_related_drugs_when_the_query_has_none(world: Retriever) -> None:
    # EGFR: afatinib, erlotinib, gefitinib, dacomitinib, amlodipine
    assert feature(world, "EGFR", "entity") == [1, 0.75, 0.75, 1, 1, 0, 0]
    assert feature(world, "EGFR and gefitinib", "entity") == [1, 0.75, 0.75, 0, 0.75, 0, 0]


def test_xdrug_marks_chunks_of_other_drugs_that_never_name_the_querys(world: Retriever) -> None:
    assert feature(world, "gefitinib", "xdrug") == [0, 0, 0, 1, 0, 0, 1]
    assert feature(world, "Tarceva", "xdrug") == [1, 0, 0, 0, 0, 0, 1]
    # matched drugs only, never related ones; without a drug nothing
    assert feature(world, "EGFR", "xdrug") == [0] * 7


def test_section_is_the_share_of_cues_found(world: Retriever) -> None:
    # b: `warnings` in its path; d: `indications and usage` in its summary; f: `warnings` begins
    # after 202 characters, past the summary
    assert feature(world, "warnings", "section") == [0, 1, 0, 0, 0, 0, 0]
    assert feature(world, "warnings and usage", "section") == [0, 0.5, 0, 0.5, 0, 0, 0]
    assert feature(world, "lung", "section") == [0] * 7


def test_floor_is_for_chemical_queries_with_a_structure(world: Retriever) -> None:
    assert feature(world, "ligand CC(=O)O", "floor") == [1] * 7
    # ethane's structure is the lexicon's, so a chunk needs the drug as well: g has it
    assert feature(world, "ethane compound", "floor") == [0, 0, 0, 0, 0, 0, 1]
    assert feature(world, "gefitinib compound", "floor") == [0] * 7
    assert feature(world, "ethane", "floor") == [0] * 7


# ------------------------------------------------------------------- cross-encoders and policies

Logits = Callable[[str, Sequence[str]], Any]


@dataclass(frozen=True)
class StandInCrossEncoder:
    """A stand-in: a function in place of a model."""

    function: Logits
    name: str = "stand-in-cross-encoder"
    fingerprint: str = "stand-in"

    def logits(self, query: str, texts: Sequence[str]) -> Any:
        return self.function(query, texts)


def shortest(query: str, texts: Sequence[str]) -> Any:
    return np.array([-float(len(text)) for text in texts])


def with_cross(world: Retriever, policy: str, function: Logits, **sets: object) -> Retriever:
    """The same world with a stand-in for the policy's cross-encoder."""
    from retriever.memo import Memo
    from retriever.pipeline import Pipeline

    pipeline = world._pipeline
    rerankers = {policy: CachedCrossEncoder(StandInCrossEncoder(function), None)}
    config = world.config.with_overrides({k.replace("__", "."): v for k, v in sets.items()})
    return Retriever(Pipeline(pipeline.index, pipeline.encoders, rerankers, Memo()), config)


def raises(query: str, texts: Sequence[str]) -> Any:
    raise RuntimeError("out of memory")


FAULTS: dict[str, Logits] = {
    "raises": raises,
    "one too few": lambda query, texts: np.zeros(len(texts) - 1),
    "two a pair": lambda query, texts: np.zeros((len(texts), 2)),
    "NaN": lambda query, texts: np.array([math.nan] + [0.0] * (len(texts) - 1)),
    "infinite": lambda query, texts: np.array([math.inf] + [0.0] * (len(texts) - 1)),
    "None": lambda query, texts: None,
}


@pytest.mark.parametrize("fault", list(FAULTS))
@pytest.mark.parametrize("policy", ["domain", "general"])
def test_failure_falls_back_for_that_query_alone(world: Retriever, policy: str, fault: str) -> None:
    def sometimes(query: str, texts: Sequence[str]) -> Any:
        return (FAULTS[fault] if query == "bad response" else shortest)(query, texts)

    cross = with_cross(world, policy, sometimes, rerank_merged__rerank_policy=policy)
    trace = cross.trace(["good response", "bad response", "gefitinib"])
    (event,) = (e for e in trace.audit if e.event == "cross_encoder_fallback")
    assert event.where.tolist() == [False, True, False]
    whole = with_cross(world, policy, shortest, rerank_merged__rerank_policy=policy)
    alone = whole.trace(["good response", "gefitinib"])
    for row, place in ((0, 0), (2, 1)):
        order = trace.final.order[row, : trace.final.count[row]]
        other = alone.final.order[place, : alone.final.count[place]]
        rows, others = trace.slots.chunk[row, order], alone.slots.chunk[place, other]
        assert rows.tolist() == others.tolist()
    if policy == "general":
        assert trace.final.order[1].tolist() == trace.injected.order[1].tolist()
    else:
        norm = trace.final.terms
        assert norm["ce_norm"][1].tolist() == norm["rank_norm"][1].tolist()
        assert norm["ce_norm"][0].tolist() != norm["rank_norm"][0].tolist()


def test_model_that_cannot_be_loaded_is_an_error_and_no_fallback(world: Retriever) -> None:
    def unloadable(query: str, texts: Sequence[str]) -> Any:
        raise InputError("the model cannot be loaded")

    with pytest.raises(InputError, match="cannot be loaded"):
        with_cross(world, "domain", unloadable).trace(["gefitinib"])


def events_of(retriever: Retriever, text: str = "response") -> list[str]:
    return [e.event for e in retriever.trace([text]).audit if e.stage == "rerank_merged"]


@pytest.mark.parametrize(
    ("policy", "served", "event"),
    [
        (None, "domain", "rerank_t2_domain"),
        (None, "general", "rerank_t2_domain"),  # unset, with a subscriber
        ("domain", "domain", "rerank_t2_domain"),
        ("general", "general", "rerank_t2_general"),
        ("general", "domain", "rerank_t2_passthrough"),  # none is configured for it
        ("none", "general", "rerank_t2_passthrough"),
    ],
)
def test_policy_decides(world: Retriever, policy: str | None, served: str, event: str) -> None:
    cross = with_cross(world, served, shortest, rerank_merged__rerank_policy=policy)
    assert events_of(cross) == [event]


def test_policy_is_general_when_it_is_unset_and_no_plugin_speaks(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    from worlds import HashedWords, write_corpus

    from retriever import build_index

    folder = tmp_path_factory.mktemp("general")
    texts = {"d1": "dose of a drug", "d2": "dose", "d3": "the dose and more"}
    config, encoders = RetrieverConfig(namespace="general"), {"eagle_text": HashedWords()}
    build_index(write_corpus(folder / "c", texts), folder / "i", config, encoders=encoders)
    cross: Any = {"general": StandInCrossEncoder(shortest)}
    served = Retriever.open(folder / "i", config, encoders=encoders, rerankers=cross)
    assert events_of(served) == ["rerank_t2_general"]
    # by length of text
    assert [hit.document_id for hit in served.search("dose").hits] == ["d2", "d1", "d3"]
    bare = Retriever.open(folder / "i", config, encoders=encoders, rerankers={})
    assert events_of(bare) == ["rerank_t2_passthrough"]
    domain = config.with_overrides({"rerank_merged.rerank_policy": "domain"})
    with pytest.raises(InputError, match="no plugin of the namespace general"):
        served.with_config(domain).search("dose")


def test_general_order_is_the_cross_encoders_and_the_rest_follows() -> None:
    pool = pool_of([0.9, 0.8, 0.7, 0.6], size=3)
    logits = np.array([[0.1, 0.3, 0.2, math.nan]])
    found = rerank_general(pool.merged, pool.injected, (logits, np.array([False])))
    assert found.order[0].tolist() == [1, 2, 0, 3]


def test_pass_through_leaves_the_order_of_the_injected_list(world: Retriever) -> None:
    sets = {"rerank_merged.rerank_policy": "none", "route.recall_top_k": 1}
    trace = world.with_config(world.config.with_overrides(sets)).trace(["gefitinib lung"])
    assert trace.final.order.tolist() == trace.injected.order.tolist()
    assert trace.final.terms == {}


@pytest.mark.parametrize("policy", ["none", None])
def test_shown_score_is_a_number_when_no_list_brought_an_injected_chunk(
    world: Retriever, policy: str | None
) -> None:
    sets = {"rerank_merged.rerank_policy": policy, "route.recall_top_k": 1, "inject.rerank_pool": 1}
    shallow = world.with_config(world.config.with_overrides(sets))
    trace = shallow.trace(["Compared with Iressa"])
    assert (trace.injected.injected & ~np.isfinite(trace.merged.score)).any()
    scores = [hit["score"] for hit in shown(shallow.search("Compared with Iressa"))["results"]]
    assert len(scores) > 1
    assert all(math.isfinite(score) for score in scores)
