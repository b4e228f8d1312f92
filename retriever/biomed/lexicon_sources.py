"""Lexicons made from what a user has: lists of names, or the documents' own names in a corpus.

What is left out is counted by reason: a lexicon that lacks a term says nothing of it later.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path, PurePath
from typing import Final

from retriever.biomed.lexicon import NAME_PREFIX, Entity
from retriever.biomed.matcher import term_key
from retriever.files import InputError, write_atomically
from retriever.ingest.chunk import Document
from retriever.ingest.read import read_documents

__all__ = ["Built", "from_corpus", "from_name_lists", "write_lexicon"]

# A word that ends as many names may say what kind of document each is.
COMMON_FROM: Final = 3
SHORTEST_DOCUMENT_NAME: Final = 4
MOST_WORDS: Final = 5

_BRACKETED: Final = re.compile(r"([^()]+)\(([^()]+)\)")
_SEPARATORS: Final = re.compile(r"[_\s]+")
_STOPS: Final = re.compile(r"[,;:]\s|\s[-–—|]\s")
_EDGES: Final = " .,;:-–—/\"'"


@dataclass(frozen=True)
class Built:
    """Records in order of id, and what was left out, by reason."""

    entities: tuple[Entity, ...]
    skipped: Counter[str]


def from_name_lists(
    files: Sequence[Path],
    *,
    is_drug: bool | None = None,
    semantic_types: tuple[str, ...] = (),
    shortest: int = 1,
) -> Built:
    """Read lists of names: an entity a line, its name first, further names after tabs.

    Blank lines and lines that begin with # are passed over. An id is `term:` and the first name in
    lower case. A name that an earlier line has already, and a name of fewer than `shortest`
    characters, is left out. Raises InputError for a file that cannot be read or gives no name.
    """
    skipped: Counter[str] = Counter()
    taken: set[str] = set()
    entities: dict[str, Entity] = {}
    for file in files:
        for line in _lines(file):
            names = []
            for name in (" ".join(cell.split()) for cell in line.split("\t")):
                if not name:
                    continue
                if len(name) < shortest:
                    skipped[f"shorter than {shortest} characters"] += 1
                elif (key := _exact_key(name)) in taken:
                    skipped["named before"] += 1
                else:
                    taken.add(key)
                    names.append(name)
            if names:
                entity_id = _free_id("term", names[0], entities)
                entities[entity_id] = Entity(
                    entity_id, names[0], tuple(names[1:]), semantic_types, is_drug
                )
    if not entities:
        raise InputError("no name in the list", path=files[0] if files else None)
    return Built(tuple(entities[i] for i in sorted(entities)), skipped)


def _exact_key(name: str) -> str:
    """Return what makes two names one: short ones differ in case, as in matching."""
    key = term_key(name)
    return name if len(key) <= 3 else key


def _free_id(kind: str, name: str, taken: dict[str, Entity]) -> str:
    """Return `kind:name`, with a number where another record has it."""
    wanted = f"{kind}:{term_key(name)}".removeprefix(NAME_PREFIX)
    found, number = wanted, 1
    while found in taken:
        number += 1
        found = f"{wanted} ({number})"
    return found


def _lines(file: Path) -> Iterator[str]:
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=file) from error
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8", path=file, line=number, fix="re-save as UTF-8") from error
    for line in text.split("\n"):
        if line.strip() and not line.startswith("#"):
            yield line.rstrip("\r")


def from_corpus(corpus: Path) -> Built:
    """Make a record of what each document of a corpus is named after.

    Of a document's name, a file's extension goes, then what stands after a comma, colon or dash,
    then words at the end that say what kind of document it is (label, review, card A): words that
    end at least three names and begin none. A name such as `Gilotrif (afatinib) label` is two, the
    one in small letters first; a title of this form gives further names where it shares one with
    the name. Documents that share a name share the record. A
    term has 4 characters at least, 5 words at most and a letter. Whether it is a drug is left to
    its name: read the result, and `prune` it.
    """
    documents = [(_name(document), document.title) for document in read_documents(corpus)]
    kinds = _kinds([name.split() for name in {name for name, _ in documents}])
    skipped: Counter[str] = Counter()
    owner: dict[str, str] = {}
    found: dict[str, dict[str, str]] = {}
    for name, title in documents:
        terms: dict[str, str] = {}
        for term in _terms(name, title, kinds):
            terms.setdefault(term_key(term), term)
        if not terms:
            skipped["documents without a name of their own"] += 1
            continue
        known = next((owner[key] for key in terms if key in owner), next(iter(terms)))
        for key, term in terms.items():
            if owner.setdefault(key, known) == known:
                found.setdefault(known, {}).setdefault(key, term)
    if not found:
        raise InputError("no document has a name of its own", path=corpus)
    entities = [
        Entity(f"document:{key}", first, tuple(others))
        for key, terms in sorted(found.items())
        for first, *others in [tuple(terms.values())]
    ]
    return Built(tuple(entities), skipped)


def _name(document: Document) -> str:
    name = document.name
    suffix = PurePath(name).suffix
    if 2 <= len(suffix) <= 5 and suffix[1:].isalnum() and not suffix[1:].isdigit():
        name = name.removesuffix(suffix)
    name = _STOPS.split(_SEPARATORS.sub(" ", name).strip())[0]
    return name.strip(_EDGES)


def _kinds(names: Sequence[list[str]]) -> set[str]:
    """Return the words that say what kind of document one is, found from the end of the names."""
    kinds: set[str] = set()
    begin = {words[0].casefold() for words in names if words}
    while True:
        ends = Counter(rest[-1].casefold() for words in names if (rest := _without(words, kinds)))
        more = {word for word, count in ends.items() if count >= COMMON_FROM} - begin - kinds
        if not more:
            return kinds
        kinds |= more


def _without(words: list[str], kinds: set[str]) -> list[str]:
    end = len(words)
    while end and words[end - 1].casefold() in kinds:
        end -= 1
    return words[:end]


def _terms(name: str, title: str, kinds: set[str]) -> Iterator[str]:
    whole = " ".join(_without(name.split(), kinds))
    own = [part for part in _pair(whole) if part.casefold() not in kinds and _is_term(part)]
    if len(own) < 2:
        own = [whole] if _is_term(whole) else []
    elif own[1][0].islower():  # a brand is written with a capital, a generic name without
        own.reverse()
    yield from own
    pair = _pair(title)
    if set(map(term_key, own)) & set(map(term_key, pair)):
        yield from (part for part in pair if _is_term(part))


def _pair(text: str) -> list[str]:
    """Return the two names in a text like `Gilotrif (afatinib) tablets`, of another none."""
    found = _BRACKETED.match(text)
    return [part.strip(_EDGES) for part in found.groups()] if found else []


def _is_term(term: str) -> bool:
    return (
        len(term) >= SHORTEST_DOCUMENT_NAME
        and len(term.split()) <= MOST_WORDS
        and any(character.isalpha() for character in term)
    )


def write_lexicon(path: Path, entities: Iterable[Entity]) -> None:
    """Write records as JSON, one a line, empty fields left out; the file is replaced in one step.

    Raises InputError for a name that does not end in .json, which could not be read back.
    """
    if path.suffix.lower() != ".json":
        raise InputError("a lexicon is written as JSON", path=path, fix="end the name in .json")
    lines = (json.dumps(_record(entity), ensure_ascii=False) for entity in entities)
    write_atomically(path, ("[\n" + ",\n".join(lines) + "\n]\n").encode())


def _record(entity: Entity) -> dict[str, object]:
    values = {field.name: getattr(entity, field.name) for field in fields(entity)}
    return {name: value for name, value in values.items() if value not in ((), None)}
