"""Write a gold set as a BEIR directory, whole or not at all."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gold.faults import InputError
from gold.files import encodes
from gold.ids import broken_character
from gold.model import CorpusDocument, GoldQuery, Qrels, Settings
from gold.qrels import quote
from gold.queries import as_record
from gold.trec import check_grade


def write_beir(
    path: Path | str,
    *,
    documents: Iterable[CorpusDocument],
    queries: Iterable[GoldQuery],
    qrels: Mapping[str, Qrels],
    settings: Settings | None = None,
) -> None:
    """Write `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv` and, if given, `gold.yaml`.

    `qrels` maps a split's name to its judgements. Files are UTF-8 with LF and tabs, qrels start
    with BEIR's header line. The directory is made beside its place and renamed into it, so that it
    is whole or absent. Raises `InputError` where the path holds anything already, for an id that
    is empty, repeated or holds a control character or a blank other than the space, for a grade
    that is no integer and for a split's name that is no file name.
    """
    target = Path(path)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise InputError("the path holds something already", target, fix="give a new folder")
    place = target.resolve()
    temporary = place.with_name(f".{place.name}.{uuid.uuid4().hex}.tmp")
    try:
        (temporary / "qrels").mkdir(parents=True)
        rows: Iterable[dict[str, Any]] = map(_document_record, documents)
        _write_json_lines(temporary / "corpus.jsonl", rows, target)
        _write_json_lines(temporary / "queries.jsonl", map(as_record, queries), target)
        for split, judged in qrels.items():
            if not split or split.startswith(".") or set(split) & set("/\\\0"):
                message = f"{split!r} cannot be the name of a split"
                raise InputError(message, target, fix="take letters and digits")
            lines = _judgement_lines(judged, target)
            (temporary / "qrels" / f"{split}.tsv").write_text(lines, "utf-8", newline="\n")
        if settings is not None:
            (temporary / "gold.yaml").write_text(_yaml(settings), "utf-8", newline="\n")
        temporary.replace(place)
    except OSError as error:
        fix = "make room there, or name a folder that can be written"
        raise InputError(f"cannot be written: {error.strerror}", target, fix=fix) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _document_record(document: CorpusDocument) -> dict[str, Any]:
    return {
        "_id": document.document_id,
        "title": document.title,
        "text": document.text,
        "metadata": dict(document.metadata),
    }


def _write_json_lines(path: Path, records: Iterable[dict[str, Any]], target: Path) -> None:
    seen: set[str] = set()
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        for record in records:
            identifier = record["_id"]
            _check_id(identifier, target)
            if identifier in seen:
                raise InputError(f"the id {identifier!r} comes twice for {path.name}", target)
            seen.add(identifier)
            try:
                line = json.dumps(record, ensure_ascii=False, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise InputError(f"record {identifier!r} is no JSON: {error}", target) from error
            if not encodes(line):
                raise InputError(f"record {identifier!r} cannot be written as UTF-8", target)
            handle.write(line + "\n")


def _judgement_lines(qrels: Qrels, target: Path) -> str:
    lines = ["query-id\tcorpus-id\tscore\n"]
    for query_id, judged in qrels.items():
        for document_id, grade in judged.items():
            _check_id(query_id, target)
            _check_id(document_id, target)
            check_grade(query_id, document_id, grade, target)
            lines.append(f"{quote(query_id)}\t{quote(document_id)}\t{grade}\n")
    return "".join(lines)


def _check_id(identifier: str, target: Path) -> None:
    broken = broken_character(identifier.replace(" ", ""))  # a blank is no end of a column here
    if not identifier or broken is not None or not encodes(identifier):
        why = "is empty" if not identifier else f"holds {broken or 'half a surrogate pair'}"
        raise InputError(f"the id {identifier!r} {why}", target, fix="rename it")


def _yaml(settings: Settings) -> str:
    import yaml

    values = asdict(settings) | {"cutoffs": list(settings.cutoffs)}
    return yaml.safe_dump(values, allow_unicode=True, sort_keys=False)
