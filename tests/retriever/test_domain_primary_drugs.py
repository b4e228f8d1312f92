"""The drugs a document is about: by its names, else by at least half of the mentions, else none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.biomed.lexicon import Entity, Lexicon
from retriever.biomed.primary_drugs import primary_drugs

OTHERS = ("amiodarone", "warfarin", "rifampicin", "ketoconazole", "itraconazole", "phenytoin")
LEXICON = Lexicon(
    (
        Entity(id="gefitinib", name="gefitinib", aliases=("Iressa",), is_drug=True),
        Entity(id="EGFR", name="EGFR", semantic_types=("gene",)),
        *(Entity(id=name, name=name, is_drug=True) for name in OTHERS),
    )
)


def drugs(
    text: str = "", *, name: str = "", file_name: str = "", title: str = ""
) -> tuple[str, ...]:
    return primary_drugs(name, file_name, title, text, LEXICON)


@pytest.mark.parametrize(
    "names",
    [
        {"title": "GEFITINIB tablets"},
        {"name": "Iressa label"},
        {"file_name": "iressa_label-2024.pdf"},
        {"name": "Iressa", "file_name": "gefitinib.pdf", "title": "Gefitinib (Iressa)"},
    ],
)
def test_names_decide_when_they_hold_a_drug(names: dict[str, str]) -> None:
    assert drugs("warfarin, warfarin, warfarin", **names) == ("gefitinib",)


def test_names_give_all_their_drugs_in_order_of_place() -> None:
    found = drugs(name="warfarin", file_name="phenytoin.pdf", title="Iressa with warfarin")
    assert found == ("warfarin", "phenytoin", "gefitinib")


def test_mentions_decide_when_one_drug_has_half_of_them() -> None:
    # gefitinib 2 (once as Iressa) of 4
    assert drugs("Iressa, that is gefitinib, with warfarin or phenytoin.") == ("gefitinib",)


def test_no_drug_is_primary_when_none_has_half_of_the_mentions() -> None:
    # gefitinib 2 of 5
    assert drugs("Iressa is gefitinib; warfarin, phenytoin, amiodarone.") == ()


def test_two_drugs_are_primary_when_each_has_half() -> None:
    assert drugs("phenytoin after warfarin") == ("phenytoin", "warfarin")


def test_only_drugs_count_when_genes_are_mentioned_too() -> None:
    text = "EGFR, EGFR, EGFR and gefitinib"
    assert drugs(text, title="EGFR in the lung") == ("gefitinib",)


@pytest.mark.parametrize("text", ["", " \n", "no drug at all", "gefitinibs", "\x00\u202e\ud800"])
def test_no_drug_is_primary_when_none_is_mentioned(text: str) -> None:
    assert drugs(text, name=text, file_name=text, title=text) == ()


lists = st.lists(st.sampled_from(OTHERS), max_size=30)


@given(lists, st.sampled_from(["name", "file_name", "title"]))
def test_interactions_do_not_make_a_label_theirs_when_it_names_its_drug(
    others: list[str], where: str
) -> None:
    text = f"Iressa. DRUG INTERACTIONS\nAvoid {', '.join(others)}."
    assert drugs(text, **{where: "Iressa label"}) == ("gefitinib",)


@given(st.integers(0, 9), st.lists(st.sampled_from(OTHERS), min_size=3, unique=True))
def test_interactions_do_not_make_a_label_theirs_when_it_has_no_name(
    own: int, others: list[str]
) -> None:
    # Three or more others, each once: none of them can have half of the mentions.
    text = "Gefitinib is taken once a day. " * own + f"Avoid {', '.join(others)}."
    assert drugs(text) == (("gefitinib",) if own >= len(others) else ())


@given(lists, st.lists(st.sampled_from(["gefitinib", "Iressa"]), max_size=9))
def test_mentions_count_alike_when_brand_and_generic_change_places(
    others: list[str], own: list[str]
) -> None:
    generic = ["gefitinib"] * len(own)
    assert drugs("; ".join([*own, *others])) == drugs("; ".join([*generic, *others]))


@given(lists)
def test_at_most_two_drugs_are_primary_when_the_names_hold_none(mentions: list[str]) -> None:
    found = drugs(", ".join(mentions))
    assert len(found) <= 2
    assert list(found) == [name for name in dict.fromkeys(mentions) if name in found]
