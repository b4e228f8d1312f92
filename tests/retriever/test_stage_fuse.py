"""fuse: combined, overlap and share by hand; which lists are hybrid; the neighbours behind."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage_worlds import open_world

from retriever.config import FuseConfig
from retriever.hooks import Expansion
from retriever.pipeline import Trace
from retriever.stages.fuse import Neighbours, append_parents, bm25_share, fuse, is_hybrid, overlap
from retriever.types import Found, ListId, RankedList

DENSE = ListId("eagle_text_biomed", "dense")
YES = np.array([True])


def ranked(*scores: float) -> RankedList:
    """One query's dense list, best first."""
    rank = np.arange(1, len(scores) + 1, dtype=np.int32)[None]
    return RankedList(DENSE, rank, np.array([scores]))


def places_in_order(one: RankedList) -> list[int]:
    member = np.flatnonzero(one.rank[0] > 0)
    return member[np.argsort(one.rank[0, member])].tolist()


# ---------------------------------------------------------------------------------- combined


def test_combined_is_the_weighted_sum_when_the_list_is_hybrid() -> None:
    # .6 * .9 + .4 * .25 = .64; .6 * .8 + .4 * .5 = .68; .6 * .7 + .4 * 1 = .82
    found = fuse(FuseConfig(alpha=0.6), ranked(0.9, 0.8, 0.7), YES, np.array([[0.25, 0.5, 1.0]]))
    assert found.score[0].tolist() == [0.64, 0.68, 0.82]
    assert found.rank[0].tolist() == [3, 2, 1]
    assert found.parts["sparse"][0].tolist() == [0.25, 0.5, 1.0]


def test_combined_is_dense_when_the_list_is_not_hybrid() -> None:
    one = ranked(0.9, 0.8)
    found = fuse(FuseConfig(alpha=0.0), one, ~YES, np.array([[0.0, 1.0]]))
    assert (found.rank[0].tolist(), found.score[0].tolist()) == ([1, 2], [0.9, 0.8])
    assert np.isnan(found.parts["sparse"]).all()


numbers = st.integers(0, 4).map(lambda n: n / 4)


@settings(max_examples=30, deadline=None)
@given(pairs=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8))
def test_alpha_at_an_end_gives_the_pure_order(pairs: list[tuple[float, float]]) -> None:
    dense = sorted((d for d, _ in pairs), reverse=True)
    sparse = np.array([[s for _, s in pairs]])
    by_meaning = fuse(FuseConfig(alpha=1.0), ranked(*dense), YES, sparse)
    assert places_in_order(by_meaning) == list(range(len(dense)))
    by_words = fuse(FuseConfig(alpha=0.0), ranked(*dense), YES, sparse)
    # Python's sort is stable, so ties keep the order of the dense list
    assert places_in_order(by_words) == sorted(range(len(dense)), key=lambda i: -sparse[0, i])


@pytest.mark.parametrize(
    ("collection", "has_bm25", "forced", "expected"),
    [
        ("eagle_text_biomed", [False, True], False, [True, False]),
        ("eagle_text_biomed", [False, True], True, [True, True]),
        ("eagle_text", [False, True], True, [False, False]),
    ],
)
def test_words_are_counted_once_when_the_query_has_a_bm25_list(
    collection: str, has_bm25: list[bool], forced: bool, expected: list[bool]
) -> None:
    section = FuseConfig(fuse_with_bm25_plan=forced)
    found = is_hybrid(section, collection, np.array(has_bm25), np.array([True, True]))
    assert found.tolist() == expected


def test_query_that_does_not_search_the_list_is_not_hybrid() -> None:
    found = is_hybrid(FuseConfig(), DENSE.collection, np.array([False]), np.array([False]))
    assert found.tolist() == [False]


# ----------------------------------------------------------------------------------- overlap


@dataclass(frozen=True)
class Overlap:
    """The overlap of a query with a few texts, by number of the text."""

    world: Any

    def of(self, query: str, extra: dict[str, tuple[str, ...]] | None = None) -> list[float]:
        index = self.world.index
        rows = np.arange(len(index.chunks), dtype=np.int32)[None]
        expansion = Expansion((query,), extra or {}, (query,))
        found = overlap(index.collections["eagle_text_biomed"], index, [query], [expansion], rows)
        return [round(float(x), 6) for x in found[0]]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Overlap:
    texts = [
        "Iressa was given",  # 0
        "gefitinib dose",  # 1
        "the dose of il-2 rises",  # 2
        "indications and usage of amlodipine",  # 3
        "indications, and no usage",  # 4
        "xgefitinib gefitinibx",  # 5
        "file gefitinib_label",  # 6
    ]
    documents = [{"_id": f"d{i}", "text": text} for i, text in enumerate(texts)]
    return Overlap(open_world(tmp_path_factory.mktemp("words"), documents))


GEFITINIB = {"gefitinib": ("gefitinib", "Iressa")}


def test_overlap_is_the_share_of_terms_when_words_match(words: Overlap) -> None:
    # terms: dose, rise (stemmed); `the` and `of` are stop words; `dose` counts once
    found = words.of("the dose of dose rises")
    assert found == [0, 0.5, 1.0, 0, 0, 0, 0]


def test_overlap_counts_a_hyphenated_word_whole_and_in_parts(words: Overlap) -> None:
    # terms: il-2, il, 2
    assert words.of("il-2") == [0, 0, 1.0, 0, 0, 0, 0]
    # terms: il-6, il, 6: only `il` is in text 2
    assert words.of("il-6")[2] == pytest.approx(1 / 3, abs=1e-6)


def test_overlap_counts_a_phrase_when_it_stands_at_token_boundaries(words: Overlap) -> None:
    # the phrase alone is the term (the query has none): text 4 breaks it, 3 holds it
    cue = {"indications and usage": ("indications and usage",)}
    assert words.of("", cue) == [0, 0, 0, 1.0, 0, 0, 0]
    # `xgefitinib` is another word; `_` parts words as it does in the tokeniser
    assert words.of("", GEFITINIB) == [1.0, 1.0, 0, 0, 0, 0, 1.0]


def test_overlap_counts_any_name_when_the_extra_term_is_a_drug(words: Overlap) -> None:
    # terms: gefitinib (as a word and as a drug: once), dose
    assert words.of("gefitinib dose", GEFITINIB) == [0.5, 1.0, 0.5, 0, 0, 0, 0.5]
    # terms: iressa, dose, and the drug by any name
    assert words.of("Iressa dose", GEFITINIB)[:3] == [
        pytest.approx(2 / 3, abs=1e-6),
        pytest.approx(2 / 3, abs=1e-6),
        pytest.approx(1 / 3, abs=1e-6),
    ]


def test_overlap_counts_a_term_once_when_the_tokeniser_stems_it(words: Overlap) -> None:
    # `amlodipine` is stemmed to `amlodipin`: still one term beside `dose`
    extra = {"amlodipine": ("amlodipine", "Norvasc")}
    assert words.of("amlodipine dose", extra)[3] == 0.5


def test_overlap_is_zero_when_there_are_no_terms(words: Overlap) -> None:
    assert words.of("the of and") == [0] * 7


@settings(max_examples=25, deadline=None)
@given(
    query=st.lists(st.sampled_from(["dose", "gefitinib", "Iressa", "il-2", "the"]), max_size=6),
    drug=st.booleans(),
)
def test_overlap_is_a_share_and_blind_to_repeats(
    words: Overlap, query: list[str], drug: bool
) -> None:
    extra = GEFITINIB if drug else {}
    found = words.of(" ".join(query), extra)
    assert all(0 <= share <= 1 for share in found)
    assert words.of(" ".join([*query, *query]), extra) == found


# ------------------------------------------------------------------------------------- share


def test_share_is_bm25_over_the_lists_largest(words: Overlap) -> None:
    index = words.world.index
    collection = index.collections["eagle_text_biomed"]
    rows = np.array([[2, 1, 0]], dtype=np.int32)
    every = np.ones((1, 3), dtype=np.bool_)
    found = bm25_share(collection, ["dose"], rows, every)[0]
    # Text 1 has 2 tokens, text 2 has 5 (dose, il-2, il, 2, rise); the lengths over all texts are
    # 2 (iressa, given), 2, 5, 3 (indic, usag, amlodipin), 2, 2, 3: 19, so avgdl 19/7. With tf 1
    # the share is the ratio of 1 / (1 + 1.5 (.25 + .75 |D| / avgdl)): for |D| 2 the divisor is
    # 1 + .375 + 1.125 * 14/19 = 2.203947, for |D| 5 it is 1.375 + 1.125 * 35/19 = 3.447368.
    assert found.tolist() == [pytest.approx(2.203947 / 3.447368, abs=1e-5), 1.0, 0.0]


def test_share_takes_the_maximum_over_the_list_alone(words: Overlap) -> None:
    collection = words.world.index.collections["eagle_text_biomed"]
    rows = np.array([[2, 1]], dtype=np.int32)
    found = bm25_share(collection, ["dose"], rows, np.array([[True, False]]))
    # text 1, which scores more, is cut off: text 2 is the largest that is left
    assert found[0].tolist() == [1.0, 0.0]
    assert bm25_share(collection, ["zzz"], rows, np.array([[True, True]]))[0].tolist() == [0, 0]


# ----------------------------------------------------------------------------------- parents


def index_stand_in(document_of: Sequence[int]) -> Any:
    """A stand-in index: chunk rows and the document of each."""
    return SimpleNamespace(chunks=SimpleNamespace(document_of=np.array(document_of)))


def collection_stand_in(held: Sequence[int]) -> Any:
    """A stand-in collection that holds some chunk rows."""
    return SimpleNamespace(places_of=lambda rows: np.where(np.isin(rows, held), 0, -1))


def appended(
    document_of: Sequence[int],
    hits: Sequence[int],
    wanted: bool = True,
    held: Sequence[int] | None = None,
    members: int | None = None,
) -> list[tuple[int, float]]:
    """Rows and scores of a list after its parents; its scores are .9, .8, ..."""
    scores = 0.9 - 0.1 * np.arange(len(hits))
    rank = np.arange(1, len(hits) + 1, dtype=np.int32)
    if members is not None:
        rank[members:] = 0
    index = index_stand_in(document_of)
    collection = collection_stand_in(range(len(document_of)) if held is None else held)
    searched = Found(np.array([hits], dtype=np.int32), scores[None])
    near = Neighbours.of(index, collection, searched, np.array([wanted]))
    parents = append_parents(index, searched, RankedList(DENSE, rank[None], scores[None]), near)
    found, one = parents.found, parents.one
    chosen = parents.chosen[0]
    behind = found.rows[0, len(hits) :]
    assert near.rows[0, chosen[chosen >= 0]].tolist() == behind[behind >= 0].tolist()
    return [
        (int(found.rows[0, at]), round(float(one.score[0, at]), 6)) for at in places_in_order(one)
    ]


def test_neighbours_follow_in_hit_order_at_the_least_score() -> None:
    # documents: rows 0-4 and 5-9; hits 6 and 2; the neighbours of 6 come first
    expected = [(6, 0.9), (2, 0.8), (5, 0.8), (7, 0.8), (1, 0.8), (3, 0.8)]
    assert appended([0] * 5 + [1] * 5, [6, 2]) == expected


def test_hits_count_in_the_lists_order_when_fuse_has_moved_them() -> None:
    # six documents of three chunks; fuse has turned the order of the hits round, so the last place
    # is the first hit, and the first place has no neighbours
    rank = np.array([[6, 5, 4, 3, 2, 1]], dtype=np.int32)
    rows = np.array([[1, 4, 7, 10, 13, 16]], dtype=np.int32)
    index, searched = index_stand_in([i // 3 for i in range(18)]), Found(rows, np.full((1, 6), 0.5))
    near = Neighbours.of(index, collection_stand_in(range(18)), searched, YES)
    parents = append_parents(index, searched, RankedList(DENSE, rank, np.full((1, 6), 0.5)), near)
    order = [int(parents.found.rows[0, at]) for at in places_in_order(parents.one)]
    assert order == [16, 13, 10, 7, 4, 1, 15, 17, 12, 14, 9, 11, 6, 8, 3, 5]


def test_neighbours_end_with_the_document_and_are_never_repeated() -> None:
    # row 0 has no row before it, row 5 begins another document; 1 is held already
    assert appended([0] * 5 + [1], [0, 1, 5])[3:] == [(2, 0.7)]


def test_only_the_first_five_hits_have_neighbours() -> None:
    # six documents of three chunks; the middle of each is a hit
    document_of = [i // 3 for i in range(18)]
    found = appended(document_of, [1, 4, 7, 10, 13, 16])[6:]
    assert [row for row, _ in found] == [0, 2, 3, 5, 6, 8, 9, 11, 12, 14]
    # .9 - 5 * .1
    assert {score for _, score in found} == {0.4}


def test_document_gives_two_neighbours_when_several_of_its_chunks_are_hits() -> None:
    # rows 2 and 6 are of one document: the better hit's neighbours fill its two
    assert [row for row, _ in appended([0] * 9, [2, 6])] == [2, 6, 1, 3]


def test_neighbour_is_appended_when_the_search_found_it_below_the_cut() -> None:
    assert appended([0] * 3, [1, 2, 0], members=1) == [(1, 0.9), (0, 0.9), (2, 0.9)]


def test_neighbours_stay_in_the_collection() -> None:
    assert appended([0] * 3, [1], held=[0, 1]) == [(1, 0.9), (0, 0.9)]


def test_nothing_is_appended_when_the_query_has_an_entity() -> None:
    assert appended([0] * 5, [2], wanted=False) == [(2, 0.9)]


@pytest.mark.parametrize(("text", "grown"), [("sentence about lungs", True), ("EGFR", False)])
def test_pipeline_appends_parents_when_the_query_has_no_entity(
    tmp_path: Path, text: str, grown: bool
) -> None:
    long = " ".join(f"Sentence {i} about EGFR dose and lung." for i in range(12))
    overrides = {
        "index.chunk.max_tokens": 32,
        "index.chunk.overlap": 0,
        "route.parent_doc_retrieval": True,
        "route.recall_top_k": 1,
    }
    world = open_world(tmp_path, [{"_id": "p", "text": long}], overrides)
    trace: Trace = world.trace([text])
    (one,) = (x for x in trace.lists if x.item == DENSE)
    assert (int((one.rank > 0).sum()) > 1) is grown
    # a chunk enters the merge once, though the list may have found it twice
    slots = trace.slots.chunk[0]
    assert len(set(slots.tolist())) == len(slots)
