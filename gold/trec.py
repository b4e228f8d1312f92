"""TREC's two text files: write judgements and runs, and read a run's lines.

Formats: trec_eval (github.com/usnistgov/trec_eval). Columns are parted by blanks, so an id that
holds one cannot be written; it is refused before the file is touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from gold.faults import InputError
from gold.files import UTF8_MARK, UTF16_MARKS, write_whole
from gold.ids import check_column
from gold.model import Qrels

_EXACT_DEPTH: Final = 2**24  # trec_eval compares in float32: integers beyond it tie
_FLOAT32_MAX: Final = 3.4028234663852886e38


def write_qrels(path: Path | str, qrels: Qrels) -> None:
    """Write judgements in the TREC layout `query 0 document grade`, in the mapping's order.

    Raises `InputError` for an id with a blank or control character, a query id that starts with
    `#` and a grade that is no integer; nothing is written then.
    """
    target = Path(path)
    rows: list[str] = []
    for query_id, judged in qrels.items():
        check_column(query_id, "query id", target, first=True)
        for document_id, grade in judged.items():
            check_column(document_id, "document id", target)
            check_grade(query_id, document_id, grade, target)
            rows.append(f"{query_id} 0 {document_id} {grade}\n")
    write_whole(target, "".join(rows).encode("utf-8"))


def write_run(
    path: Path | str, rankings: Mapping[str, Sequence[str]], depth: int, name: str
) -> None:
    """Write rankings (best first, cut to `depth`) as a TREC run in the mapping's order.

    The score of rank r (from 1) is the integer `depth - r`, so that scores fall strictly and every
    evaluator sees the same order. A query with an empty ranking leaves no line. Raises
    `InputError` for an id or name with a blank or control character, a document twice in a
    ranking and a depth outside 1 to 2**24; nothing is written then.
    """
    target = Path(path)
    if not 1 <= depth <= _EXACT_DEPTH:
        message = f"a depth of {depth} gives no strictly falling float32 scores"
        raise InputError(message, target, fix=f"take 1 to {_EXACT_DEPTH}")
    check_column(name, "run name", target)
    rows: list[str] = []
    for query_id, ranking in rankings.items():
        check_column(query_id, "query id", target, first=True)
        if len(set(ranking)) != len(ranking):
            message = f"query {query_id!r} ranks a document twice"
            raise InputError(message, target, fix="keep the best rank of each document")
        for rank, document_id in enumerate(ranking[:depth], start=1):
            check_column(document_id, "document id", target)
            rows.append(f"{query_id} Q0 {document_id} {rank} {depth - rank} {name}\n")
    write_whole(target, "".join(rows).encode("utf-8"))


def check_grade(query_id: str, document_id: str, grade: object, path: Path) -> None:
    """Refuse a grade that is no integer. Raises `InputError`."""
    if isinstance(grade, bool) or not isinstance(grade, int):
        message = f"the grade of query {query_id!r}, document {document_id!r} is {grade!r}"
        raise InputError(message, path, fix="grades are integers")


def run_rows(path: Path, data: bytes) -> Iterator[tuple[int, str, str, str, str]]:
    """Yield (line from 1, query_id, document_id, score text, tag) for each line of a TREC run.

    The rank column and what follows the tag are ignored, blank lines and lines that start with
    `#` are skipped, all as in trec_eval. Raises `InputError` naming the line.
    """
    if data.startswith(UTF16_MARKS):
        raise InputError("the file is UTF-16", path, 1, "save it as UTF-8")
    for line, raw in enumerate(data.removeprefix(UTF8_MARK).split(b"\n"), start=1):
        if raw.startswith(b"#"):
            continue
        columns = raw.split(None, 6)[:6]  # of bytes: ASCII blanks alone part columns
        if not columns:
            continue
        if len(columns) != 6:
            message = f"expected 6 columns, got {len(columns)}"
            raise InputError(message, path, line, "query Q0 document rank score tag")
        try:
            query_id, _, document_id, _, score, tag = [part.decode("utf-8") for part in columns]
        except UnicodeDecodeError:
            raise InputError("not UTF-8", path, line, "save the file as UTF-8") from None
        yield line, query_id, document_id, score, tag


def score_of(value: str | float) -> float | None:
    """Return a run's score, or None where it is no finite number of 32 bits."""
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        return None  # Python would read both as digits
    try:
        score = float(value)
    except (ValueError, OverflowError):
        return None
    return score if -_FLOAT32_MAX <= score <= _FLOAT32_MAX else None
