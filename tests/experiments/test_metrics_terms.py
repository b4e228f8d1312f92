"""Coverage of expected terms: where a term occurs and where it does not."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.metrics import coverage_by_rank, term_coverage


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("MET", "capmatinib inhibits MET."),
        ("met", "capmatinib inhibits MET."),
        ("PD-1", "an anti-PD-1 antibody"),
        ("IL-2", "(IL-2)"),
        ("renal cell carcinoma", "advanced renal\n  cell carcinoma"),
        ("5%", "in 5% of patients"),
        ("(R)-warfarin", "the (R)-warfarin enantiomer"),
        ("(R)-", "the (R)-warfarin enantiomer"),
        ("TGF-β", "tgf-Β signalling"),
        ("drug", "drug_name"),
        ("café", unicodedata.normalize("NFD", "the CAFÉ")),
        ("μg", "10 µg"),  # Greek mu and the micro sign
    ],
)
def test_term_is_found_when_it_stands_on_token_boundaries(term, text):
    assert term_coverage([term], [text]) == 1.0


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("MET", "metastatic disease"),
        ("EGFR", "the VEGFR family"),
        ("IL-1", "IL-17 levels"),
        ("IL-1", "IL-10 levels"),
        ("VEGFR", "VEGFR1"),
        ("p53", "ap53"),
        ("β", "αβγ"),
        ("renal cell", "renal, cell"),
        ("PD-1", "PD-L1"),
    ],
)
def test_term_is_not_found_when_a_letter_or_digit_touches_it(term, text):
    assert term_coverage([term], [text]) == 0.0


def test_term_is_found_when_only_a_later_occurrence_is_free():
    assert term_coverage(["met"], ["metastatic, but met"]) == 1.0


def test_coverage_counts_a_term_once_when_it_is_listed_twice():
    # egfr (three spellings) and met are two terms; one of them is there.
    assert term_coverage(["EGFR", "egfr", " EGFR ", "MET"], ["EGFR mutant"]) == 0.5


def test_phrase_is_not_found_when_two_texts_hold_half_each():
    assert term_coverage(["renal cell"], ["renal", "cell"]) == 0.0


def test_coverage_is_undefined_when_there_are_no_terms():
    assert term_coverage([], ["any"]) is None
    assert coverage_by_rank([], [["any"]]) is None


def test_coverage_is_zero_when_there_is_no_text():
    assert term_coverage(["a"], []) == 0.0
    assert coverage_by_rank(["a"], []) == []


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_term_is_refused_when_it_is_blank(blank):
    with pytest.raises(ValueError, match="blank"):
        term_coverage(["a", blank], ["a"])


def test_coverage_adds_up_when_ranks_bring_terms_one_by_one():
    # Of three terms: none, then b, still b (nothing new), then a and c from two chunks.
    texts = [["x"], ["b"], ["b"], ["a", "c"]]
    assert coverage_by_rank(["a", "b", "c"], texts) == [0.0, 1 / 3, 1 / 3, 1.0]


words = st.lists(st.sampled_from(["il-2", "met", "EGFR", "5-HT", "β"]), max_size=4)


@given(words.filter(bool), st.lists(st.lists(words.map(" ".join), max_size=3), max_size=5))
def test_coverage_never_falls_when_ranks_are_added(terms, texts):
    shares = coverage_by_rank(terms, texts)
    assert shares == sorted(shares)
    assert len(shares) == len(texts)
    for rank, share in enumerate(shares, start=1):
        assert share == term_coverage(terms, [text for group in texts[:rank] for text in group])
