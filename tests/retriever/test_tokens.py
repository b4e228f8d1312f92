"""Tokens keep apart what default tokenisers confuse."""

import pytest

from retriever.index.tokens import Tokenizer

biomedical = Tokenizer.make("biomedical")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("IL-2", "IL-6"),
        ("vitamin D", "vitamin K"),
        ("TGF-β", "TGF-α"),
        ("PD-1", "PD-L1"),
        ("5-HT", "5-FU"),
        ("p53", "p63"),
        ("CYP3A4", "CYP2D6"),
    ],
)
def test_names_differ_when_only_a_digit_or_letter_does(one: str, other: str) -> None:
    first, second = (set(tokens) for tokens in biomedical.tokenize([one, other]))
    assert first - second
    assert second - first


def test_hyphenated_word_is_whole_and_in_parts() -> None:
    assert biomedical.tokenize(["TGF‑β signalling"]) == [["tgf-β", "tgf", "β", "signal"]]


def test_only_words_of_letters_are_stemmed() -> None:
    assert biomedical.tokenize(["inhibitors p53s HER2s"]) == [["inhibitor", "p53s", "her2s"]]


def test_possessive_leaves_no_token_of_its_own() -> None:
    assert biomedical.tokenize(["Crohn's disease"]) == biomedical.tokenize(["Crohn disease"])


def test_plain_tokens_equal_those_of_bm25s() -> None:
    import bm25s
    import Stemmer

    texts = [
        "The Effects of IL-2 and vitamin D3 on p53's running studies: α-synuclein!",
        "naïve T_cells; 5-HT (serotonin) is not it",
        "",
    ]
    theirs = bm25s.tokenize(
        texts,
        stopwords="en",
        stemmer=Stemmer.Stemmer("english"),
        return_ids=False,
        show_progress=False,
    )
    assert Tokenizer.make("plain").tokenize(texts) == theirs
