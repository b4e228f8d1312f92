"""Terms of a lexicon in texts: boundaries, case, the longest match, offsets."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from retriever.biomed.matcher import Match, TermMatcher

TERMS = [
    "EGFR",
    "VEGFR",
    "MET",
    "IL-1",
    "PD-1",
    "p53",
    "TGF-β",
    "IFN-γ",
    "5-HT",
    "lung cancer",
    "small cell lung cancer",
    "non-small cell lung cancer",
]


def found(terms: list[str], text: str) -> list[tuple[str, str]]:
    """(term, what stands in the text) of each match, in order."""
    matcher = TermMatcher((term, f"id:{term}") for term in terms)
    return [(m.term, text[m.start : m.end]) for m in matcher.match(text)]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("EGFR and VEGFR", ["EGFR", "VEGFR"]),
        ("metastatic", []),
        ("METASTATIC METHOD", []),
        ("we met the MET inhibitor", ["MET"]),
        ("Met or met", []),
        ("VEGFR1-3 inhibitor", ["VEGFR"]),
        ("anti-PD-1, PD-10, PD-L1", ["PD-1"]),
        ("IL-17 IL-1 IL-1β IL-1.", ["IL-1", "IL-1"]),
        ("egfr Egfr", ["EGFR", "EGFR"]),
        ("P53 p53 p53s", ["p53"]),
        ("tgf-Β ΤGF-β IFN-Γ", ["TGF-β", "IFN-γ"]),
        ("label_EGFR/egfr.pdf", ["EGFR", "EGFR"]),
        ("EGFRα αEGFR EGFR2", ["EGFR"]),
        ("non-small cell lung cancer", ["non-small cell lung cancer"]),
        ("a small cell lung cancer", ["small cell lung cancer"]),
        ("PD\u20111 and PD\u22121", ["PD-1", "PD-1"]),
        ("lung\ncancer, lung\u00a0cancer", ["lung cancer", "lung cancer"]),
        ("", []),
    ],
)
def test_terms_found_are_these(text: str, terms: list[str]) -> None:
    assert [term for term, _ in found(TERMS, text)] == terms


def test_longer_match_wins_when_it_begins_later() -> None:
    assert found(["lung cancer", "cancer cell line"], "lung cancer cell line") == [
        ("cancer cell line", "cancer cell line")
    ]


def test_outer_matches_survive_when_the_longest_takes_only_the_middle_one() -> None:
    # "a bb", "bb ccc" and "ccc dddd" chain; the longest, the last, removes the second alone.
    assert [term for term, _ in found(["a bb", "bb ccc", "ccc dddd"], "a bb ccc dddd")] == [
        "a bb",
        "ccc dddd",
    ]


def test_earlier_match_wins_when_two_are_as_long() -> None:
    assert [term for term, _ in found(["aaa bbb", "bbb ccc"], "aaa bbb ccc")] == ["aaa bbb"]


def test_shorter_match_counts_when_the_longer_one_is_in_the_wrong_case() -> None:
    assert [term for term, _ in found(["A-b", "b1234"], "a-b1234")] == ["b1234"]


@pytest.mark.parametrize(
    ("term", "text", "where"),
    [
        ("EGFR", "İstanbul İİ EGFR", (12, 16)),
        ("EGFR", "ﬁne ß EGFR ß", (6, 10)),
        ("Weißbier", "ein WEISSBIER", (4, 13)),
        ("weissbier", "ẞ Weißbier", (2, 10)),
        ("İzmir fever", "xx İZMİR FEVER", None),
        ("İzmir fever", "xx İZMIR FEVER", (3, 14)),
        ("Ménière", "a Me\u0301nie\u0300re b", (2, 11)),
        ("Me\u0301nie\u0300re", "a Ménière b", (2, 9)),
        ("EGFR", "𝛼𝛽 EGFR", (3, 7)),
        ("ΟΔΟΣ", "η οδος", (2, 6)),
    ],
)
def test_offsets_are_those_of_the_given_text_when_folding_changes_lengths(
    term: str, text: str, where: tuple[int, int] | None
) -> None:
    matches = TermMatcher([(term, "x")]).match(text)
    assert matches == (() if where is None else (Match("x", term, *where),))


def test_no_match_when_a_mark_makes_another_letter_of_the_last_one() -> None:
    assert found(["vitamin K"], "vitamin K\u0304 vitamin K") == [("vitamin K", "vitamin K")]


def test_first_entity_counts_when_two_share_a_term() -> None:
    matcher = TermMatcher([("cold", "a"), ("Cold", "b"), ("COLD", "c")])
    assert [m.entity_id for m in matcher.match("cold Cold COLD")] == ["a", "a", "a"]
    assert matcher.entities_named("cOLD") == ("a", "b", "c")


def test_own_case_decides_when_short_terms_differ_in_case_alone() -> None:
    matcher = TermMatcher([("MET", "gene"), ("Met", "amino acid")])
    assert [m.entity_id for m in matcher.match("Met MET met")] == ["amino acid", "gene"]
    assert matcher.entities_named("met") == ()


def test_whole_name_is_asked_for_when_entities_are_named() -> None:
    matcher = TermMatcher([("lung cancer", "a")])
    assert matcher.entities_named("  Lung \n cancer ") == ("a",)
    assert matcher.entities_named("lung") == matcher.entities_named("lung cancers") == ()


def test_nothing_matches_when_there_are_no_terms() -> None:
    assert TermMatcher([]).match("EGFR") == ()
    assert TermMatcher([]).entities_named("EGFR") == ()


def test_blank_term_is_refused() -> None:
    with pytest.raises(ValueError, match="empty term"):
        TermMatcher([(" ", "x")]).match("a")


ALPHABET = "aAbBiIİß1 2-βΒ"


def obvious(terms: list[str], text: str) -> list[tuple[str, int, int]]:
    """Try every term on every stretch of the text; then hand out stretches, longest first."""
    spans: dict[tuple[int, int], str] = {}
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            piece = text[start:end]
            if text[:start][-1:].isalpha() or text[end:][:1].isalpha():
                continue
            if piece[-1].isdigit() and text[end:][:1].isdigit():
                continue
            for term in terms:
                same = piece == term if len(term) <= 3 else piece.casefold() == term.casefold()
                if same:
                    spans.setdefault((start, end), term)
    free, kept = set(range(len(text))), []
    for start, end in sorted(spans, key=lambda s: (-len(text[s[0] : s[1]].casefold()), s[0])):
        if free.issuperset(range(start, end)):
            free.difference_update(range(start, end))
            kept.append((spans[start, end], start, end))
    return sorted(kept, key=lambda item: item[1])


@settings(max_examples=400, deadline=None)
@given(
    terms=st.lists(
        st.text(ALPHABET, min_size=1, max_size=6).map(lambda t: " ".join(t.split())).filter(bool),
        min_size=1,
        max_size=6,
    ),
    text=st.text(ALPHABET, max_size=16),
)
@example(terms=["iiii"], text="İiii iiii")
@example(terms=["ssss"], text="ßß ß")
def test_matches_equal_those_of_trying_everything(terms: list[str], text: str) -> None:
    matches = TermMatcher((term, term) for term in terms).match(text)
    assert [(m.term, m.start, m.end) for m in matches] == obvious(terms, text)


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=40), terms=st.lists(st.text(min_size=1, max_size=4), max_size=4))
def test_matches_lie_in_order_without_overlap_in_any_text(text: str, terms: list[str]) -> None:
    matches = TermMatcher((t, t) for t in terms if t.strip()).match(text)
    ends = [0, *(m.end for m in matches)]
    assert all(
        before <= m.start < m.end <= len(text) for before, m in zip(ends, matches, strict=False)
    )
