"""route: each row of the specification's list, suppression, and what the index lacks."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage_worlds import config_of, subscribers_of, understood

from retriever import RetrieverConfig
from retriever.hooks import Catalog
from retriever.stages.route import route
from retriever.stages.scope import Allowed
from retriever.types import Routing

GENERAL, TEXT, MEDCPT = "eagle_text", "eagle_text_biomed", "eagle_text_medcpt"
CHEMICAL, RADIOLOGY, VISUAL = "eagle_chemical", "eagle_medical_radiology", "eagle_visual"
EVERY = (CHEMICAL, RADIOLOGY, GENERAL, TEXT, MEDCPT, VISUAL)
R = "plugins.biomed.route"


def catalog_stand_in(*held: str, alone: bool = False) -> Catalog:
    """A stand-in index of one document that each collection holds; `alone`: a general one too."""
    rows = {name: [0] for name in held}
    if alone:
        rows[GENERAL] = [0, 1]
    collections = {
        name: SimpleNamespace(text=name in (GENERAL, TEXT, MEDCPT), rows=np.array(of_name))
        for name, of_name in rows.items()
    }
    chunks = SimpleNamespace(document_of=np.array([0, 1], dtype=np.int32))
    stand_in: Any = SimpleNamespace(collections=collections, chunks=chunks)
    return Catalog(stand_in)


def routed(
    config: RetrieverConfig,
    text: str,
    catalog: Catalog | None = None,
    scoped: tuple[str, ...] = (),
) -> Routing:
    return route(
        config.route,
        subscribers_of(config),
        catalog or catalog_stand_in(*EVERY),
        (text,),
        understood(config, text),
        Allowed((None,), (scoped,)),
    )


def dense_of(routing: Routing) -> set[str]:
    return {item.collection for item in routing.lists if item.search == "dense"}


@pytest.mark.parametrize(
    ("text", "switches", "expected"),
    [
        # row 1: a chemical task
        ("ligands of TP53", {}, {CHEMICAL, TEXT}),
        ("which is CC(=O)Oc1ccccc1C(=O)O", {}, {CHEMICAL, TEXT}),
        ("which is CC(=O)Oc1ccccc1C(=O)O", {"chemical_searches_text": False}, {CHEMICAL}),
        ("ethane compound", {"chemical_searches_text": False}, {CHEMICAL}),
        ("ligands of TP53", {"chemical_searches_text": False}, {CHEMICAL, TEXT}),
        ("ligands", {"medcpt_dual_search": True}, {CHEMICAL, TEXT, MEDCPT}),
        # row 2: text otherwise
        ("outcome in lung cancer", {}, {TEXT}),
        ("outcome", {"medcpt_dual_search": True}, {TEXT, MEDCPT}),
        ("outcome", {"default_dual_text_search": True}, {TEXT, GENERAL}),
        # row 3: drug hits, or an entity with related drugs
        ("gefitinib", {}, {TEXT, CHEMICAL}),
        ("EGFR", {}, {TEXT, CHEMICAL}),
        ("TP53", {}, {TEXT}),
        ("gefitinib", {"drug_hits_search_chemical": False}, {TEXT}),
        ("gefitinib drug label", {}, {TEXT}),
        # row 4: radiology words
        ("CT scans of the chest", {}, {TEXT, RADIOLOGY}),
        ("a chest X-ray", {}, {TEXT, RADIOLOGY}),
        ("active transport", {}, {TEXT}),
        ("biopsy histology", {}, {TEXT}),
        # row 5: a combination with drugs, or the visual mode
        ("gefitinib plus erlotinib", {}, {TEXT, CHEMICAL, VISUAL}),
        ("outcome", {"mode": "visual"}, {TEXT, VISUAL}),
        # the mode text drops rows 3, 4 and 5
        ("gefitinib plus erlotinib MRI", {"mode": "text"}, {TEXT}),
        ("EGFR on a PET scan", {"mode": "text"}, {TEXT}),
        ("ligands of EGFR on MRI", {"mode": "text"}, {TEXT, CHEMICAL}),
    ],
)
def test_collections_are_those_of_the_list_when_the_query_is(
    tmp_path: Path, text: str, switches: dict[str, object], expected: set[str]
) -> None:
    config = config_of(tmp_path, {f"{R}.{name}": value for name, value in switches.items()})
    routing = routed(config, text)
    assert dense_of(routing) == expected
    # row 7: a BM25 plan for each text collection searched, and for no other
    words = {item.collection for item in routing.lists if item.search == "bm25"}
    assert words == expected & {GENERAL, TEXT, MEDCPT}


def test_words_are_not_searched_when_bm25_is_off(tmp_path: Path) -> None:
    routing = routed(config_of(tmp_path, {"route.bm25_search": False}), "gefitinib")
    assert [str(item) for item in routing.lists] == [f"{CHEMICAL}:dense", f"{TEXT}:dense"]


@pytest.mark.parametrize(("alone", "expected"), [(False, {TEXT}), (True, {TEXT, GENERAL})])
def test_auto_searches_general_text_when_it_alone_holds_a_document(
    tmp_path: Path, alone: bool, expected: set[str]
) -> None:
    catalog = catalog_stand_in(GENERAL, TEXT, alone=alone)
    assert dense_of(routed(config_of(tmp_path), "outcome", catalog)) == expected


def test_exploratory_collections_are_added_when_configured(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"route.exploratory_search_collections": [VISUAL, GENERAL]})
    routing = routed(config, "outcome")
    assert dense_of(routing) == {TEXT, VISUAL, GENERAL}
    assert f"{GENERAL}:bm25" in map(str, routing.lists)


def test_general_text_alone_is_searched_when_no_plugin_speaks() -> None:
    routing = routed(RetrieverConfig(namespace="general"), "gefitinib compound MRI")
    assert dense_of(routing) == {GENERAL}


def test_collection_is_skipped_and_noted_when_the_index_lacks_it(tmp_path: Path) -> None:
    routing = routed(config_of(tmp_path), "gefitinib MRI", catalog_stand_in(TEXT))
    assert dense_of(routing) == {TEXT}
    noted = {(event.event, event.detail["collection"]) for event in routing.audit}
    assert noted == {
        ("route_skipped_collection", CHEMICAL),
        ("route_skipped_collection", RADIOLOGY),
    }


@pytest.mark.parametrize(
    ("text", "held", "added"),
    [
        ("ligands of TP53", EVERY, True),  # a cue without a structure
        ("ligand CC(=O)Oc1ccccc1C(=O)O", EVERY, False),
        ("ligand CC(=O)Oc1ccccc1C(=O)O", (TEXT,), True),  # no collection of structures
    ],
)
def test_text_is_added_and_noted_when_no_plan_can_make_a_vector(
    tmp_path: Path, text: str, held: tuple[str, ...], added: bool
) -> None:
    config = config_of(tmp_path, {f"{R}.chemical_searches_text": False})
    routing = routed(config, text, catalog_stand_in(*held))
    assert (TEXT in dense_of(routing)) is added
    assert ("route_added_text" in {event.event for event in routing.audit}) is added


def test_text_is_not_called_added_when_the_switch_searches_it_anyway(tmp_path: Path) -> None:
    routing = routed(config_of(tmp_path), "ligands of TP53")
    assert [event.event for event in routing.audit] == []


SWITCHES: dict[str, st.SearchStrategy[object]] = {
    f"{R}.default_dual_text_search": st.sampled_from(["auto", True, False]),
    f"{R}.medcpt_dual_search": st.booleans(),
    f"{R}.chemical_searches_text": st.booleans(),
    f"{R}.drug_hits_search_chemical": st.booleans(),
    f"{R}.mode": st.sampled_from(["text", "hybrid", "visual"]),
    "route.bm25_search": st.booleans(),
    "route.parent_doc_retrieval": st.booleans(),
    "route.exploratory_search_collections": st.lists(st.sampled_from(EVERY), unique=True),
}


@settings(max_examples=30, deadline=None)
@given(
    switches=st.fixed_dictionaries({}, optional=SWITCHES),
    text=st.sampled_from(["ethane drug label", "prescribing information of EGFR plus gefitinib"]),
)
def test_suppressed_collection_is_never_searched_when_switches_vary(
    tmp_path_factory: pytest.TempPathFactory, switches: dict[str, object], text: str
) -> None:
    config = config_of(tmp_path_factory.getbasetemp() / "suppressed", switches)
    routing = routed(config, text)
    assert CHEMICAL not in {item.collection for item in routing.lists}
    assert TEXT in dense_of(routing)


def test_depth_is_the_collections_own_when_given(tmp_path: Path) -> None:
    own = {"route.recall_top_k": 7, "route.recall_top_k_by_collection": {CHEMICAL: 3}}
    routing = routed(config_of(tmp_path, own), "gefitinib")
    depths = dict(zip(map(str, routing.lists), routing.depth.tolist(), strict=True))
    assert depths == {f"{CHEMICAL}:dense": 3, f"{TEXT}:bm25": 7, f"{TEXT}:dense": 7}


def test_scoped_collections_are_searched_when_the_classifier_left_them_out(tmp_path: Path) -> None:
    routing = routed(config_of(tmp_path), "outcome", scoped=(GENERAL, RADIOLOGY))
    assert dense_of(routing) == {TEXT, GENERAL, RADIOLOGY}
