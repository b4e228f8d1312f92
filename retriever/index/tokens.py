"""Tokenisers of the lexical index.

`biomedical` keeps apart what default tokenisers confuse (IL-2 and IL-6, vitamin D and vitamin K):
a hyphenated word is indexed whole and as its parts, single characters stay, and only words made of
letters alone are stemmed. `plain` is bm25s' own; `whitespace` splits and lower-cases.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

__all__ = ["KINDS", "TOKENS_VERSION", "Tokenizer"]

Kind = Literal["biomedical", "plain", "whitespace"]
KINDS: tuple[str, ...] = get_args(Kind)

# Raise it when a text can give other terms than before: an index and its queries must agree.
TOKENS_VERSION = 1

_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_PLAIN = re.compile(r"(?u)\b\w\w+\b")
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b")
# Hyphens and minus signs that papers use for one and the same mark.
_HYPHENS = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"))


@dataclass(frozen=True)
class Tokenizer:
    """Text to terms. `stop_words` is kept with the index, so that a search imports no more."""

    kind: Kind
    stop_words: frozenset[str] = frozenset()
    _stems: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def make(cls, kind: Kind) -> "Tokenizer":
        """Return the tokeniser with bm25s' English stop list (none for `whitespace`)."""
        if kind == "whitespace":
            return cls(kind)
        from bm25s.stopwords import STOPWORDS_EN

        return cls(kind, frozenset(STOPWORDS_EN))

    def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
        """Return each text's terms in order, repeats kept."""
        if self.kind == "whitespace":
            return [text.lower().split() for text in texts]
        split = self._biomedical if self.kind == "biomedical" else self._plain
        return [split(text) for text in texts]

    def _biomedical(self, text: str) -> list[str]:
        text = _POSSESSIVE.sub("", text.translate(_HYPHENS).lower())
        terms = []
        for word in _WORD.findall(text):
            if "-" in word:
                terms.append(word)
                parts = word.split("-")
            else:
                parts = [word]
            terms += [self._stem(part) for part in parts if part not in self.stop_words]
        return terms

    def _plain(self, text: str) -> list[str]:
        words = _PLAIN.findall(text.lower())
        return [_snowball()(word) for word in words if word not in self.stop_words]

    def _stem(self, word: str) -> str:
        if not word.isalpha():
            return word
        stem = self._stems.get(word)
        if stem is None:
            stem = self._stems[word] = _snowball()(word)
        return stem


def _snowball() -> Callable[[str], str]:
    """Return Snowball's English stemmer, made once (it keeps its own cache of words)."""
    global _stemmer
    if _stemmer is None:
        import Stemmer

        _stemmer = Stemmer.Stemmer("english").stemWord
    return _stemmer


_stemmer: Callable[[str], str] | None = None
