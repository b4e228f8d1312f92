"""Which drugs stand in a chunk's head, its path and its stamp: gathers over the chunk table.

Ingest stamps them with its lexicon. Under another lexicon (an overlay) they are found anew for
this process, so that a mended record needs no new index.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from retriever.biomed.annotation import learn, match_with
from retriever.biomed.carried import Carried
from retriever.biomed.lexicon import Lexicon
from retriever.biomed.matcher import Match
from retriever.index.store import Index
from retriever.types import Booleans, Floats, Integers

__all__ = ["HEAD_CHARACTERS", "Mentions", "path_blob", "stamp"]

HEAD_CHARACTERS = 512
# Fewer characters at a border may agree by chance.
LEAST_OVERLAP = 8
STAMPS = ("head", "path", "primary")


def path_blob(path: str, file_name: str, document_name: str, source_uri: str) -> str:
    """Return what is searched for a drug beside the text: where the document came from."""
    return " ".join(part for part in (path, file_name, document_name, source_uri) if part)


def stamp(
    texts: Sequence[str],
    documents: Sequence[str],
    whole: Mapping[str, str],
    blobs: Sequence[str],
    lexicon: Lexicon,
) -> dict[str, list[list[str]]]:
    """Return the drugs of each chunk's first 512 characters and of its path blob.

    `documents` has the document of each chunk and `whole` the text of each document: an
    abbreviation that it defines stands for its long form in all its chunks.
    """
    learned = {document: learn(lexicon, text) for document, text in whole.items()}
    head = [
        _drugs(match_with(lexicon, text[:HEAD_CHARACTERS], learned[document]), lexicon)
        for text, document in zip(texts, documents, strict=True)
    ]
    known: dict[str, list[str]] = {}
    for blob in blobs:
        if blob not in known:
            known[blob] = list(lexicon.drugs_in(blob))
    return {"head": head, "path": [known[blob] for blob in blobs]}


def _drugs(matches: Iterable[Match], lexicon: Lexicon) -> list[str]:
    mentioned = dict.fromkeys(match.entity_id for match in matches)
    return [entity_id for entity_id in mentioned if lexicon.entity(entity_id).drug]


class Mentions:
    """Lookup of drugs by chunk, over one index under one lexicon."""

    def __init__(self, index: Index, lexicon: Lexicon) -> None:
        self._size = len(index.chunks)
        columns = {name: f"biomed:{name}" for name in STAMPS}
        stamped = index.manifest.plugins.get("biomed", "")
        if lexicon.fingerprint in stamped:
            self._rows = {n: index.chunks.rows_by_value(c) for n, c in columns.items()}
        else:
            self._rows = _found_anew(index, lexicon)
        self._stamped = np.zeros(self._size, dtype=np.bool_)
        for rows in self._rows["primary"].values():
            self._stamped[rows] = True

    @classmethod
    def of(cls, index: Index, lexicon: Lexicon) -> "Mentions":
        """Return the lookup, made once an index and lexicon."""
        return _mentions(index.manifest.fingerprint, lexicon.fingerprint, Carried((index, lexicon)))

    def marked(self, stamp_name: str, drugs: Iterable[str], rows: Integers) -> Booleans:
        """Tell which of some chunk rows hold any of some drugs."""
        held = self._rows[stamp_name]
        found = np.zeros(rows.shape, dtype=np.bool_)
        for drug in drugs:
            if drug in held and len(held[drug]):
                at = np.searchsorted(held[drug], rows)
                found |= held[drug].take(at, mode="clip") == rows
        return found

    def has_primary(self, rows: Integers) -> Booleans:
        """Tell which of some chunk rows are about any drug at all."""
        return np.where(rows >= 0, self._stamped[rows], False)

    def entity_boost(self, drugs: Sequence[str], rows: Integers) -> Floats:
        """Return 1 where the chunk is about a drug, 0.5 where its path names one, else 0."""
        primary = self.marked("primary", drugs, rows)
        return np.where(primary, 1.0, np.where(self.marked("path", drugs, rows), 0.5, 0.0))


@lru_cache(maxsize=8)
def _mentions(index: str, lexicon: str, made_of: Carried[tuple[Index, Lexicon]]) -> Mentions:
    return Mentions(*made_of.value)


def _found_anew(index: Index, lexicon: Lexicon) -> dict[str, dict[str, Integers]]:
    """Stamp every chunk again, by this lexicon, as ingest would."""
    from retriever.biomed.primary_drugs import primary_drugs

    chunks = index.chunks
    rows = np.arange(len(chunks), dtype=np.int32)
    texts = chunks.values("text", rows)
    parts = [chunks.values(c, rows) for c in ("path", "file_name", "document_name", "source_uri")]
    ids = chunks.document_ids
    owner = [ids[document] for document in chunks.document_of.tolist()]
    records = index.registry.get(index.registry_id, ids)
    pieces: dict[str, list[str]] = {}
    for document, text, structure in zip(
        owner, texts, chunks.values("structure", rows), strict=True
    ):
        of_document = pieces.setdefault(document, [])
        if structure:  # the last chunk of its document, with the title and the whole text
            of_document.clear()
        of_document.append(text)
    whole = {d: whole_text(records[d].title, texts) for d, texts in pieces.items()}
    found = stamp(texts, owner, whole, [path_blob(*b) for b in zip(*parts, strict=True)], lexicon)
    about = {
        document: list(primary_drugs(record.name, record.file_name, record.title, text, lexicon))
        for document, text in whole.items()
        for record in [records[document]]
    }
    found["primary"] = [about[document] for document in owner]
    return {name: _by_value(values) for name, values in found.items()}


def whole_text(title: str, pieces: Sequence[str]) -> str:
    """Return a document's text from the texts of its chunks, in order, save for white space.

    A chunk begins with the title's line, or the beginning of it, and may repeat the end of the
    chunk before.
    """
    text = ""
    for piece in pieces:
        body = _body(title.strip(), piece)
        repeated = _overlap(text, body)
        text = text + body[repeated:] if repeated else f"{text}\n{body}".lstrip("\n")
    return text


def _body(title: str, piece: str) -> str:
    first, line_break, rest = piece.partition("\n")
    return rest if title and line_break and title.startswith(first) else piece


def _overlap(before: str, after: str) -> int:
    """Return how many characters at the end of one text the other begins with; 0 if too few."""
    start = max(0, len(before) - len(after))
    while len(before) - start >= LEAST_OVERLAP:
        start = before.find(after[:LEAST_OVERLAP], start)
        if start < 0:
            return 0
        if after.startswith(before[start:]):
            return len(before) - start
        start += 1
    return 0


def _by_value(lists: Sequence[Sequence[str]]) -> dict[str, Integers]:
    rows: dict[str, list[int]] = {}
    for row, values in enumerate(lists):
        for value in dict.fromkeys(values):
            rows.setdefault(value, []).append(row)
    return {value: np.array(of_value, dtype=np.int32) for value, of_value in rows.items()}
