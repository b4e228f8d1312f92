"""Load one split of a gold set, refusing what would change or break a score."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from gold.faults import Fault, InputError, Sink, refuse
from gold.ids import check_written, look_alikes, loose
from gold.model import GoldQuery, GoldSet, Qrels, Settings
from gold.qrels import Judgements, read_judgements
from gold.queries import as_record, read_queries
from gold.settings import read_settings

_DIGEST_FORMAT: Final = 1


def splits(path: Path | str) -> tuple[str, ...]:
    """Return the names of the splits of a gold set (`qrels/<split>.tsv`), sorted.

    Raises `InputError` where the path is no directory.
    """
    directory = gold_directory(path)
    files = (directory / "qrels").glob("*.tsv")
    return tuple(sorted(file.stem for file in files if not file.name.startswith(".")))


def load(path: Path | str, split: str = "test") -> GoldSet:
    """Load the queries and judgements of one split.

    BOM, CRLF, blank lines, an absent header line and identical repeats are tolerated (`validate`
    reports them), judgements of documents that the corpus lacks are kept, negative grades too
    (they are not relevant). Raises `InputError` naming file, line and remedy for everything that
    `validate` calls an error in `gold.yaml`, `queries.jsonl` or this split's judgements (among
    them ids, of judged queries and documents, that no TREC file can hold), save for an empty query
    and ids that are equal after NFC; and, listing the splits there are, for a split that is
    missing.
    """
    directory = gold_directory(path)
    present = splits(directory)
    if split not in present:
        fix = f"splits present: {', '.join(present)}" if present else "no split is present"
        raise InputError("no such split", directory / "qrels" / f"{split}.tsv", fix=fix)
    settings = read_settings(directory, refuse)
    known = read_queries(directory / "queries.jsonl", refuse)
    qrels_path = directory / "qrels" / f"{split}.tsv"
    judgements = read_judgements(qrels_path, refuse)
    if not judgements.grades:
        raise InputError("no judgement", qrels_path, fix="judge at least one query")
    check_queries(judgements, known.keys(), qrels_path, refuse)
    check_judged_ids(judgements, qrels_path, refuse)
    queries = {i: query for i, (query, _) in known.items() if i in judgements.grades}
    qrels = {query_id: judgements.grades[query_id] for query_id in queries}
    return GoldSet(
        path=directory,
        name=settings.name or directory.resolve().name,
        version=settings.version,
        level=settings.level,
        success=settings.success,
        coverage_threshold=settings.coverage_threshold,
        relevant_from=settings.relevant_from,
        cutoffs=settings.cutoffs,
        grades=settings.grades,
        licence=settings.licence,
        split=split,
        queries=queries,
        qrels=qrels,
        digest=digest(settings, queries, qrels),
        unjudged=len(known) - len(queries),
    )


def gold_directory(path: Path | str) -> Path:
    """Return the path of a gold set's directory; raises `InputError` where it is none."""
    directory = Path(path)
    if directory.is_dir():
        return directory
    message = "a gold set is a directory" if directory.exists() else "no such directory"
    raise InputError(message, directory, fix="give the folder that holds queries.jsonl")


def check_queries(judgements: Judgements, known: Collection[str], path: Path, sink: Sink) -> None:
    """Tell `sink` of each judged query that the queries file lacks, once a query."""
    similar: dict[str, str] | None = None
    for query_id, lines in judgements.lines.items():
        if query_id in known:
            continue
        if similar is None:
            similar = look_alikes(known)
        message = f"query {query_id!r} is not in queries.jsonl"
        sink(Fault("unknown-query", path, min(lines.values()), message, hint(query_id, similar)))


def check_judged_ids(judgements: Judgements, path: Path, sink: Sink) -> None:
    """Tell `sink` of each judged query and document whose id no TREC file can hold, once an id."""
    queries = {query_id: min(lines.values()) for query_id, lines in judgements.lines.items()}
    documents: dict[str, int] = {}
    for lines in judgements.lines.values():
        for document_id, line in lines.items():
            documents.setdefault(document_id, line)
    check_written(queries, path, sink, queries=True)
    check_written(documents, path, sink)


def hint(identifier: str, similar: Mapping[str, str]) -> str:
    """Return the remedy for an unknown id: the look-alike where there is one."""
    other = similar.get(loose(identifier))
    return "add it or delete its judgements" if other is None else f"{other!r} is known"


def digest(settings: Settings, queries: Mapping[str, GoldQuery], qrels: Qrels) -> str:
    """Return the SHA-256 (hex) of a split's content, whatever its formatting and line order.

    Taken over one canonical JSON text: the settings as `gold.yaml` states or leaves them, the
    queries and the judgements by id, keys sorted. Where the set lies does not enter.
    """
    content = {
        "format": _DIGEST_FORMAT,
        "settings": asdict(settings),
        "queries": {query_id: as_record(query) for query_id, query in queries.items()},
        "qrels": {query_id: dict(judged) for query_id, judged in qrels.items()},
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
