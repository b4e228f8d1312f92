"""Check a gold set: every fault with its file and line, in one pass.

An error changes or breaks a score and makes the set invalid; a warning does not. The codes are
stable:

| code | severity | what is wrong |
| --- | --- | --- |
| missing-file | error | a file that a gold set needs is absent |
| unreadable-file | error | a file cannot be read |
| empty-file | error | a file has no document, query or judgement |
| misnamed-file | error | settings under a name that is not read |
| not-utf8 | error | a line, or the file, has another encoding |
| byte-order-mark | warning | the file starts with a BOM (once a file) |
| crlf | warning | lines end in CRLF (once a file, with the count) |
| blank-line | warning | blank lines (once a file, with the count) |
| invalid-json | error | a line is not one JSON object, or holds NaN or infinity |
| duplicate-key | error | a key twice in one JSON object |
| bad-field | error | a field is missing or has the wrong type |
| misplaced-field | warning | a metadata field outside `metadata`, where it is not read |
| bad-id | error | an id is missing, empty, neither text nor integer, or a query's starts with # |
| numeric-id | warning | an id is an unquoted integer (read as its text) |
| duplicate-id | error | an id stands twice in a file |
| id-whitespace | error | an id holds a blank or a control character |
| id-invisible | warning | an id holds a character that cannot be seen |
| id-nfc | error | two ids are equal after Unicode NFC |
| empty-query | error | a query's text is empty |
| empty-document | error | a document has neither title nor text nor image |
| empty-text | warning | a document has a title alone |
| mention-not-in-context | error | a linking set's context does not hold its mention |
| column-count | error | a line of judgements has a wrong number of columns |
| column-order | error | a header names the columns in another order |
| missing-header | warning | judgements without a header line |
| trec-layout | warning | TREC's four columns in a .tsv file |
| space-separated | warning | columns parted by spaces (once a file, with the count) |
| quoted-field | warning | a column starts with a quotation mark |
| bad-grade | error | a grade is no integer, or beyond 1000 either way |
| negative-grade | warning | a grade is negative (kept, not relevant) |
| undeclared-grade | warning | a grade that `gold.yaml` gives no meaning |
| duplicate-judgement | warning | the same judgement twice |
| conflicting-judgement | error | two grades for one query and document |
| unknown-query | error | judgements of a query that is not in queries.jsonl |
| unknown-document | warning | judgements of a document that is not in the corpus (kept) |
| no-relevant-document | warning | a judged query without a relevant document (left out of means) |
| unjudged-query | warning | queries without a judgement in any split (once, with the count) |
| query-in-two-splits | warning | a query is judged in two splits |
| near-duplicate-query | warning | two queries of different splits say nearly the same |
| leakage | warning | queries of two splits share a relevant document (once a pair) |
| invalid-yaml | error | gold.yaml cannot be read safely |
| unknown-setting | error | a setting that does not exist |
| duplicate-setting | error | a setting stands twice |
| bad-setting | error | a setting has a wrong value |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from gold.corpus import documents
from gold.faults import Fault, Severity, Sink, with_fix
from gold.ids import check_ids, look_alikes
from gold.leakage import near_duplicates, shared_relevance
from gold.loading import check_judged_ids, check_queries, gold_directory, hint, splits
from gold.mentions import MENTIONS_FILE, is_linking, read_mentions
from gold.model import GoldQuery, Settings
from gold.qrels import Judgements, read_judgements
from gold.queries import read_queries
from gold.settings import read_settings

_EXAMPLES: Final = 3


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault; `file` is relative to the gold set, `line` counts from 1 or is None."""

    severity: Severity
    file: str
    line: int | None
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on a gold set; errors decide `ok`, warnings do not.

    `counts` has `documents`, `queries`, `judgements` (by split), `errors`, `warnings`, `codes`
    (problems by code) and `leakage` (by pair of splits: `queries` of the first `of` how many that
    share a relevant document with the second).
    """

    ok: bool
    problems: tuple[Problem, ...]
    counts: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return `ok`, `problems` and `counts` as plain values."""
        problems = [asdict(problem) for problem in self.problems]
        return {"ok": self.ok, "problems": problems, "counts": self.counts}


def validate(path: Path | str) -> Report:
    """Check a gold set and return every fault, ordered by file, line and code.

    The codes are listed at the head of this module. With `level: chunk` judgements name chunks,
    which the corpus file does not hold, so they are not looked for there. Raises `InputError` only
    where the path is no directory. A linking gold set is checked as such: `counts` then has
    `mentions`, `nil`, `errors`, `warnings` and `codes`.
    """
    directory = gold_directory(path)
    faults: list[Fault] = []
    sink = faults.append
    if is_linking(directory):
        return _validate_linking(directory, faults)
    settings = read_settings(directory, sink)
    document_lines = _check_corpus(directory / "corpus.jsonl", sink)
    queries = _check_queries_file(directory / "queries.jsonl", sink)
    names = splits(directory)
    if not names:
        message = "no split: there is no qrels/<split>.tsv"
        sink(Fault("missing-file", directory / "qrels", None, message, "add qrels/test.tsv"))
    judged: dict[str, Judgements] = {}
    for name in names:
        qrels_path = directory / "qrels" / f"{name}.tsv"
        judged[name] = read_judgements(qrels_path, sink)
        check_queries(judged[name], queries, qrels_path, sink)
        check_judged_ids(judged[name], qrels_path, sink)
        _check_split(judged[name], settings, qrels_path, sink)
        if settings.level == "document":
            _check_documents(judged[name], document_lines, qrels_path, sink)
    _check_unjudged(queries, judged, directory / "queries.jsonl", sink)
    _check_queries_of_two_splits(queries, judged, directory, sink)
    leaks = _check_leakage(judged, settings.relevant_from, directory, sink)
    problems = tuple(_problem(fault, directory) for fault in sorted(faults, key=_place))
    severities = Counter(problem.severity for problem in problems)
    counts: dict[str, Any] = {
        "documents": len(document_lines),
        "queries": len(queries),
        "judgements": {
            name: sum(map(len, judgements.grades.values())) for name, judgements in judged.items()
        },
        "errors": severities["error"],
        "warnings": severities["warning"],
        "codes": dict(sorted(Counter(problem.code for problem in problems).items())),
        "leakage": leaks,
    }
    return Report(severities["error"] == 0, problems, counts)


def _validate_linking(directory: Path, faults: list[Fault]) -> Report:
    read_settings(directory, faults.append)
    path = directory / MENTIONS_FILE
    mentions = read_mentions(path, faults.append)
    if not mentions:
        faults.append(Fault("empty-file", path, None, "no mention", "add mentions"))
    problems = tuple(_problem(fault, directory) for fault in sorted(faults, key=_place))
    severities = Counter(problem.severity for problem in problems)
    counts = {
        "mentions": len(mentions),
        "nil": sum(mention.entity_id is None for mention, _ in mentions.values()),
        "errors": severities["error"],
        "warnings": severities["warning"],
        "codes": dict(sorted(Counter(problem.code for problem in problems).items())),
    }
    return Report(severities["error"] == 0, problems, counts)


_FILES: Final = ("gold.yaml", "corpus.jsonl", "queries.jsonl")


def _place(fault: Fault) -> tuple[int, str, int, str, str]:
    name = fault.path.name
    order = _FILES.index(name) if name in _FILES else len(_FILES)
    return order, str(fault.path), fault.line or 0, fault.code, fault.message


def _problem(fault: Fault, directory: Path) -> Problem:
    file = fault.path.relative_to(directory).as_posix()
    message = with_fix(fault.message, fault.fix)
    return Problem(fault.severity, file, fault.line, fault.code, message)


def _check_corpus(path: Path, sink: Sink) -> dict[str, int]:
    """Return document_id -> line."""
    lines: dict[str, int] = {}
    for document in documents(path, sink):
        lines[document.document_id] = document.line
        if document.text.strip() or document.metadata.get("image"):
            continue
        code = "empty-text" if document.title.strip() else "empty-document"
        what = "text" if document.title.strip() else "title and no text"
        message = f"document {document.document_id!r} has no {what}"
        sink(Fault(code, path, document.line, message, "give it one or delete it"))
    if not lines and path.is_file():
        sink(Fault("empty-file", path, None, "no document", "add documents"))
    check_ids(lines, path, sink)
    return lines


def _check_queries_file(path: Path, sink: Sink) -> dict[str, tuple[GoldQuery, int]]:
    queries = read_queries(path, sink)
    for query_id, (query, line) in queries.items():
        if not query.text.strip():
            message = f"query {query_id!r} has no text"
            sink(Fault("empty-query", path, line, message, "give it one or delete it"))
    if not queries and path.is_file():
        sink(Fault("empty-file", path, None, "no query", "add queries"))
    lines = {query_id: line for query_id, (_, line) in queries.items()}
    check_ids(lines, path, sink, queries=True)
    return queries


def _check_split(judgements: Judgements, settings: Settings, path: Path, sink: Sink) -> None:
    if not judgements.grades:
        sink(Fault("empty-file", path, None, "no judgement", "judge at least one query"))
    for query_id, judged in judgements.grades.items():
        lines = judgements.lines[query_id]
        for document_id, grade in judged.items():
            pair = f"query {query_id!r}, document {document_id!r}"
            if grade < 0:
                message = f"{pair}: the grade {grade} is negative"
                fix = "it counts as not relevant; write 0"
                sink(Fault("negative-grade", path, lines[document_id], message, fix))
            elif settings.grades and grade not in settings.grades:
                message = f"{pair}: the grade {grade} has no meaning"
                fix = "name it under grades in gold.yaml"
                sink(Fault("undeclared-grade", path, lines[document_id], message, fix))
        if all(grade < settings.relevant_from for grade in judged.values()):
            message = f"query {query_id!r} has no relevant document"
            fix = f"none is graded {settings.relevant_from} or above; it is left out of every mean"
            sink(Fault("no-relevant-document", path, min(lines.values()), message, fix))


def _check_documents(
    judgements: Judgements, known: Mapping[str, int], path: Path, sink: Sink
) -> None:
    unknown: dict[str, list[int]] = {}
    for lines in judgements.lines.values():
        for document_id, line in lines.items():
            if document_id not in known:
                unknown.setdefault(document_id, []).append(line)
    similar = look_alikes(known) if unknown else {}
    for document_id, at in unknown.items():
        times = f", judged {len(at)} times" if len(at) > 1 else ""
        message = f"document {document_id!r} is not in corpus.jsonl{times}"
        sink(Fault("unknown-document", path, min(at), message, hint(document_id, similar)))


def _check_unjudged(
    queries: Mapping[str, tuple[GoldQuery, int]],
    judged: Mapping[str, Judgements],
    path: Path,
    sink: Sink,
) -> None:
    missing = [q for q in queries if not any(q in j.grades for j in judged.values())]
    if missing and judged:
        message = f"queries without a judgement in any split: {len(missing)}{_examples(missing)}"
        line = queries[missing[0]][1]
        sink(Fault("unjudged-query", path, line, message, "judge or delete them"))


def _check_queries_of_two_splits(
    queries: Mapping[str, tuple[GoldQuery, int]],
    judged: Mapping[str, Judgements],
    directory: Path,
    sink: Sink,
) -> None:
    if len(judged) < 2:
        return
    path = directory / "queries.jsonl"
    splits_of = {
        query_id: frozenset(
            name for name, judgements in judged.items() if query_id in judgements.grades
        )
        for query_id in queries
    }
    for query_id, names in splits_of.items():
        if len(names) > 1:
            message = f"query {query_id!r} is judged in {' and '.join(sorted(names))}"
            sink(Fault("query-in-two-splits", path, queries[query_id][1], message, "keep one"))
    texts = {query_id: query.text for query_id, (query, _) in queries.items()}
    splits_of = {query_id: names for query_id, names in splits_of.items() if names}
    for left, right, similarity in near_duplicates(texts, splits_of):
        message = (
            f"query {right!r} ({'/'.join(sorted(splits_of[right]))}) says nearly the same as query "
            f"{left!r} ({'/'.join(sorted(splits_of[left]))}) of line {queries[left][1]}: "
            f"similarity {similarity:.2f}"
        )
        fix = "put both into one split"
        sink(Fault("near-duplicate-query", path, queries[right][1], message, fix))


def _check_leakage(
    judged: Mapping[str, Judgements], relevant_from: int, directory: Path, sink: Sink
) -> dict[str, dict[str, int]]:
    leaks: dict[str, dict[str, int]] = {}
    for left, right in combinations(sorted(judged, key=lambda name: (name != "test", name)), 2):
        ours, theirs = judged[left].grades, judged[right].grades
        shared = shared_relevance(ours, theirs, relevant_from)
        leaks[f"{left}/{right}"] = {"queries": len(shared.left), "of": len(ours)}
        if not shared.left:
            continue
        many = len(shared.documents)
        message = (
            f"{len(shared.left)} of {len(ours)} queries of {left} share a relevant document with "
            f"{right} ({len(shared.right)} of its {len(theirs)} queries, {many} "
            f"document{'s' * (many != 1)}){_examples(shared.left)}"
        )
        path = directory / "qrels" / f"{left}.tsv"
        lines = judged[left].lines[shared.left[0]]
        line = min(lines[document_id] for document_id in shared.documents if document_id in lines)
        sink(Fault("leakage", path, line, message, "split so that they stay together"))
    return leaks


def _examples(identifiers: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(repr(identifier) for identifier in identifiers[:_EXAMPLES])
    return f": {shown}" + (", ..." if len(identifiers) > _EXAMPLES else "")
