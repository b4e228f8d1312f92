"""Causes: gaps of the data and of the configuration, named, tried by replay, and mended."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from failure_worlds import World, world
from stage_worlds import LEXICON

from experiments.diagnosis.causes import Change

SWITCHES = {
    "plugins.biomed.supplement.enabled": True,
    "plugins.biomed.route.default_dual_text_search": False,
    "plugins.biomed.route.chemical_searches_text": False,
    "plugins.biomed.rerank_plan.entity_filter": False,
}


def lexicon(folder: Path, **changes: dict[str, Any] | None) -> dict[str, Any]:
    """Write the small lexicon with some records changed or added, or taken away by None."""
    folder.mkdir(parents=True, exist_ok=True)
    records = {str(record["id"]): dict(record) for record in LEXICON}
    for name, change in changes.items():
        if change is None:
            del records[name]
        else:
            records[name] = {"id": name, "name": name, **records.get(name, {}), **change}
    path = folder / "lexicon.json"
    path.write_text(json.dumps(list(records.values())))
    return {**SWITCHES, "plugins.biomed.lexicon.path": str(path)}


def check_gap(
    gap: World, mended: World, verdict: Sequence[str | None], cause: str, **change: Any
) -> None:
    """Check a gap's class, its cause by replay, and that the mended datum lets the query pass."""
    assert gap.named() == tuple(verdict)
    found = gap.causes()[cause]
    assert found is not None
    assert found.to_json() == change or not change
    assert gap.passes_under(cause)
    assert mended.named()[0] == "ok"


# By words the label of another drug is nearer; as a drug of the query the first one's own card is.
CARDS = [
    {"_id": "gold", "text": "Tablets, taken daily.", "name": "gefitinib card"},
    {"_id": "other", "text": "Dose of alpha: the dose.", "name": "erlotinib card"},
]
LOST = ("ranking_gap", "lost_in_rerank", "rerank_merged")


def test_missing_record_is_the_cause(tmp_path: Path) -> None:
    text = "gefitinib tablets dose alpha"
    without = lexicon(tmp_path / "without", gefitinib=None)
    gap = world(tmp_path / "gap", CARDS, text, overrides=without)
    mended = world(tmp_path / "mended", CARDS, text, overrides=SWITCHES)
    check_gap(gap, mended, LOST, "entity_not_in_lexicon")
    (record,) = gap.causes()["entity_not_in_lexicon"].lexicon["add"]  # type: ignore[union-attr]
    assert record["name"] == "gefitinib"
    assert "entity_not_in_lexicon" not in mended.causes()


def test_missing_alias_is_the_cause(tmp_path: Path) -> None:
    text = "ZD1839 tablets dose alpha"
    without = lexicon(tmp_path / "without", gefitinib={"aliases": ["Iressa"]})
    gap = world(tmp_path / "gap", CARDS, text, overrides=without)
    mended = world(tmp_path / "mended", CARDS, text, overrides=SWITCHES)
    aliases = {"change": [{"id": "gefitinib", "aliases": ["Iressa", "ZD1839"]}]}
    check_gap(gap, mended, LOST, "alias_not_in_lexicon", lexicon=aliases)
    assert "entity_not_in_lexicon" not in gap.causes()


def test_related_drugs_in_place_of_the_drug_are_the_cause(tmp_path: Path) -> None:
    cards = [{**CARDS[0], "name": "everolimus card"}, CARDS[1]]
    text = "everolimus tablets dose alpha"
    record = {"is_drug": False, "related_drugs": ["erlotinib"]}
    without = lexicon(tmp_path / "without", everolimus=record)
    marked = lexicon(tmp_path / "marked", everolimus={**record, "is_drug": True})
    gap = world(tmp_path / "gap", cards, text, overrides=without)
    mended = world(tmp_path / "mended", cards, text, overrides=marked)
    drug = {"change": [{"id": "everolimus", "is_drug": True}]}
    check_gap(gap, mended, LOST, "related_drugs_used", lexicon=drug)


def test_related_drugs_of_a_gene_are_not_taken_for_the_drug(tmp_path: Path) -> None:
    gap = world(tmp_path, CARDS, "EGFR dose alpha", overrides=SWITCHES)
    assert "related_drugs_used" not in gap.causes()


COMPOUNDS = [
    {"_id": "gold", "text": "A branched alkane.", "name": "card 1"},
    {"_id": "other", "text": "Another alkane.", "name": "card 2", "smiles": "CCCCCC"},
]


def test_compound_without_smiles_is_the_cause(tmp_path: Path) -> None:
    text = "which compound is CC(C)CC"
    cards = [{**COMPOUNDS[0], "smiles": "CC(C)CC"}, COMPOUNDS[1]]
    by_structure = {**SWITCHES, "route.dense_search": True}
    gap = world(tmp_path / "gap", COMPOUNDS, text, overrides=by_structure)
    mended = world(tmp_path / "mended", cards, text, overrides=by_structure)
    verdict = ("query_route_gap", None, "route")
    check_gap(gap, mended, verdict, "compound_without_smiles", smiles={"gold": "CCC(C)C"})


def test_lexicon_without_smiles_is_the_cause(tmp_path: Path) -> None:
    cards = [{**COMPOUNDS[0], "smiles": "CC"}, {**COMPOUNDS[1], "text": "compound like ethane"}]
    text = "compound like ethane"
    without = {**lexicon(tmp_path / "l", ethane={"smiles": []}), "route.dense_search": True}
    off = {"route.bm25_search": False, "plugins.biomed.supplement.enabled": False}
    gap = world(tmp_path / "gap", cards, text, overrides={**without, **off})
    whole = {**SWITCHES, "route.dense_search": True, **off}
    mended = world(tmp_path / "mended", cards, text, overrides=whole)
    smiles = {"change": [{"id": "ethane", "smiles": ["CC"]}]}
    check_gap(gap, mended, LOST, "lexicon_without_smiles", lexicon=smiles)


def test_missing_section_is_the_cause(tmp_path: Path) -> None:
    cards = [
        {"_id": "gold", "text": "It may harm.", "name": "card"},
        {"_id": "other", "text": "Harm, harm.", "name": "paper"},
    ]
    tagged = [{**cards[0], "text": "WARNINGS\nIt may harm."}, cards[1]]
    weight = {"plugins.biomed.rerank_merged.profiles.default.w_rank": 0.1}
    gap = world(tmp_path / "gap", cards, "warnings harm", overrides=weight)
    mended = world(tmp_path / "mended", tagged, "warnings harm", overrides=weight)
    check_gap(gap, mended, LOST, "section_tag_missing", sections={"gold#0000": "warnings"})


def test_unsearched_collection_is_the_cause(tmp_path: Path) -> None:
    documents = [
        {"_id": "gold", "text": "alpha beta", "domain": "general"},
        {"_id": "other", "text": "gamma"},
    ]
    dual = {"plugins.biomed.route.default_dual_text_search": True}
    gap = world(tmp_path / "gap", documents, overrides=SWITCHES)
    mended = world(tmp_path / "mended", documents, overrides={**SWITCHES, **dual})
    verdict = ("query_route_gap", None, "route")
    check_gap(gap, mended, verdict, "collection_not_routed")


def test_suppressed_collection_stays_a_hypothesis_without_a_change(tmp_path: Path) -> None:
    documents = [
        {"_id": "gold", "text": "card", "smiles": "CC", "domain": "general"},
        {"_id": "other", "text": "drug label of something"},
    ]
    gap = world(tmp_path, documents, "drug label", overrides=SWITCHES)
    assert gap.named()[0] == "query_route_gap"
    found = world(
        tmp_path / "2",
        [{**documents[0], "domain": "biomedical"}, documents[1]],
        "drug label",
        overrides=SWITCHES,
    )
    assert found.named()[0] == "ranking_gap"


ALPHA = {"_id": "other", "text": "alpha alpha alpha"}
GOLD = {"_id": "gold", "text": "alpha beta gamma delta epsilon"}
FILTERED = [
    {"_id": "gold", "text": "the dose of a kinase inhibitor", "name": "guide"},
    {"_id": "other", "text": "gefitinib", "name": "label"},
]


@pytest.mark.parametrize(
    ("cause", "documents", "text", "overrides", "more", "passes"),
    [
        ("recall_depth", [GOLD, ALPHA], "alpha", {"route.recall_top_k": 1}, {}, False),
        ("pool_too_small", [GOLD, ALPHA], "alpha", {"inject.rerank_pool": 1}, {}, False),
        ("scope", [GOLD], "alpha", {}, {"scope": {"tags": ["none"]}}, True),
        ("merged_by_minmax", [GOLD, ALPHA], "alpha", {}, {}, False),
        (
            "no_bm25_search",
            [{"_id": "gold", "text": "alpha alpha alpha beta"}, {**ALPHA, "text": "alpha"}],
            "alpha",
            {"route.bm25_search": False, "route.dense_search": True, "route.recall_top_k": 1},
            {},
            True,
        ),
        (
            "entity_filter",
            FILTERED,
            "dose gefitinib",
            {
                "route.dense_search": True,
                "route.bm25_search": False,
                "plugins.biomed.rerank_plan.entity_filter": True,
                "plugins.biomed.rerank_merged.profiles.drug_entity.w_entity": 0,
            },
            {},
            None,
        ),
        (
            "cross_drug_penalty",
            [
                {"_id": "gold", "text": "alpha beta, the dose", "name": "erlotinib card"},
                {"_id": "other", "text": "alpha", "name": "card"},
            ],
            "gefitinib alpha beta dose",
            {
                "plugins.biomed.rerank_merged.profiles.drug_entity.w_entity": 0,
                "plugins.biomed.rerank_merged.profiles.drug_entity.w_rank": 1,
            },
            {},
            True,
        ),
        (
            "too_few_injected",
            [
                {"_id": "gold", "text": "nothing of it", "name": "gefitinib label"},
                {"_id": "other", "text": "alpha gefitinib", "name": "other card"},
            ],
            "alpha gefitinib",
            {
                "plugins.biomed.supplement.enabled": True,
                "inject.rerank_pool": 1,
                "inject.min_new": 0,
            },
            {},
            True,
        ),
    ],
)
def test_cause_is_verified_only_when_its_change_lets_the_query_pass(
    tmp_path: Path,
    cause: str,
    documents: list[dict[str, Any]],
    text: str,
    overrides: dict[str, Any],
    more: dict[str, Any],
    passes: bool | None,
) -> None:
    found = world(tmp_path, documents, text, overrides=overrides, own=more)
    assert found.named()[0] != "ok"
    assert cause in found.causes(), found.causes().keys()
    passed = found.passes_under(cause)
    assert passes is None or passed == passes


def test_change_survives_its_json_and_equal_changes_share_a_key() -> None:
    one = Change({"merge.method": "rrf"}, smiles={"a": "CC"}, lift_scope=True)
    again = Change.from_json(json.loads(json.dumps(one.to_json())))
    assert again.key == one.key
    assert not one.is_configuration
    assert Change({"merge.method": "rrf"}).is_configuration
    assert Change({"a": 1, "b": 2}).key == Change({"b": 2, "a": 1}).key
