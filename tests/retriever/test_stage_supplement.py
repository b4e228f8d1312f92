"""supplement: score, limit and turns by hand; which documents the query's drugs name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stage_worlds import open_world, subscribers_of, understood

from retriever import Query, Retriever
from retriever.hooks import SupplementPlan
from retriever.stages.recall import Encoded
from retriever.stages.scope import Allowed
from retriever.stages.supplement import supplement
from retriever.types import Scope, Supplement

TEXT, CHEMICAL = "eagle_text_biomed", "eagle_chemical"
EVERYWHERE = Allowed((None,), ((),))


def planned(world: Retriever, text: str) -> SupplementPlan | None:
    found = subscribers_of(world.config).every(
        "retrieve_supplement",
        "supplement",
        texts=(text,),
        assemblies=understood(world.config, text),
        index=world.index,
    )
    return found[0][1][0]


def supplemented(
    world: Retriever,
    text: str,
    boosts: Mapping[str, float],
    collections: Sequence[str] = (TEXT,),
    terms: Mapping[str, tuple[str, ...]] | None = None,
    documents: Sequence[str] | None = None,
    encoded: Mapping[str, Encoded] | None = None,
    top: int = 100,
) -> Supplement:
    """The supplement of a plan made by hand: boosts by document."""
    index = world.index

    def entity(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.array([boosts.get(index.chunks.value("document_id", r), 0.0) for r in rows])

    ids = tuple(boosts) if documents is None else tuple(documents)
    plan = SupplementPlan(ids, tuple(collections), terms or {}, entity)
    return supplement(index, [text], [plan], encoded or {}, EVERYWHERE, top)


def chunks_of(world: Retriever, found: Supplement) -> list[str]:
    return [world.index.chunks.value("chunk_id", row) for row in found.rows[0] if row >= 0]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    documents: list[dict[str, Any]] = [
        {"_id": "a", "text": "gefitinib dose", "name": "Gefitinib label"},
        {"_id": "b", "text": "lung dose rising", "name": "iressa trial", "smiles": "CC"},
        {"_id": "c", "text": "lung", "name": "Erlotinib card", "smiles": "CCC"},
        {"_id": "d", "text": "lung", "name": "erlotinibine notes"},
        {"_id": "e", "text": "lung", "name": "afatinib card"},
        {"_id": "f", "text": "lung", "name": "dacomitinib card"},
        {"_id": "g", "text": "lung", "name": "Norvasc card"},
        {"_id": "h", "text": "lung", "name": "ethane card", "smiles": "CC"},
    ]
    return open_world(tmp_path_factory.mktemp("supplement"), documents)


def test_score_is_worked_out_by_hand(world: Retriever) -> None:
    vectors = world.index.collections[TEXT].dense.vectors
    rows = world.index.collections[TEXT].rows.tolist()
    ids = [world.index.chunks.value("document_id", row) for row in rows]
    # The query's vector is that of document a: cosine 1, so dense 1.
    own = np.array(vectors[[ids.index("a")]])
    with_b = float(np.round(own[0].astype(float) @ vectors[ids.index("b")].astype(float), 6))
    encoded = {TEXT: Encoded(own, np.zeros(1, dtype=np.int32))}
    boosts = {"a": 0.5, "b": 1.0}
    terms = {"gefitinib": ("gefitinib", "Iressa")}
    found = supplemented(world, "dose", boosts, terms=terms, encoded=encoded)
    # terms: dose, gefitinib. a: 2 * .5 + 2/2 + .1 * 1 = 2.1; b: 2 * 1 + 1/2 + .1 dense
    assert chunks_of(world, found) == ["b#0000", "a#0000"]
    assert found.score[0].tolist() == [
        pytest.approx(2.5 + 0.1 * (1 + with_b) / 2, abs=1e-9),
        pytest.approx(2.1, abs=1e-6),
    ]
    assert (found.entity[0].tolist(), found.lexical[0].tolist()) == ([1.0, 0.5], [0.5, 1.0])


def test_dense_counts_nothing_when_there_is_no_vector(world: Retriever) -> None:
    none = {TEXT: Encoded(np.zeros((0, 0), np.float32), np.zeros(0, np.int32))}
    found = supplemented(world, "dose", {"a": 1.0}, encoded=none)
    assert (found.dense[0].tolist(), found.score[0].tolist()) == ([0.0], [3.0])


def test_words_of_the_query_count_in_chemistry_too(world: Retriever) -> None:
    # b's card holds dose and rising, c's holds neither
    found = supplemented(world, "dose rising", {"b": 1.0, "c": 1.0}, (CHEMICAL,))
    assert chunks_of(world, found) == ["b#compound", "c#compound"]
    assert found.lexical[0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("documents", "top", "expected"),
    [
        (1, 100, 8),  # max(4 * 1, 8)
        (2, 100, 8),
        (3, 100, 12),  # 4 * 3
        (3, 5, 5),  # min(5, 12)
    ],
)
def test_limit_follows_the_number_of_documents(
    tmp_path: Path, documents: int, top: int, expected: int
) -> None:
    long = " ".join(f"Sentence {i} about dose and lung." for i in range(40))
    world = open_world(
        tmp_path,
        [{"_id": f"d{i}", "text": long} for i in range(documents)],
        {"index.chunk.max_tokens": 16, "index.chunk.overlap": 0},
    )
    found = supplemented(world, "dose", {f"d{i}": 1.0 for i in range(documents)}, top=top)
    assert len(chunks_of(world, found)) == expected


def test_collections_take_turns_in_the_order_of_the_plan(world: Retriever) -> None:
    boosts = {"a": 1.0, "b": 0.5, "c": 0.0, "h": 0.5}
    found = supplemented(world, "zzz", boosts, (TEXT, CHEMICAL))
    # text by boost: a, b, h, c; chemistry: b, h, c (equal scores in order of id)
    assert chunks_of(world, found) == [
        "a#0000",
        "b#compound",
        "b#0000",
        "h#compound",
        "h#0000",
        "c#compound",
        "c#0000",
    ]
    names = [found.collections[at] for at in found.collection[0]]
    assert names[:3] == [TEXT, CHEMICAL, TEXT]


def test_collection_is_passed_over_when_the_index_lacks_it(world: Retriever) -> None:
    found = supplemented(world, "dose", {"a": 1.0}, ("eagle_visual", TEXT))
    assert chunks_of(world, found) == ["a#0000"]


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("Iressa dose", ("a", "b")),  # any name of the drug, in any case
        ("erlotinib", ("c",)),  # not inside a longer word
        ("amlodipine", ("g",)),
        ("erlotinib or gefitinib", ("c", "a", "b")),
        ("gefitinib for EGFR", ("a", "b")),  # related drugs are not asked when there is a drug
        # the first entity's related drugs, four at most: afatinib, erlotinib, gefitinib,
        # dacomitinib, and no amlodipine
        ("EGFR in lung", ("e", "c", "a", "b", "f")),
    ],
)
def test_documents_are_those_that_the_drugs_name(
    world: Retriever, text: str, documents: tuple[str, ...]
) -> None:
    plan = planned(world, text)
    assert plan is not None
    assert plan.document_ids == documents


@pytest.mark.parametrize("text", ["TP53 and EGFR", "lung", "50%_mix", "zzz"])
def test_there_is_no_supplement_when_no_drug_names_a_document(world: Retriever, text: str) -> None:
    # TP53, the first entity, has no related drugs
    assert planned(world, text) is None


@pytest.mark.parametrize(
    ("text", "collections"),
    [
        ("gefitinib", (TEXT, CHEMICAL)),
        ("gefitinib compound", (CHEMICAL,)),
        ("gefitinib drug label", (TEXT,)),  # suppressed
    ],
)
def test_collections_follow_the_intent(
    world: Retriever, text: str, collections: tuple[str, ...]
) -> None:
    plan = planned(world, text)
    assert plan is not None
    assert plan.collections == collections


def test_supplement_uses_the_expanded_text(world: Retriever) -> None:
    trace = world.trace(["gefitinib"])
    bare = world.config.with_overrides({"plugins.biomed.expand.expand_collections": []})
    raw = world.with_config(bare).trace(["gefitinib"])
    assert trace.supplement.rows[0].tolist() == raw.supplement.rows[0].tolist()
    at = trace.supplement.collections.index(TEXT)
    text = trace.supplement.collection[0] == at
    assert (trace.supplement.dense[0, text] != raw.supplement.dense[0, text]).all()


def test_supplement_is_no_list_of_the_merge(world: Retriever) -> None:
    config = world.config.with_overrides({"inject.min_new": 0, "route.recall_top_k": 1})
    trace = world.with_config(config).trace(["Iressa and lung"])
    supplement_slots = set(trace.slots.pointer[-1][0].tolist())
    retrieved = set(trace.merged.order[0, : trace.merged.count[0]].tolist())
    assert supplement_slots - retrieved
    assert set(trace.final.order[0, : trace.final.count[0]].tolist()) == retrieved


def test_supplement_is_off_when_its_switch_is(world: Retriever) -> None:
    off = world.config.with_overrides({"plugins.biomed.supplement.enabled": False})
    trace = world.with_config(off).trace(["gefitinib"])
    assert trace.supplement.rows.shape == (1, 0)


def test_supplement_stays_in_the_scope(world: Retriever) -> None:
    trace = world.trace([Query("gefitinib", scope=Scope(document_ids=("b", "c")))])
    assert {c.partition("#")[0] for c in chunks_of(world, trace.supplement)} == {"b"}
