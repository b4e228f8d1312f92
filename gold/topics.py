"""The texts of queries that stand apart from their judgements: BEIR, TSV or TREC topics."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gold.faults import InputError, refuse
from gold.files import UTF8_MARK, numbered_lines, read_bytes
from gold.queries import read_queries

__all__ = ["read_topics"]

_TOP: Final = re.compile(r"<top>(.*?)(?=<top>|</top>|\Z)", re.DOTALL | re.IGNORECASE)
_NUMBER: Final = re.compile(r"<num>\s*(?:number\s*:)?\s*([^\s<]+)", re.IGNORECASE)
_TITLE: Final = re.compile(r"<title>\s*(?:topic\s*:)?\s*([^<]+)", re.IGNORECASE)


def read_topics(path: Path) -> dict[str, str]:
    """Read query texts: query_id -> text, in the file's order.

    Three forms by content: JSON lines with `_id` and `text` (BEIR); TREC's `<top>` blocks, whose
    `<num>` is the id and `<title>` the text; and two columns parted by a tab. Raises `InputError`
    naming the line for an id that stands twice, an empty text and any other form.
    """
    head = read_bytes(path).removeprefix(UTF8_MARK).lstrip()[:5].lower()
    if head[:1] == b"{":
        known = read_queries(path, refuse).values()
        found = [(line, query.query_id, query.text) for query, line in known]
    elif head == b"<top>":
        found = list(_blocks(path))
    else:
        found = list(_columns(path))
    topics: dict[str, str] = {}
    for line, query_id, text in found:
        if query_id in topics:
            raise InputError(f"query {query_id!r} stands twice", path, line, "keep one of them")
        if not text.strip():
            raise InputError(f"query {query_id!r} has no text", path, line, "give it one")
        topics[query_id] = text.strip()
    if not topics:
        raise InputError("no query", path, fix="two columns, id and text, parted by a tab")
    return topics


def _blocks(path: Path) -> Iterator[tuple[int, str, str]]:
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8", path, fix="save the file as UTF-8") from error
    for block in _TOP.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        number, title = _NUMBER.search(block[1]), _TITLE.search(block[1])
        if number is None or title is None:
            raise InputError("a <top> without <num> and <title>", path, line, "give it both")
        yield line, number[1], html.unescape(" ".join(title[1].split()))


def _columns(path: Path) -> Iterator[tuple[int, str, str]]:
    for line, text in numbered_lines(path, refuse):
        query_id, tab, words = text.partition("\t")
        if not tab or not query_id.strip():
            fix = "id, a tab, text; or JSON lines, or TREC <top> blocks"
            raise InputError("no query id and text", path, line, fix)
        yield line, query_id.strip(), words
