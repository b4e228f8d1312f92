"""A run as one JSON object: strict about repeated keys, and able to say where a key stands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gold.faults import InputError
from gold.files import encodes
from gold.trec import score_of

_TOKEN: Final = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|[{}\[\]]')
_FIX: Final = "a run in JSON is {query: {document: score}}"


def json_entries(path: Path, data: bytes) -> tuple[list[tuple[str, list[str], list[float]]], str]:
    """Return (query_id, document ids, scores) for each key of a JSON run, and the file's text.

    A repeated key gives a repeated entry. Raises `InputError` naming the line for invalid JSON,
    another shape, an empty id and a score that is no finite number of 32 bits.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8", path, line, "save the file as UTF-8") from None
    try:
        # Objects become tuples of pairs: dict would let the last of two equal keys win.
        content = json.loads(text, object_pairs_hook=tuple)
    except json.JSONDecodeError as error:
        raise InputError(f"invalid JSON: {error.msg}", path, error.lineno, _FIX) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"invalid JSON: {error}", path, fix=_FIX) from None
    if not isinstance(content, tuple):
        raise InputError("the run is a list", path, 1, _FIX)
    return [_query_entries(path, text, *pair) for pair in content], text


def json_places(text: str) -> Iterator[tuple[int, str, str | None]]:
    """Yield (line from 1, query_id, document_id) for each key of a JSON run, None for a query's.

    For error messages alone: several times slower than parsing.
    """
    depth, line, last, query_id = 0, 1, 0, ""
    for token in _TOKEN.finditer(text):
        line += text.count("\n", last, token.start())
        last = token.start()
        if token[1] is None:
            depth += 1 if token[0] in "{[" else -1
        elif token[2] is not None and depth == 1:
            query_id = json.loads(token[1])
            yield line, query_id, None
        elif token[2] is not None and depth == 2:
            yield line, query_id, json.loads(token[1])


def _query_entries(
    path: Path, text: str, query_id: str, value: Any
) -> tuple[str, list[str], list[float]]:
    if not isinstance(value, tuple):
        message = f"the value of query {query_id!r} is no object"
        raise InputError(message, path, _line(text, query_id, None), _FIX)
    documents: list[str] = []
    scores: list[float] = []
    for document_id, number in value:
        score = score_of(number) if type(number) in (int, float) else None
        if score is None:
            message = f"the score {number!r:.40} of query {query_id!r}, document {document_id!r}"
            message += " is no finite number of 32 bits"
            fix = "score every document with a number"
            raise InputError(message, path, _line(text, query_id, document_id), fix)
        documents.append(document_id)
        scores.append(score)
    if not query_id or "" in documents or not encodes(query_id + "".join(documents)):
        message = f"query {query_id!r} or one of its documents has an id that is empty or no UTF-8"
        raise InputError(message, path, _line(text, query_id, None), "give it a text")
    return query_id, documents, scores


def _line(text: str, query_id: str, document_id: str | None) -> int:
    return next(line for line, *pair in json_places(text) if pair == [query_id, document_id])
