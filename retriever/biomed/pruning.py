"""Terms that an annotated sample shows to be ambiguous: counted, judged, dropped.

The sample is JSON lines: `{"text": "...", "mentions": [{"start": 0, "end": 9, "type": "Drug"}]}`,
offsets in characters of `text`; `type` may be absent, other keys are passed over.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from retriever.biomed.lexicon import Entity, Lexicon
from retriever.biomed.matcher import SHORT, term_key
from retriever.files import InputError, read_json_lines

__all__ = ["Annotated", "Dropped", "Pruned", "prune", "read_sample"]


@dataclass(frozen=True, slots=True)
class Annotated:
    """A text and the spans (start, end) in which experts found a mention."""

    text: str
    spans: frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A term, how often the sample has it, and how often it is a mention there."""

    term: str
    entity_ids: tuple[str, ...]
    occurrences: int
    correct: int

    @property
    def precision(self) -> float:
        """Share of the occurrences that are mentions."""
        return self.correct / self.occurrences


@dataclass(frozen=True)
class Pruned:
    """What is left of a lexicon, the terms dropped (worst first), and entities left without any."""

    lexicon: Lexicon
    dropped: tuple[Dropped, ...]
    removed: tuple[str, ...]


def read_sample(path: Path, types: Sequence[str] = ()) -> tuple[Annotated, ...]:
    """Read an annotated sample; with `types`, only mentions of those types count as mentions.

    Raises InputError with file and line for a text or offsets that are missing or wrong, for a
    mention without a type where types are asked for, and for a sample without any mention.
    """
    wanted = frozenset(types)
    found = []
    for line, record in read_json_lines(path):
        text, mentions = record.get("text"), record.get("mentions")
        if not isinstance(text, str) or not isinstance(mentions, list):
            raise InputError(
                "expected text and mentions",
                path=path,
                line=line,
                fix='{"text": "...", "mentions": [{"start": 0, "end": 9}]}',
            )
        spans = [_span(mention, text, wanted, path, line) for mention in mentions]
        found.append(Annotated(text, frozenset(span for span in spans if span is not None)))
    if not any(item.spans for item in found):
        raise InputError("no mention in the sample", path=path, fix="check types")
    return tuple(found)


def _span(
    mention: Any, text: str, types: frozenset[str], path: Path, line: int
) -> tuple[int, int] | None:
    values: Mapping[str, Any] = mention if isinstance(mention, dict) else {}
    start, end = values.get("start"), values.get("end")
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(text):
        raise InputError(
            f"a mention from {start!r} to {end!r} in a text of {len(text)} characters",
            path=path,
            line=line,
            fix="start and end count characters from 0, end is not included",
        )
    if types and "type" not in values:
        raise InputError("a mention without a type", path=path, line=line, fix="give its type")
    return (start, end) if not types or values["type"] in types else None


def prune(
    lexicon: Lexicon,
    sample: Iterable[Annotated],
    *,
    below: float = 0.5,
    occurrences: int = 2,
) -> Pruned:
    """Drop every term that is a mention in less than a share `below` of its occurrences.

    An occurrence is a place where the term is matched, as a whole document is matched but without
    abbreviations; it is correct when experts marked exactly that span. Terms seen fewer than
    `occurrences` times stay. A dropped term may uncover a shorter one, so this is repeated until
    nothing more falls. An entity whose name falls takes its first alias as name; without one it is
    removed. Raises ValueError for `below` outside [0, 1] or `occurrences` below 1.
    """
    if not 0 <= below <= 1 or occurrences < 1:
        raise ValueError(f"expected 0 <= below <= 1 and occurrences >= 1: {below}, {occurrences}")
    items = tuple(sample)
    dropped: dict[str, Dropped] = {}
    left = lexicon
    while True:
        fallen = _fallen(left, items, below, occurrences)
        if not fallen:
            break
        dropped.update(fallen)
        left = _without(left, fallen.keys())
    worst_first = sorted(
        dropped.values(), key=lambda d: (d.correct - d.occurrences, d.term.casefold(), d.term)
    )
    removed = (e.id for e in lexicon.entities if e.id not in left)
    return Pruned(left, tuple(worst_first), tuple(removed))


def _fallen(
    lexicon: Lexicon, sample: Sequence[Annotated], below: float, occurrences: int
) -> dict[str, Dropped]:
    seen: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    spelt: dict[str, str] = {}
    for item in sample:
        for match in lexicon.match(item.text):
            key = _key(match.term)
            seen[key] += 1
            correct[key] += (match.start, match.end) in item.spans
            spelt.setdefault(key, match.term)
    return {
        key: Dropped(spelt[key], lexicon.entities_named(spelt[key]), count, correct[key])
        for key, count in seen.items()
        if count >= occurrences and correct[key] < below * count
    }


def _key(term: str) -> str:
    """Return what a term is counted under: short ones match in their own case alone."""
    key = term_key(term)
    return term if len(key) <= SHORT else key


def _without(lexicon: Lexicon, keys: Iterable[str]) -> Lexicon:
    gone = frozenset(keys)
    return Lexicon(
        tuple(_left(entity, gone) for entity in lexicon.entities if _names(entity, gone))
    )


def _names(entity: Entity, gone: frozenset[str]) -> list[str]:
    return [name for name in (entity.name, *entity.aliases) if _key(name) not in gone]


def _left(entity: Entity, gone: frozenset[str]) -> Entity:
    first, *others = names = _names(entity, gone)
    if len(names) == 1 + len(entity.aliases):
        return entity
    # What the name said of being a drug must outlive the name.
    return replace(entity, name=first, aliases=tuple(others), is_drug=entity.drug)
