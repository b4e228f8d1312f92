"""Entity linking: which record of the lexicon a mention means, or none (NIL).

Candidates come in four ways, in this order, each entity once:

    exact      the mention is a name or alias (in its context, the abbreviation's long form is)
    variant    another spelling of the mention is: word order, hyphen, plural, British, Greek, an
               abbreviation of the lexicon written out, a drug without its salt or form
    one_edit   a name or alias is one slip of the keyboard away
    bm25       names, aliases and their spellings share words with the mention

The first 50 are kept; a cross-encoder, where one is given, puts those that are not exact in another
order. `similarity` says how alike mention and term are, 0 to 1, by their words weighted by rarity;
a mention whose first candidate has less than `nil_below` is NIL.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, Protocol

import numpy as np
import numpy.typing as npt

from retriever.biomed.abbreviations import definitions
from retriever.biomed.edits import OneEdit
from retriever.biomed.lexicon import Lexicon
from retriever.biomed.matcher import SHORT, term_key
from retriever.biomed.variants import compact, variants
from retriever.config import BM25Config
from retriever.index.bm25 import BM25Index

__all__ = ["CANDIDATES", "NIL_BELOW", "Candidate", "Linked", "Linker", "Mention", "Way"]

CANDIDATES: Final = 50
# Chosen on BC5CDR's dev split (benchmarks/bc5cdr_linking.py).
NIL_BELOW: Final = 0.7

# What follows a drug's name and is no other drug: its salt, its form.
_FORM: Final = re.compile(
    r"(?P<drug>.+?)(?: (?:(?:mono|di|hemi)?(?:hydrochloride|hydrobromide|hydrate)|mesylate|"
    r"mesilate|besylate|tosylate|esylate|maleate|fumarate|succinate|tartrate|"
    r"tablets?|capsules?|injections?|infusions?|suspension))+",
    re.IGNORECASE,
)

Way = Literal["exact", "variant", "one_edit", "bm25"]


class PairScorer(Protocol):
    """A cross-encoder: a logit for the mention read together with each of some terms."""

    def logits(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return one logit a text."""


@dataclass(frozen=True, slots=True)
class Mention:
    """What is to be linked, and the text around it, which may be empty."""

    text: str
    context: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A record of the lexicon that a mention may mean.

    `term` is the name, or the spelling of one, that was found. `bm25` is None where the candidate
    came another way, `logit` without a cross-encoder. `similarity` in [0, 1]: see `Linker`.
    """

    entity_id: str
    name: str
    term: str
    way: Way
    similarity: float
    bm25: float | None = None
    logit: float | None = None


@dataclass(frozen=True, slots=True)
class Linked:
    """A mention with its candidates, best first. `entity_id` None: NIL, no such concept."""

    mention: str
    entity_id: str | None
    candidates: tuple[Candidate, ...]


class Linker:
    """Links mentions to a lexicon; what it looks in is made when first used.

    `similarity` of a mention and a term is the weight of the words they share over the mean weight
    of all their words (Dice), a word weighing its BM25 idf over the lexicon's terms; 1 for an exact
    match or a variant. A slip of one letter costs its share: 1 - 1 / characters.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        *,
        candidates: int = CANDIDATES,
        nil_below: float = NIL_BELOW,
        cross_encoder: PairScorer | None = None,
    ) -> None:
        self.lexicon = lexicon
        self._candidates = candidates
        self._nil_below = nil_below
        self._cross_encoder = cross_encoder

    def link(self, mention: Mention) -> Linked:
        """Return the candidates of a mention and the one it is linked to, if any."""
        text = " ".join(mention.text.split())
        asked = _written_out(text, mention.context)
        found: dict[str, Candidate] = {}
        for candidate in self._found(asked):
            found.setdefault(candidate.entity_id, candidate)
            if len(found) == self._candidates:
                break
        ranked = self._reranked(mention, tuple(found.values()))
        best = ranked[0] if ranked and ranked[0].similarity >= self._nil_below else None
        return Linked(mention.text, best.entity_id if best else None, ranked)

    def _found(self, asked: str) -> Iterator[Candidate]:
        yield from self._named(asked, asked, "exact", 1.0)
        spellings = self._spellings(asked)
        for spelling in (asked, *spellings):
            yield from self._named(spelling, spelling, "variant", 1.0)
            for entity_id, name in self._compact.get(compact(spelling), ()):
                own = self.lexicon.entity(entity_id).name
                yield Candidate(entity_id, own, name, "variant", 1.0)
        key = term_key(asked)
        for term in self._one_edit.near(key):
            yield from self._named(term, term, "one_edit", 1 - 1 / len(term))
        yield from self._by_words((asked, *spellings))

    def _named(self, name: str, term: str, way: Way, similarity: float) -> Iterator[Candidate]:
        for entity_id in self.lexicon.entities_named(name):
            own = self.lexicon.entity(entity_id).name
            yield Candidate(entity_id, own, term, way, round(similarity, 6))

    def _spellings(self, asked: str) -> tuple[str, ...]:
        """Other spellings of a mention: its variants, then those with abbreviations written out."""
        found = dict.fromkeys(variants(asked))
        if bare := _FORM.fullmatch(asked):
            found[bare["drug"]] = None
        words = asked.split()
        if len(words) > 1:
            for place, word in enumerate(words):
                for entity_id in self._abbreviated.get(word, ()):
                    long = self.lexicon.entity(entity_id).name
                    whole = " ".join((*words[:place], long, *words[place + 1 :]))
                    found.update(dict.fromkeys((whole, *variants(whole))))
        return tuple(found)

    def _by_words(self, spellings: Sequence[str]) -> list[Candidate]:
        """Return entities by the BM25 of their best term over all spellings, best first."""
        terms, index = self._terms, self._index
        rows, scores = index.search(spellings, 4 * self._candidates)
        best: dict[str, tuple[float, int, int]] = {}
        for spelling, (of_spelling, of_scores) in enumerate(zip(rows, scores, strict=True)):
            for row, score in zip(of_spelling.tolist(), of_scores.tolist(), strict=True):
                if row < 0:
                    break
                entity_id = terms[row][1]
                if entity_id not in best or score > best[entity_id][0]:
                    best[entity_id] = score, row, spelling
        order = sorted(best, key=lambda entity_id: (-best[entity_id][0], entity_id))
        found = []
        for entity_id in order[: self._candidates]:
            score, row, spelling = best[entity_id]
            term = terms[row][0]
            alike = self._similarity(spellings[spelling], term)
            name = self.lexicon.entity(entity_id).name
            found.append(Candidate(entity_id, name, term, "bm25", alike, bm25=score))
        return found

    def _similarity(self, one: str, other: str) -> float:
        own, others = set(self._index.terms_of(one)), set(self._index.terms_of(other))
        weight = self._index.idf
        total = sum(map(weight, own)) + sum(map(weight, others))
        shared = sum(map(weight, own & others))
        return round(2 * shared / total, 6) if total else 0.0

    def _reranked(
        self, mention: Mention, candidates: tuple[Candidate, ...]
    ) -> tuple[Candidate, ...]:
        rest = [candidate for candidate in candidates if candidate.way != "exact"]
        if self._cross_encoder is None or not rest:
            return candidates
        asked = f"{mention.text} | {mention.context}" if mention.context else mention.text
        logits = self._cross_encoder.logits(asked, [c.term for c in rest]).tolist()
        scored = [replace(c, logit=round(x, 6)) for c, x in zip(rest, logits, strict=True)]
        scored.sort(key=lambda c: -(c.logit or 0.0))  # stable: of equal ones the earlier
        return (*(c for c in candidates if c.way == "exact"), *scored)

    @cached_property
    def _terms(self) -> tuple[tuple[str, str], ...]:
        """Every name and alias, and those of their spellings that have other words: (term, id)."""
        return tuple(self._all_terms())

    def _all_terms(self) -> Iterator[tuple[str, str]]:
        tokenizer = BM25Index.build([], BM25Config()).tokenizer
        for entity in self.lexicon.entities:
            for name in self.lexicon.names_of(entity.id):
                seen = set()
                for spelling in (name, *variants(name)):
                    bag = tuple(sorted(tokenizer.tokenize([spelling])[0]))
                    if bag not in seen:
                        seen.add(bag)
                        yield spelling, entity.id

    @cached_property
    def _index(self) -> BM25Index:
        return BM25Index.build([term for term, _ in self._terms], BM25Config())

    @cached_property
    def _one_edit(self) -> OneEdit:
        return OneEdit(
            term_key(name) for e in self.lexicon.entities for name in (e.name, *e.aliases)
        )

    @cached_property
    def _compact(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """(entity id, name) by name without hyphens and spaces."""
        found: dict[str, tuple[tuple[str, str], ...]] = {}
        for entity in self.lexicon.entities:
            for name in self.lexicon.names_of(entity.id):
                key = compact(name)
                if len(key) > SHORT:  # a shorter one means something in its own case alone
                    found[key] = (*found.get(key, ()), (entity.id, name))
        return found

    @cached_property
    def _abbreviated(self) -> Mapping[str, tuple[str, ...]]:
        """Entities by each of their abbreviations: an alias of 2 to 6 capitals and digits."""
        found: dict[str, tuple[str, ...]] = {}
        for entity in self.lexicon.entities:
            for alias in entity.aliases:
                if 2 <= len(alias) <= 6 and alias.isalnum() and alias == alias.upper():
                    found[alias] = (*found.get(alias, ()), entity.id)
        return found


def _written_out(mention: str, context: str) -> str:
    """Return the long form of a mention that its context defines as an abbreviation."""
    for definition in definitions(context):
        if definition.short == mention:
            return " ".join(context[definition.start : definition.end].split())
    return mention
