"""Anyone's run: a TREC file or a JSON object, plain or gzip, told apart by content.

The order is trec_eval's whatever the file's own: scores compared as 32-bit floats, descending
(1.00000001 ties 1.0), then document ids by bytes, descending; the rank column is ignored
(form_res_rels.c in github.com/usnistgov/trec_eval).
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Final

from gold.faults import InputError
from gold.files import UTF8_MARK, read_bytes
from gold.model import Run
from gold.run_json import json_entries, json_places
from gold.trec import run_rows, score_of

Entries = dict[str, tuple[list[str], list[float]]]
"""query_id -> (document ids, scores), both in the file's order."""

_OTHER_FORMATS: Final = {
    b"\x04\x22\x4d\x18": "an LZ4 file",
    b"PAR1": "a Parquet file",
    b"PK\x03\x04": "a ZIP archive",
    b"\x80": "a pickle",
}
_FIX: Final = "save the run as TREC or as JSON {query: {document: score}}"


def read_run(path: Path | str, repair: bool = False) -> Run:
    """Read a run: TREC (6 columns) or JSON `{query: {document: score}}`, as ranx and BEIR write it.

    Queries stand in the file's order; a JSON query without documents has an empty ranking. A
    document twice for one query is an error that names both lines; with `repair` its highest score
    stays and `Run.repaired` counts what was dropped. Raises `InputError` naming file, line and
    remedy for that, for a score that is no finite 32-bit number, for a wrong column count, an
    empty run and any other format.
    """
    source = Path(path)
    data = read_bytes(source)
    for magic, other in _OTHER_FORMATS.items():
        if data.startswith(magic):
            raise InputError(f"{other} is not read as a run", source, fix=_FIX)
    if data.removeprefix(UTF8_MARK).lstrip()[:1] in (b"{", b"["):
        return _json_run(source, data, repair)
    return _trec_run(source, data, repair)


def _trec_run(path: Path, data: bytes, repair: bool) -> Run:
    entries: Entries = {}
    name = ""
    for line, query_id, document_id, score_text, tag in run_rows(path, data):
        score = score_of(score_text)
        if score is None:
            message = f"the score {score_text!r} is no finite number of 32 bits"
            raise InputError(message, path, line, "score every document with a number")
        if not entries:
            name = tag
        documents, scores = entries.setdefault(query_id, ([], []))
        documents.append(document_id)
        scores.append(score)
    if not repair:
        for query_id, (documents, _) in entries.items():
            twice = _first_repeated(documents)
            if twice is not None:
                rows = run_rows(path, data)
                lines = [row[0] for row in rows if row[1:3] == (query_id, twice)]
                raise _repeated(path, query_id, twice, lines)
    rankings, scores_of, dropped = _in_order(path, entries)
    return Run(rankings, scores_of, name, "trec", dropped)


def _json_run(path: Path, data: bytes, repair: bool) -> Run:
    pairs, text = json_entries(path, data)
    entries: Entries = {}
    repeated = 0
    for query_id, documents, scores in pairs:
        if query_id in entries:
            repeated += 1
            if not repair:
                lines = [line for line, *pair in json_places(text) if pair == [query_id, None]]
                message = f"query {query_id!r} stands in lines {lines[0]} and {lines[1]}"
                raise InputError(message, path, lines[1], "keep one, or assay evaluate --repair")
        known, known_scores = entries.setdefault(query_id, ([], []))
        known += documents
        known_scores += scores
        twice = None if repair else _first_repeated(documents)
        if twice is not None:
            lines = [line for line, *pair in json_places(text) if pair == [query_id, twice]]
            raise _repeated(path, query_id, twice, lines)
    rankings, scores_of, dropped = _in_order(path, entries)
    return Run(rankings, scores_of, path.name.split(".")[0], "json", dropped + repeated)


def _in_order(
    path: Path, entries: Entries
) -> tuple[dict[str, list[str]], dict[str, list[float]], int]:
    """Return rankings and scores in trec_eval's order, and how many entries were dropped."""
    if not entries:
        raise InputError("the run is empty", path, fix=_FIX)
    rankings: dict[str, list[str]] = {}
    scores_of: dict[str, list[float]] = {}
    dropped = 0
    for query_id, (documents, scores) in entries.items():
        # Text compares by code point, which for UTF-8 is the order of bytes.
        ranked = sorted(zip(array("f", scores), documents, scores, strict=True), reverse=True)
        if len(set(documents)) != len(documents):
            best = {row[1]: row for row in reversed(ranked)}
            dropped += len(ranked) - len(best)
            ranked = sorted(best.values(), reverse=True)
        rankings[query_id] = [document_id for _, document_id, _ in ranked]
        scores_of[query_id] = [score for _, _, score in ranked]
    return rankings, scores_of, dropped


def _first_repeated(documents: list[str]) -> str | None:
    if len(set(documents)) == len(documents):
        return None
    seen: set[str] = set()
    return next(d for d in documents if d in seen or seen.add(d))  # type: ignore[func-returns-value]


def _repeated(path: Path, query_id: str, document_id: str, lines: list[int]) -> InputError:
    message = (
        f"query {query_id!r} lists document {document_id!r} in lines {lines[0]} and {lines[1]}"
    )
    return InputError(message, path, lines[1], "keep the best, or assay evaluate --repair")
