"""Abbreviations that a text defines, and what they do to its annotation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.biomed.abbreviations import definitions
from retriever.biomed.annotation import annotate, learn, match_with
from retriever.biomed.lexicon import Entity, Lexicon


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("atrial fibrillation (AF) was new", [("AF", "atrial fibrillation")]),
        ("AF (atrial fibrillation) was new", [("AF", "atrial fibrillation")]),
        ("in heat shock transcription factor (HSF)", [("HSF", "heat shock transcription factor")]),
        ("non-small cell lung cancer (NSCLC)", [("NSCLC", "non-small cell lung cancer")]),
        ("N-methyl-D-aspartate (NMDA; 3 mM)", [("NMDA", "N-methyl-D-aspartate")]),
        ("One drug. Valproic acid (VPA) next", [("VPA", "Valproic acid")]),
        ("with ibuprofen (in water)", []),
        ("with ibuprofen (in)", []),
        ("five patients (P < 0.05)", []),
        ("of patients (12)", []),
        ("aspirin (xyz)", []),
        ("VPA (VPA)", []),
        ("No acid. Was given (NA)", []),
        ("(AF)", []),
        ("", []),
    ],
)
def test_definitions_are_these(text: str, found: list[tuple[str, str]]) -> None:
    assert [(d.short, text[d.start : d.end]) for d in definitions(text)] == found


def test_long_form_has_at_most_twice_the_words_of_the_short_forms_letters() -> None:
    # min(2 + 5, 2 * 2) = 4 words: the first letter must lie within the last four.
    assert [d.short for d in definitions("total very very deep failure (TF)")] == []
    assert [d.short for d in definitions("total very deep failure (TF)")] == ["TF"]


@given(st.text(alphabet="aAbB1 ()-.,;", max_size=60))
def test_every_long_form_holds_the_letters_of_its_short_form_in_order(text: str) -> None:
    for definition in definitions(text):
        rest = iter(text[definition.start : definition.end].lower())
        assert all(c in rest for c in definition.short.lower() if c.isalnum())
        assert definition.end - definition.start > len(definition.short)


LEXICON = Lexicon(
    (
        Entity("vpa", "valproic acid", ("valproate",), is_drug=True),
        Entity("asa", "aspirin", ("ASA",), is_drug=True),
        Entity("af", "atrial fibrillation"),
        Entity("li", "lithium", is_drug=True),
    )
)


def spans(text: str) -> list[tuple[str, str]]:
    return [(m.entity_id, text[m.start : m.end]) for m in annotate(LEXICON, text)]


def test_abbreviation_stands_for_its_long_form_everywhere_in_the_document() -> None:
    text = "VPA rose. Valproic acid (VPA) fell; VPA-induced, VPAs, vpa, VPA."
    assert spans(text) == [
        ("vpa", "VPA"),
        ("vpa", "Valproic acid"),
        ("vpa", "VPA"),
        ("vpa", "VPA"),
        ("vpa", "VPA"),
    ]


def test_term_of_the_lexicon_is_given_up_when_the_document_means_something_unknown() -> None:
    text = "atrial septal aneurysm (ASA): aspirin for ASA"
    assert spans(text) == [("asa", "aspirin")]


def test_term_stays_when_the_long_form_only_holds_another_term() -> None:
    assert spans("after sustained aspirin (ASA)") == [("asa", "aspirin"), ("asa", "ASA")]


def test_first_definition_counts_when_a_short_form_is_defined_twice() -> None:
    text = "atrial fibrillation (AF). acute fever (AF)"
    assert learn(LEXICON, text) == {"AF": "af"}


def test_longer_match_is_kept_when_an_abbreviation_lies_within_it() -> None:
    lexicon = Lexicon((*LEXICON.entities, Entity("trial", "AF trial")))
    text = "the AF trial of AF"
    assert [m.entity_id for m in match_with(lexicon, text, {"AF": "af"})] == ["trial", "af"]


def test_digit_that_follows_makes_another_short_form() -> None:
    assert match_with(LEXICON, "X1 X12 aX1", {"X1": "li"})[0].start == 0
    assert len(match_with(LEXICON, "X1 X12 aX1", {"X1": "li"})) == 1


@given(st.text(alphabet="VPA valproicd()", max_size=50))
def test_annotation_equals_matching_when_nothing_is_defined(text: str) -> None:
    if not definitions(text):
        assert annotate(LEXICON, text) == LEXICON.match(text)
    ends = [0, *(match.end for match in annotate(LEXICON, text))]
    assert ends == sorted(ends)
