"""Validation: every fault in one pass, stable codes, one verdict."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gold.validation
from gold import InputError, load, splits, validate
from gold.faults import SEVERITY

MakeSet = Callable[..., Path]
HEADER = "query-id\tcorpus-id\tscore\n"
CORPUS = [
    {"_id": "d1", "title": "Gefitinib", "text": "Gefitinib inhibits EGFR."},
    {"_id": "d2", "title": "", "text": "Metformin lowers glucose."},
]
QUERIES: list[dict[str, object]] = [
    {"_id": "q1", "text": "which drug inhibits EGFR", "metadata": {"type": "mechanism"}},
    {"_id": "q2", "text": "lower blood sugar"},
]

Found = list[tuple[str, int | None, str]]


def found(path: Path) -> Found:
    return [(problem.file, problem.line, problem.code) for problem in validate(path).problems]


def with_ids(*identifiers: str) -> list[dict[str, str]]:
    return [{"_id": identifier, "text": f"text of {identifier}"} for identifier in identifiers]


def test_set_is_valid_when_nothing_is_wrong(make_set: MakeSet) -> None:
    report = validate(make_set())
    assert report.to_json() == {
        "ok": True,
        "problems": [],
        "counts": {
            "documents": 2, "queries": 2, "judgements": {"test": 2}, "errors": 0, "warnings": 0,
            "codes": {}, "leakage": {},
        },
    }  # fmt: skip


def test_table_of_codes_is_the_one_that_decides_when_compared() -> None:
    rows = re.findall(
        r"^\| ([a-z0-9-]+) \| (error|warning) \|", gold.validation.__doc__ or "", re.M
    )
    assert dict(rows) == SEVERITY
    assert len(rows) == len(SEVERITY)


def test_every_fault_of_every_file_is_reported_when_there_are_many(make_set: MakeSet) -> None:
    path = make_set(
        corpus='\ufeff{"_id": "d1", "text": "a"}\r\n{"_id": "d1", "text": "b"}\n{\n'
        '{"_id": "d2", "title": "t", "text": " "}\n{"_id": "d 3", "text": ""}\n',
        queries='{"_id": 1, "text": "a"}\n{"_id": "q2", "text": " ", "type": "x"}\n'
        '{"_id": "q3", "text": "c", "metadata": {"k": 0}}\n\n{"_id": "q4", "text": "d"}\n',
        qrels="1\td1\t1\n1\td1\t1\n1\td1\t0\nq2\tgone\t-1\nq3\td2\t0.5\nq9\td1\t1\nq3\td2\n",
        settings="sucess: any\n",
    )
    assert found(path) == [
        ("gold.yaml", 1, "unknown-setting"),
        ("corpus.jsonl", 1, "byte-order-mark"),
        ("corpus.jsonl", 1, "crlf"),
        ("corpus.jsonl", 2, "duplicate-id"),
        ("corpus.jsonl", 3, "invalid-json"),
        ("corpus.jsonl", 4, "empty-text"),
        ("corpus.jsonl", 5, "empty-document"),
        ("corpus.jsonl", 5, "id-whitespace"),
        ("queries.jsonl", 1, "numeric-id"),
        ("queries.jsonl", 2, "empty-query"),
        ("queries.jsonl", 2, "misplaced-field"),
        ("queries.jsonl", 3, "bad-field"),
        ("queries.jsonl", 3, "unjudged-query"),
        ("queries.jsonl", 4, "blank-line"),
        ("qrels/test.tsv", 1, "missing-header"),
        ("qrels/test.tsv", 2, "duplicate-judgement"),
        ("qrels/test.tsv", 3, "conflicting-judgement"),
        ("qrels/test.tsv", 4, "negative-grade"),
        ("qrels/test.tsv", 4, "no-relevant-document"),
        ("qrels/test.tsv", 4, "unknown-document"),
        ("qrels/test.tsv", 5, "bad-grade"),
        ("qrels/test.tsv", 6, "unknown-query"),
        ("qrels/test.tsv", 7, "column-count"),
    ]


def test_missing_files_are_each_named_when_the_folder_is_empty(tmp_path: Path) -> None:
    assert found(tmp_path) == [
        ("corpus.jsonl", None, "missing-file"),
        ("queries.jsonl", None, "missing-file"),
        ("qrels", None, "missing-file"),
    ]
    with pytest.raises(InputError, match="no such directory"):
        validate(tmp_path / "absent")


def test_files_are_named_when_they_hold_nothing(make_set: MakeSet) -> None:
    path = make_set(corpus="", queries="", qrels=HEADER)
    assert [code for _, _, code in found(path)] == ["empty-file"] * 3


def test_warnings_alone_leave_the_set_valid(make_set: MakeSet) -> None:
    report = validate(make_set(qrels="q1\tgone\t1\nq2\td2\t0\n"))
    assert report.ok
    assert (report.counts["errors"], report.counts["warnings"]) == (0, 3)
    assert report.counts["codes"] == {
        "missing-header": 1, "no-relevant-document": 1, "unknown-document": 1,
    }  # fmt: skip


def test_relevance_follows_the_settings_when_they_raise_the_bar(make_set: MakeSet) -> None:
    path = make_set(settings="relevant_from: 2\ngrades: {2: answers it}\n")
    assert found(path) == [
        ("qrels/test.tsv", line, code)
        for line in (2, 3)
        for code in ("no-relevant-document", "undeclared-grade")
    ]


@pytest.mark.parametrize(
    ("identifier", "code"),
    [
        ("a b", "id-whitespace"),
        ("a\tb", "id-whitespace"),
        ("a\u00a0b", "id-whitespace"),
        ("a\x7f", "id-whitespace"),
        ("a\u200bb", "id-invisible"),
        ("\ufeffa", "id-invisible"),
    ],
)
def test_id_is_reported_when_a_character_breaks_or_hides(
    make_set: MakeSet, identifier: str, code: str
) -> None:
    path = make_set(corpus=[*CORPUS, *with_ids(identifier)])
    assert found(path) == [("corpus.jsonl", 3, code)]


@pytest.mark.parametrize(
    ("one", "other"), [("caf\u00e9", "cafe\u0301"), ("K1", "\u212a1"), ("\u00c5x", "\u212bx")]
)
def test_both_lines_are_named_when_ids_are_equal_after_nfc(
    make_set: MakeSet, one: str, other: str
) -> None:
    path = make_set(corpus=[*CORPUS, *with_ids(one, other)])
    (problem,) = validate(path).problems
    assert (problem.line, problem.code) == (4, "id-nfc")
    assert "line 3" in problem.message


@pytest.mark.parametrize(
    ("identifier", "code"),
    [("#q1", "bad-id"), ("q\u00a01", "id-whitespace"), ("q\u20281", "id-whitespace")],
)
def test_query_id_is_refused_when_no_run_file_can_hold_it(
    make_set: MakeSet, identifier: str, code: str
) -> None:
    path = make_set(
        queries=[*QUERIES, *with_ids(identifier)],
        qrels=HEADER + f"q1\td1\t1\nq2\td2\t1\n{identifier}\td1\t1\n",
    )
    assert found(path) == [("queries.jsonl", 3, code), ("qrels/test.tsv", 4, code)]
    with pytest.raises(InputError, match=r"test\.tsv:4: the .*id .*rename"):
        load(path)


@pytest.mark.parametrize("identifier", ["d\u00a09", "d 9"])
def test_judged_document_is_refused_when_no_run_file_can_hold_its_id(
    make_set: MakeSet, identifier: str
) -> None:
    path = make_set(qrels=HEADER + f"q1\td1\t1\nq2\td2\t1\nq2\t{identifier}\t1\n")
    assert ("qrels/test.tsv", 4, "id-whitespace") in found(path)
    with pytest.raises(InputError, match=r"test\.tsv:4: the id .* holds"):
        load(path)


def test_document_id_is_fine_when_it_starts_with_a_hash(make_set: MakeSet) -> None:
    path = make_set(corpus=[*CORPUS, *with_ids("#3")], qrels=HEADER + "q1\td1\t1\nq2\t#3\t1\n")
    assert found(path) == []


@pytest.mark.parametrize("grade", ["1001", "-1001", "9" * 400, "1e300"])
def test_grade_is_refused_when_it_is_out_of_range(make_set: MakeSet, grade: str) -> None:
    path = make_set(qrels=HEADER + f"q1\td1\t1000\nq2\td2\t-1000\nq2\td1\t{grade}\n")
    assert ("qrels/test.tsv", 4, "bad-grade") in found(path)
    with pytest.raises(
        InputError, match=r"test\.tsv:4: query 'q2': the grade .* out of range"
    ) as e:
        load(path)
    assert len(str(e.value)) < 300


def test_corpus_is_refused_when_it_is_gzip(make_set: MakeSet) -> None:
    path = make_set()
    corpus = path / "corpus.jsonl"
    corpus.write_bytes(gzip.compress(corpus.read_bytes()))
    report = validate(path)
    assert ("corpus.jsonl", None, "unreadable-file") in found(path)
    assert not report.ok


def test_look_alike_is_named_when_a_document_is_unknown(make_set: MakeSet) -> None:
    path = make_set(corpus=with_ids("007", "d2"), qrels=HEADER + "q1\t7\t1\nq2\t7\t1\nq2\td2\t1\n")
    (problem,) = validate(path).problems
    assert (problem.line, problem.code) == (2, "unknown-document")
    assert problem.message == "document '7' is not in corpus.jsonl, judged 2 times ('007' is known)"


def test_documents_are_not_looked_for_when_judgements_name_chunks(make_set: MakeSet) -> None:
    path = make_set(qrels=HEADER + "q1\td1#0\t1\nq2\td2#3\t1\n", settings="level: chunk\n")
    assert validate(path).problems == ()


def test_leakage_is_counted_when_splits_share_relevant_documents(make_set: MakeSet) -> None:
    queries = with_ids("a1", "b22", "c333", "d4444")
    path = make_set(
        queries=queries,
        qrels=HEADER + "a1\td1\t1\nb22\td2\t1\n",
        dev=HEADER + "c333\td2\t0\nc333\td1\t1\nd4444\tgone\t1\n",
    )
    report = validate(path)
    (problem,) = [problem for problem in report.problems if problem.code == "leakage"]
    assert report.counts["leakage"] == {"test/dev": {"queries": 1, "of": 2}}
    assert (problem.file, problem.line) == ("qrels/test.tsv", 2)
    assert problem.message.startswith(
        "1 of 2 queries of test share a relevant document with dev (1 of its 2 queries, 1 doc"
    )
    assert report.ok


def test_query_is_named_when_two_splits_judge_it(make_set: MakeSet) -> None:
    path = make_set(dev=HEADER + "q1\td2\t1\n")
    assert ("queries.jsonl", 1, "query-in-two-splits") in found(path)


def test_both_queries_are_named_when_two_splits_ask_nearly_the_same(make_set: MakeSet) -> None:
    queries = [
        {"_id": "q1", "text": "Does gefitinib inhibit EGFR?"},
        {"_id": "q2", "text": "does Gefitinib inhibit  EGFR"},
        {"_id": "q3", "text": "does gefitinib inhibit EGFR!"},
    ]
    path = make_set(
        queries=queries, qrels=HEADER + "q1\td1\t1\nq3\td1\t1\n", dev=HEADER + "q2\td2\t1\n"
    )
    problems = validate(path).problems
    assert [(p.line, p.code) for p in problems] == [
        (2, "near-duplicate-query"),
        (3, "near-duplicate-query"),
    ]
    assert "query 'q2' (dev)" in problems[0].message
    assert "query 'q1' (test) of line 1: similarity 1.00" in problems[0].message


def mutations() -> st.SearchStrategy[bytes]:
    words = b'" { } \\ \\ud800 \xff \x00 \xef\xbb\xbf 1 - q1 d1 NaN 0.5 * &a : [ # null'.split()
    pieces = st.sampled_from([b"\n", b"\r", b"\t", b" ", *words])
    return st.lists(pieces, max_size=6).map(b"".join)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_nothing_but_input_error_is_raised_when_files_are_garbled(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("garbled")
    (directory / "qrels").mkdir()
    files = {
        "corpus.jsonl": "".join(json.dumps(record) + "\n" for record in CORPUS),
        "queries.jsonl": "".join(json.dumps(record) + "\n" for record in QUERIES),
        "qrels/test.tsv": HEADER + "q1\td1\t1\nq2\td2\t1\n",
        "gold.yaml": "name: a\ncutoffs: [5]\ngrades: {1: good}\n",
    }
    for name, text in files.items():
        raw = text.encode()
        start = data.draw(st.integers(0, len(raw)))
        end = data.draw(st.integers(start, min(start + 9, len(raw))))
        (directory / name).write_bytes(raw[:start] + data.draw(mutations()) + raw[end:])
    report = validate(directory)
    json.dumps(report.to_json(), allow_nan=False)
    try:
        for split in splits(directory):
            load(directory, split)
        loaded = True
    except InputError:
        loaded = False
    fatal = [
        problem
        for problem in report.problems
        if problem.severity == "error"
        and problem.file != "corpus.jsonl"
        and problem.code not in {"id-nfc", "empty-query"}
        # Ids that no TREC file can hold are fatal where they are judged.
        and not (
            problem.file == "queries.jsonl"
            and (problem.code == "id-whitespace" or "the query id" in problem.message)
        )
    ]
    assert loaded == (not fatal)
