"""scope: what a query may find, through every search of the pipeline."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stage_worlds import open_world

from retriever import Query, Retriever
from retriever.pipeline import Trace
from retriever.types import Scope

LONG = " ".join(f"Sentence {i} about dose and lung." for i in range(12))
DOCUMENTS: list[dict[str, Any]] = [
    {"_id": "a1", "text": "gefitinib dose", "name": "Gefitinib label", "kb_name": "one"},
    {"_id": "a2", "text": "gefitinib lung", "name": "Gefitinib trial", "kb_name": "two"},
    {"_id": "b1", "text": "lung dose", "name": "50%_mix leaflet", "kb_name": "one", "tags": ["x"]},
    {"_id": "b2", "text": "lung dose", "name": "50 a mix leaflet", "kb_name": "two", "tags": ["x"]},
    {"_id": "c1", "text": "dose of ethane", "name": "ethane", "smiles": "CC", "tags": ["y"]},
    {"_id": "g1", "text": "annual dose report", "name": "report", "domain": "general"},
    {"_id": "p1", "text": LONG, "name": "long one", "tags": ["y"]},
    {"_id": "p2", "text": LONG, "name": "other long one"},
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    overrides = {
        "index.chunk.max_tokens": 32,
        "index.chunk.overlap": 0,
        "plugins.biomed.route.default_dual_text_search": False,
        "trim.final_top_k": 50,
    }
    return open_world(tmp_path_factory.mktemp("scoped"), DOCUMENTS, overrides)


def traced(
    world: Retriever, text: str, scope: Scope, overrides: dict[str, object] | None = None
) -> Trace:
    config = world.config.with_overrides(overrides or {})
    return world.with_config(config).trace([Query(text, scope=scope)])


def documents_of(world: Retriever, rows: np.ndarray[Any, Any]) -> set[str]:
    return {world.index.chunks.value("document_id", row) for row in rows.ravel() if row >= 0}


@pytest.mark.parametrize(
    ("scope", "inside"),
    [
        (Scope(kb_names=("one", "two")), {"a1", "a2", "b1", "b2"}),  # OR within a kind
        (Scope(kb_names=("one",), tags=("x",)), {"b1"}),  # AND across kinds
        (Scope(document_ids=("a1", "p1"), tags=("y", "x")), {"p1"}),
        (Scope(tags=("y",)), {"c1", "p1"}),
    ],
)
def test_every_search_stays_inside_when_a_scope_is_given(
    world: Retriever, scope: Scope, inside: set[str]
) -> None:
    parents = {"route.parent_doc_retrieval": True, "route.recall_top_k": 3}
    for text in ("dose in lung", "gefitinib dose", "ethane compound"):
        trace = traced(world, text, scope, parents)
        for item, found in zip(trace.slots.lists, trace.found, strict=True):
            assert documents_of(world, found.rows) <= inside, item
        assert documents_of(world, trace.supplement.rows) <= inside
        assert documents_of(world, trace.slots.chunk) <= inside
    everything = traced(world, "dose in lung", scope)
    assert documents_of(world, everything.shown) == inside


def test_parents_are_added_inside_the_scope_when_switched_on(world: Retriever) -> None:
    on = {"route.parent_doc_retrieval": True, "route.recall_top_k": 1, "route.bm25_search": False}
    trace = traced(world, "dose in lung", Scope(document_ids=("p1",)), on)
    (one,) = (x for x in trace.lists if str(x.item) == "eagle_text_biomed:dense")
    assert 2 <= int((one.rank > 0).sum()) <= 3
    assert documents_of(world, trace.shown) == {"p1"}


def test_scoped_documents_collection_is_searched_when_the_classifier_left_it_out(
    world: Retriever,
) -> None:
    trace = traced(world, "dose", Scope(document_ids=("g1",)))
    assert documents_of(world, trace.shown) == {"g1"}
    assert {str(item) for item in trace.routing.lists} >= {"eagle_text:dense", "eagle_text:bm25"}
    without = traced(world, "dose", Scope())
    assert "g1" not in documents_of(world, without.shown)


def test_scoped_documents_collection_is_searched_when_the_intent_suppresses_it(
    tmp_path: Path,
) -> None:
    documents = [
        {"_id": "c", "text": "dose of ethane", "name": "c", "smiles": "CC"},
        {"_id": "o", "text": "ethane label", "name": "ethane"},
    ]
    world = open_world(tmp_path, documents)
    text = "ethane prescribing information"
    free = world.trace([text])
    assert free.assemblies[0].intent is not None
    assert free.assemblies[0].intent.suppress_collections == ("eagle_chemical",)
    assert "eagle_chemical:dense" not in {str(item) for item in free.routing.lists}
    scoped = world.trace([Query(text, scope=Scope(document_ids=("c",)))])
    (place,) = (
        i for i, item in enumerate(scoped.slots.lists) if item.collection == "eagle_chemical"
    )
    assert documents_of(world, scoped.found[place].rows) == {"c"}


def test_empty_scope_gives_nothing_and_is_noted(world: Retriever) -> None:
    queries = [
        Query("gefitinib", scope=Scope(kb_names=("one",), document_ids=("a2",))),
        Query("gefitinib"),
    ]
    empty, full = world.search_many(queries)
    assert empty.hits == ()
    assert len(full.hits) > 0
    assert "scope_empty" in [event.event for event in empty.audit]
    assert "scope_empty" not in [event.event for event in full.audit]


def test_scope_values_are_literal_when_they_hold_wildcards(world: Retriever) -> None:
    assert world.search_many([Query("dose", scope=Scope(kb_names=("%",)))])[0].hits == ()


def test_supplement_takes_wildcards_literally_when_a_drugs_name_holds_them(
    world: Retriever,
) -> None:
    # LIKE '%50%_mix%' unescaped would also propose "50 a mix leaflet"
    trace = traced(world, "50%_mix", Scope())
    assert documents_of(world, trace.supplement.rows) == {"b1"}
    found = world.index.registry.find_by_name(world.index.registry_id, ["50%_mix", "50_a", "\\"])
    assert found == {"50%_mix": ("b1",), "50_a": (), "\\": ()}
