"""Import judged queries that name their documents: resolve the names, write a gold set.

What is expected of a query is checked against the corpus, and each is labelled: `aligned` where
every name and every term was found, `absent` where no name was, `partial` between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from gold.beir import write_beir
from gold.corpus import corpus_file, read_corpus
from gold.faults import InputError
from gold.model import CorpusDocument, GoldQuery, Settings
from gold.name_resolution import NameIndex
from gold.sources import Form, SourceQuery, form_of, read_judgements_with_topics, read_named_queries
from gold.spreadsheets import Columns, Table, read_spreadsheet
from gold.terms import comparable, term_pattern

__all__ = ["Alignment", "ImportReport", "import_gold"]

Alignment = Literal["aligned", "partial", "absent"]
Reader = Callable[[], Iterable[CorpusDocument]]
STATES: Final[tuple[Alignment, ...]] = ("aligned", "partial", "absent")
# These name documents and hold their queries; the others judge ids by grades of their own.
_NAMED: Final = ("named", "spreadsheet")


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import found. Missing names and terms map to the ids of their queries, all of them.

    `names` maps each name that was found to the number of documents it stands for; `judgements`
    counts (query, document) pairs; `unused_columns` are those of a spreadsheet that were not read.
    """

    gold: Path
    form: Form
    alignment: Mapping[str, Alignment]
    documents: int
    judgements: int
    names: Mapping[str, int]
    missing_names: Mapping[str, Sequence[str]]
    missing_terms: Mapping[str, Sequence[str]]
    unused_columns: Sequence[str] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Queries by alignment, each state present."""
        found = Counter(self.alignment.values())
        return {state: found[state] for state in STATES}

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "gold": str(self.gold),
            "form": self.form,
            "queries": len(self.alignment),
            **self.counts,
            "documents": self.documents,
            "judgements": self.judgements,
            "names": dict(self.names),
            "missing_names": {name: list(ids) for name, ids in self.missing_names.items()},
            "missing_terms": {term: list(ids) for term, ids in self.missing_terms.items()},
            "unused_columns": list(self.unused_columns),
            "alignment": dict(self.alignment),
        }


def import_gold(
    source: Path,
    corpus: Path,
    out: Path,
    *,
    documents: Iterable[CorpusDocument] | None = None,
    columns: Columns | None = None,
    topics: Path | None = None,
    split: str = "test",
) -> ImportReport:
    """Read judged queries, resolve what they name against a corpus, and write a gold set.

    `corpus` is a gold set's folder or one `corpus.jsonl`; it is copied. Where it is something else
    `documents` are what was read of it: taken once, after the queries, and written in its place.
    `columns` belongs to
    spreadsheets, `topics` (the queries' texts) to TREC and JSON judgements. Each query's metadata
    keeps its `alignment`, `missing_names` and `missing_terms`; a query without any judgement stays
    in `queries.jsonl` and counts nowhere. Written whole or not at all. Raises `InputError` for bad
    input, for a folder that holds something, and where no name at all was found.
    """
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise InputError("the path holds something already", out, fix="give a new folder")
    form = form_of(source)
    table = _read(source, form, columns, topics)
    queries = table.queries
    read = _reader(corpus, documents)
    names = NameIndex.of(read())
    # Other people's names are parts of names; ids and cells mean what they say, if anything does.
    whole_first = form != "named"
    found = {
        name: names.resolve(name, whole_first=whole_first) for q in queries for name in q.names
    }
    if not any(found.values()):
        shown = ", ".join(list(found)[:5]) or "none given"
        searched = corpus_file(corpus) if documents is None else corpus
        message = f"none of its {len(found)} names is in {searched}: {shown}"
        raise InputError(message, source, fix="give the corpus that the names belong to")
    qrels = {q.query.query_id: _judged(q, found) for q in queries}
    terms = _missing_terms(queries, qrels, read)
    checked = [_labelled(q, found, terms[q.query.query_id]) for q in queries]
    meaning = {1: "a document that the query's source names"} if form in _NAMED else {}
    write_beir(
        out,
        documents=read(),
        queries=checked,
        qrels={split: {query_id: judged for query_id, judged in qrels.items() if judged}},
        settings=Settings(name=out.resolve().name, grades=meaning),
    )
    return ImportReport(
        gold=out,
        form=form,
        alignment={query.query_id: query.metadata["alignment"] for query in checked},
        documents=len(names.document_ids),
        judgements=sum(map(len, qrels.values())),
        names={name: len(ids) for name, ids in found.items() if ids},
        missing_names=_by_item(checked, "missing_names"),
        missing_terms=_by_item(checked, "missing_terms"),
        unused_columns=table.unused,
    )


def _read(source: Path, form: Form, columns: Columns | None, topics: Path | None) -> Table:
    if columns is not None and form != "spreadsheet":
        raise InputError("the file is no spreadsheet", source, fix="leave the columns out")
    if topics is not None and form in _NAMED:
        raise InputError("the file holds its queries", source, fix="leave the topics out")
    if form == "spreadsheet":
        return read_spreadsheet(source, columns or Columns())
    if form == "named":
        return Table(read_named_queries(source), ())
    return Table(read_judgements_with_topics(source, form, topics), ())


def _reader(corpus: Path, documents: Iterable[CorpusDocument] | None) -> Reader:
    """Return what gives the documents, each time anew; a file is streamed each time."""
    if documents is None:
        return lambda: read_corpus(corpus)
    held = list(documents)
    return lambda: held


def _judged(source: SourceQuery, found: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the grade of each document named; of several names of one the highest counts."""
    judged: dict[str, int] = {}
    for name, grade in source.names.items():
        for document_id in found[name]:
            judged[document_id] = max(grade, judged.get(document_id, grade))
    return judged


def _missing_terms(
    queries: Sequence[SourceQuery], qrels: Mapping[str, Mapping[str, int]], read: Reader
) -> dict[str, tuple[str, ...]]:
    """Return the terms of each query that stand in none of its relevant documents."""
    missing = {q.query.query_id: dict.fromkeys(q.query.expected_terms) for q in queries}
    readers: dict[str, list[str]] = {}
    for query_id, judged in qrels.items():
        for document_id, grade in judged.items():
            if grade > 0 and missing[query_id]:
                readers.setdefault(document_id, []).append(query_id)
    for document in read() if readers else ():
        if document.document_id not in readers:
            continue
        text = comparable(f"{document.title}\n{document.text}")
        for query_id in readers[document.document_id]:
            left = missing[query_id]
            for term in [t for t in left if term_pattern(comparable(t)).search(text)]:
                del left[term]
    return {query_id: tuple(left) for query_id, left in missing.items()}


def _labelled(
    source: SourceQuery, found: Mapping[str, Sequence[str]], missing_terms: Sequence[str]
) -> GoldQuery:
    missing_names = [name for name in source.names if not found[name]]
    state: Alignment = "partial"
    if len(missing_names) == len(source.names):
        state = "absent"
    elif not missing_names and not missing_terms:
        state = "aligned"
    label: dict[str, Any] = {"alignment": state}
    if missing_names:
        label["missing_names"] = missing_names
    if missing_terms:
        label["missing_terms"] = list(missing_terms)
    return replace(source.query, metadata={**source.query.metadata, **label})


def _by_item(queries: Sequence[GoldQuery], key: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for query in queries:
        for item in query.metadata.get(key, ()):
            found.setdefault(item, []).append(query.query_id)
    return found
