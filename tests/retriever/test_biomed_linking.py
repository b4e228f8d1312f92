"""Linking: the ways to a candidate, their order, similarity worked out, NIL."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever.biomed.lexicon import Entity, Lexicon
from retriever.biomed.linking import Linked, Linker, Mention

LEXICON = Lexicon(
    (
        Entity("mi", "myocardial infarction", ("heart attack", "AMI")),
        Entity("ci", "cerebral infarction"),
        Entity("rf", "renal failure"),
        Entity("imatinib", "imatinib", ("Gleevec",), is_drug=True),
        Entity("gefitinib", "gefitinib", ("Iressa",), is_drug=True),
        Entity("il6", "IL-6", ("interleukin-6",)),
        Entity("one", "twin name"),
        Entity("two", "other", ("twin name",)),
    )
)
LINKER = Linker(LEXICON)


def first(text: str, context: str = "", linker: Linker = LINKER) -> tuple[str, str]:
    candidate = linker.link(Mention(text, context)).candidates[0]
    return candidate.entity_id, candidate.way


@pytest.mark.parametrize(
    ("mention", "entity", "way"),
    [
        ("heart attack", "mi", "exact"),
        ("Heart\n Attack", "mi", "exact"),
        ("infarction of the myocardium", "mi", "variant"),
        ("Infarction, Cerebral", "ci", "variant"),
        ("heart attacks", "mi", "variant"),
        ("kidney failure", "rf", "variant"),
        ("IL 6", "il6", "variant"),
        ("interleukin6", "il6", "variant"),
        ("imatinib mesylate", "imatinib", "variant"),
        ("gefitinib hydrochloride tablets", "gefitinib", "variant"),
        ("gefitnib", "gefitinib", "one_edit"),
        ("old cerebral infarction", "ci", "bm25"),
        ("acute AMI", "mi", "bm25"),
    ],
)
def test_mention_is_found_by_its_way(mention: str, entity: str, way: str) -> None:
    assert first(mention) == (entity, way)


def test_abbreviation_is_read_by_its_context() -> None:
    assert LINKER.link(Mention("MI")).candidates == ()
    assert first("MI", "Myocardial infarction (MI) in men; MI in women.") == ("mi", "exact")
    # What the context defines wins over what the lexicon has.
    assert first("AMI", "an Acute Mild Imatinib (AMI) rash")[1] != "exact"


def test_exact_candidates_come_in_the_order_of_the_lexicon() -> None:
    found = LINKER.link(Mention("twin name")).candidates
    assert [(c.entity_id, c.way) for c in found[:2]] == [("one", "exact"), ("two", "exact")]


def test_similarity_is_the_weighted_share_of_common_words() -> None:
    # Two terms, {apple, gene} and {berry, gene}; N = 2. idf(apple) = idf(berry) = ln(1.5/1.5 + 1)
    # = ln 2; idf(gene) = ln(0.5/2.5 + 1) = ln 1.2. "berry gene x1": x1 is in none, ln(2.5/0.5 + 1)
    # = ln 6. Dice with {berry, gene}: 2 (ln 2 + ln 1.2) / (2 (ln 2 + ln 1.2) + ln 6) = .494239.
    linker = Linker(Lexicon((Entity("a", "apple gene"), Entity("b", "berry gene"))))
    shared = 2 * (math.log(2) + math.log(1.2))
    candidate = linker.link(Mention("berry gene x1")).candidates[0]
    assert candidate.entity_id == "b"
    assert candidate.similarity == round(shared / (shared + math.log(6)), 6) == 0.494239
    assert candidate.bm25 is not None


def test_one_slip_costs_its_share_of_the_term() -> None:
    # gefitinib has 9 characters: 1 - 1/9.
    assert LINKER.link(Mention("gefitnib")).candidates[0].similarity == 0.888889


def test_mention_is_nil_below_the_threshold_and_keeps_its_candidates() -> None:
    linker = Linker(LEXICON, nil_below=0.9)
    answer = linker.link(Mention("gefitnib"))
    assert answer.entity_id is None
    assert answer.candidates[0].entity_id == "gefitinib"
    assert LINKER.link(Mention("gefitnib")).entity_id == "gefitinib"
    assert LINKER.link(Mention("zzz")) == Linked("zzz", None, ())


def test_digit_or_short_word_makes_another_term_and_no_slip() -> None:
    lexicon = Lexicon((Entity("c", "CYP2C9"), Entity("b", "hepatitis B")))
    for mention in ("CYP2C8", "hepatitis A"):
        found = Linker(lexicon).link(Mention(mention)).candidates
        assert all(c.way == "bm25" for c in found)


class Backwards:
    """A cross-encoder that prefers what comes late in the alphabet."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def logits(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        self.asked.append((query, tuple(texts)))
        return np.array([ord(text[0]) for text in texts], dtype=np.float64)


def test_cross_encoder_orders_all_but_exact_candidates() -> None:
    cross = Backwards()
    linker = Linker(LEXICON, cross_encoder=cross, nil_below=0)
    answer = linker.link(Mention("old infarction", "an old infarction"))
    assert [c.entity_id for c in answer.candidates] == ["mi", "ci"]
    assert [c.logit for c in answer.candidates] == [ord("m"), ord("c")]
    assert cross.asked[0][0] == "old infarction | an old infarction"
    exact = linker.link(Mention("heart attack")).candidates
    assert (exact[0].entity_id, exact[0].logit) == ("mi", None)


def test_number_of_candidates_is_limited() -> None:
    lexicon = Lexicon(tuple(Entity(f"e{i:02d}", f"gene {chr(97 + i)}x") for i in range(20)))
    assert len(Linker(lexicon, candidates=7).link(Mention("gene")).candidates) == 7


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=20))
def test_any_text_gives_distinct_candidates_in_range(text: str) -> None:
    found = LINKER.link(Mention(text)).candidates
    assert len({c.entity_id for c in found}) == len(found) <= 50
    assert all(0 <= c.similarity <= 1 for c in found)


def test_every_name_links_to_its_own_record() -> None:
    for entity in LEXICON.entities:
        for name in LEXICON.names_of(entity.id):
            if name != "twin name":
                assert LINKER.link(Mention(name)).entity_id == entity.id
