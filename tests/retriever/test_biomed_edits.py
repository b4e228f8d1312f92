"""One slip of the keyboard: what counts as one, and a look-up that misses none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.biomed.edits import LEAST_CHARACTERS, OneEdit, is_one_edit


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("gefitinib", "gefitnib", True),
        ("gefitnib", "gefitinib", True),
        ("gefitinib", "gefitynib", True),
        ("gefitinib", "gefitniib", True),
        ("gefitinib", "egfitinib", True),
        ("gefitinib", "gefitinbi", True),
        ("gefitinib", "gefitinib", False),
        ("gefitinib", "gefitn", False),
        ("gefitinib", "gfeitniib", False),
        ("cyp2c9", "cyp2c8", False),
        ("cyp2c9", "cyp2c19", False),
        ("il-13a", "il-31a", False),
        ("hepatitis b", "hepatitis c", False),
        ("lung cancer", "lungcancer", True),
        ("lung cancer", "lung cancr", True),
        ("vitamin d", "vitamins d", True),
    ],
)
def test_one_edit_is(one: str, other: str, near: bool) -> None:
    assert is_one_edit(one, other) is near


WORDS = st.text(alphabet="abc", min_size=1, max_size=8)


@given(st.lists(WORDS, max_size=12), WORDS)
def test_look_up_finds_what_comparing_all_finds(terms: list[str], mention: str) -> None:
    long = {t for t in terms if len(t) >= LEAST_CHARACTERS}
    wanted = sorted(t for t in long if is_one_edit(t, mention))
    assert list(OneEdit(terms).near(mention)) == (
        wanted if len(mention) >= LEAST_CHARACTERS else []
    )


@given(WORDS, WORDS)
def test_one_edit_goes_both_ways(one: str, other: str) -> None:
    assert is_one_edit(one, other) == is_one_edit(other, one)


@given(st.text(alphabet="abc", min_size=5, max_size=9), st.data())
def test_every_single_slip_is_found(term: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(term) - 2))
    swapped = term[:place] + term[place + 1] + term[place] + term[place + 2 :]
    for slip in (term[:place] + term[place + 1 :], f"{term[:place]}z{term[place:]}", swapped):
        if slip != term and len(slip) >= LEAST_CHARACTERS:
            assert term in OneEdit([term]).near(slip)
