"""The terms of a lexicon in a whole document, with the abbreviations that the document defines.

A query is matched by `Lexicon.match` alone: it defines nothing, and must be quick.
"""

import re
from collections.abc import Mapping

from retriever.biomed.abbreviations import definitions
from retriever.biomed.lexicon import Lexicon
from retriever.biomed.matcher import Match

__all__ = ["annotate", "learn", "match_with"]

# A short form and the entity it stands for in one document; None: something the lexicon lacks.
Learned = Mapping[str, str | None]


def annotate(lexicon: Lexicon, text: str) -> tuple[Match, ...]:
    """Return the entities that a document mentions, in order of place, none overlapping.

    As `Lexicon.match`, and an abbreviation that the document defines stands everywhere in it for
    what its long form is: for that entity, or, where nothing in the long form is known, for none.
    `term` of such a match is the abbreviation.
    """
    return match_with(lexicon, text, learn(lexicon, text))


def learn(lexicon: Lexicon, text: str) -> Learned:
    """Return what each abbreviation defined in a text stands for; the first definition counts.

    One whose long form only overlaps a term is left out: it may mean that or something wider.
    """
    found = definitions(text)
    if not found:
        return {}
    matches = lexicon.match(text)
    whole = {(match.start, match.end): match.entity_id for match in matches}
    learned: dict[str, str | None] = {}
    for definition in found:
        span = definition.start, definition.end
        if definition.short in learned:
            continue
        if span in whole:
            learned[definition.short] = whole[span]
        elif not any(m.start < definition.end and definition.start < m.end for m in matches):
            learned[definition.short] = None
    return learned


def match_with(lexicon: Lexicon, text: str, learned: Learned) -> tuple[Match, ...]:
    """Return the matches in a part of a document under what the whole of it defines.

    An abbreviation is found in its own case, by the boundaries of the lexicon's terms; it replaces
    matches that lie within it and yields to longer ones.
    """
    matches = lexicon.match(text)
    if not learned:
        return matches
    kept = list(matches)
    for place in _pattern(learned).finditer(text):
        start, end = place.span()
        touched = [match for match in kept if match.start < end and start < match.end]
        if any(match.start < start or end < match.end for match in touched):
            continue
        kept = [match for match in kept if match not in touched]
        entity_id = learned[place.group()]
        if entity_id is not None:
            kept.append(Match(entity_id, place.group(), start, end))
    return tuple(sorted(kept, key=lambda match: match.start))


def _pattern(learned: Learned) -> re.Pattern[str]:
    """Match any short form where no letter touches it and no digit follows one of its own."""
    longest_first = sorted(learned, key=lambda short: (-len(short), short))
    after = {short: r"(?!\d)" if short[-1].isdigit() else "" for short in longest_first}
    forms = "|".join(re.escape(short) + after[short] for short in longest_first)
    return re.compile(rf"(?<![^\W\d_])(?:{forms})(?![^\W\d_])")
