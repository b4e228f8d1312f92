"""Loading a split: which queries, which fields, which identity, which refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gold import InputError, corpus_ids, load, read_corpus, splits

MakeSet = Callable[..., Path]
HEADER = "query-id\tcorpus-id\tscore\n"
QUERIES: list[dict[str, object]] = [
    {"_id": "q1", "text": "which drug inhibits EGFR", "metadata": {"type": "mechanism"}},
    {"_id": "q2", "text": "lower blood sugar"},
]


def test_queries_are_those_judged_in_file_order_when_a_split_is_loaded(make_set: MakeSet) -> None:
    queries = [{"_id": query_id, "text": query_id} for query_id in ("q3", "q1", "q2")]
    gold = load(make_set(queries=queries, qrels=HEADER + "q2\td1\t1\nq3\td2\t0\nq2\td2\t-1\n"))
    assert list(gold.queries) == list(gold.qrels) == ["q3", "q2"]
    assert gold.qrels == {"q3": {"d2": 0}, "q2": {"d1": 1, "d2": -1}}


def test_defaults_stand_when_there_is_no_settings_file(make_set: MakeSet) -> None:
    gold = load(make_set())
    assert (gold.name, gold.version, gold.licence, gold.split) == ("set", "", "", "test")
    assert (gold.level, gold.success, gold.coverage_threshold) == ("document", "any", 1.0)
    assert (gold.relevant_from, gold.cutoffs, gold.grades) == (1, (5, 10, 100), {})


def test_known_metadata_becomes_fields_when_a_query_is_read(make_set: MakeSet) -> None:
    metadata = {
        "type": "regulatory", "role": "ra", "workflow": "w", "expected_terms": ["EGFR", "IL-2"],
        "scope": {"tags": ["label"]}, "image": "x.png", "smiles": "CCO", "critical": True, "k": 3,
        "note": {"kept": [1]},
    }  # fmt: skip
    path = make_set(queries=[{"_id": "q1", "text": "t", "metadata": metadata}, QUERIES[1]])
    query = load(path).queries["q1"]
    assert (query.type, query.role, query.workflow) == ("regulatory", "ra", "w")
    assert (query.expected_terms, query.scope) == (("EGFR", "IL-2"), {"tags": ("label",)})
    assert (query.image, query.smiles, query.critical, query.k) == ("x.png", "CCO", True, 3)
    assert query.metadata == {"note": {"kept": [1]}}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("type", 3), ("role", ["a"]), ("expected_terms", "EGFR"), ("expected_terms", ["a", 1]),
        ("expected_terms", [" "]), ("scope", ["label"]), ("scope", {"tags": "label"}),
        ("critical", "yes"), ("k", 0), ("k", True), ("k", 5.0), ("smiles", 1),
    ],
)  # fmt: skip
def test_field_is_refused_with_its_line_when_its_type_is_wrong(
    make_set: MakeSet, field: str, value: object
) -> None:
    queries = [QUERIES[0], {"_id": "q2", "text": "t", "metadata": {field: value}}]
    with pytest.raises(InputError, match=rf'queries\.jsonl:2: "{field}" is .*expected'):
        load(make_set(queries=queries))


def test_null_reads_as_absent_when_a_field_has_it(make_set: MakeSet) -> None:
    queries = [{"_id": "q1", "text": "t", "metadata": {"type": None, "k": None}}, QUERIES[1]]
    query = load(make_set(queries=queries)).queries["q1"]
    assert (query.type, query.k, query.metadata) == ("", None, {})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"_id": 1.5, "text": "t"}', r'"_id" is 1\.5'),
        ('{"_id": 1.0, "text": "t"}', r'"_id" is 1\.0'),
        ('{"_id": true, "text": "t"}', '"_id" is True'),
        ('{"_id": null, "text": "t"}', '"_id" is None'),
        ('{"_id": "", "text": "t"}', "an empty text"),
        ('{"id": "q9", "text": "t"}', 'rename "id" to "_id"'),
        ('{"_id": "q9"}', 'no "text"'),
        ('{"_id": "q9", "text": 3}', '"text" is 3, not a text'),
        ('{"_id": "q9", "text": "t", "metadata": []}', '"metadata" is'),
        ('{"_id": "q1", "text": "t"}', "stands in line 1 already"),
        ("not json", "invalid JSON"),
    ],
)
def test_line_is_named_when_a_query_cannot_be_read(
    make_set: MakeSet, line: str, message: str
) -> None:
    lines = [json.dumps(QUERIES[0]), json.dumps(QUERIES[1]), line]
    with pytest.raises(InputError, match=rf"queries\.jsonl:3: .*{message}"):
        load(make_set(queries="\n".join(lines)))


def test_unquoted_integer_id_meets_its_text_when_judged(make_set: MakeSet) -> None:
    queries = '{"_id": 7, "text": "t"}\n{"_id": "007", "text": "t"}\n'
    gold = load(make_set(queries=queries, qrels=HEADER + "7\td1\t1\n007\td2\t1\n"))
    assert gold.qrels == {"7": {"d1": 1}, "007": {"d2": 1}}


def test_splits_present_are_listed_when_one_is_missing(make_set: MakeSet) -> None:
    path = make_set(dev=HEADER + "q1\td1\t1\n")
    (path / "qrels" / "._dev.tsv").write_text("left by a file manager")
    assert splits(path) == ("dev", "test")
    with pytest.raises(
        InputError, match=r"train\.tsv: no such split \(splits present: dev, test\)"
    ):
        load(path, "train")
    with pytest.raises(InputError, match="no such split"):
        load(path, "../qrels/test")


def test_look_alike_is_named_when_a_judged_query_is_unknown(make_set: MakeSet) -> None:
    qrels = HEADER + "q1\td1\t1\nQ2\td2\t1\n"
    with pytest.raises(InputError, match=r"test\.tsv:3: query 'Q2' is not .*\('q2' is known\)"):
        load(make_set(qrels=qrels))


def test_judgement_is_kept_when_its_document_is_not_in_the_corpus(make_set: MakeSet) -> None:
    assert load(make_set(qrels=HEADER + "q1\tgone\t2\n")).qrels == {"q1": {"gone": 2}}


@pytest.mark.parametrize("qrels", ["", HEADER, "\n\n"])
def test_split_is_refused_when_it_has_no_judgement(make_set: MakeSet, qrels: str) -> None:
    with pytest.raises(InputError, match=r"test\.tsv: no judgement"):
        load(make_set(qrels=qrels))


def test_directory_is_asked_for_when_the_path_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "absent"):
        with pytest.raises(InputError, match="give the folder"):
            load(tmp_path / name)


def digest_of(make_set: MakeSet, tmp_path: Path, **content: object) -> str:
    digest = load(make_set(**content)).digest
    (tmp_path / "set").rename(tmp_path / f"set{len(list(tmp_path.iterdir()))}")
    return digest


def test_digest_stays_when_only_the_formatting_changes(make_set: MakeSet, tmp_path: Path) -> None:
    plain = digest_of(make_set, tmp_path, settings="name: a\nrelevant_from: 1\n")
    reordered = "\ufeff" + "".join(json.dumps(q, indent=None) + " \r\n" for q in QUERIES[::-1])
    qrels = "q2\td2\t1.0\n\nq2\td2\t1\nq1\td1\t1\n"
    settings = "# note\ncoverage_threshold: 1\nname: 'a'\n"
    assert plain == digest_of(
        make_set, tmp_path, queries=reordered, qrels=qrels, settings=settings, corpus="other"
    )
    assert len(plain) == 64


@pytest.mark.parametrize(
    "content",
    [
        {"queries": [QUERIES[0] | {"text": "other"}, QUERIES[1]]},
        {"queries": [QUERIES[0] | {"metadata": {"type": "x"}}, QUERIES[1]]},
        {"queries": [QUERIES[0] | {"metadata": {"type": "mechanism", "n": 1}}, QUERIES[1]]},
        {"qrels": HEADER + "q1\td1\t2\nq2\td2\t1\n"},
        {"qrels": HEADER + "q1\td1\t1\nq2\td2\t1\nq2\td1\t0\n"},
        {"settings": "success: all\n"},
    ],
)
def test_digest_changes_when_content_does(
    make_set: MakeSet, tmp_path: Path, content: dict[str, object]
) -> None:
    assert digest_of(make_set, tmp_path) != digest_of(make_set, tmp_path, **content)


def test_documents_come_with_lines_when_the_corpus_is_read(make_set: MakeSet) -> None:
    corpus = (
        '{"_id": "b", "text": ""}\n\n{"_id": 3, "title": null, "text": "t", "metadata": {"n": 1}}'
    )
    path = make_set(corpus=corpus)
    first, second = read_corpus(path)
    assert (first.document_id, first.title, first.text, first.line) == ("b", "", "", 1)
    assert (second.document_id, second.metadata, second.line) == ("3", {"n": 1}, 3)
    assert corpus_ids(path) == corpus_ids(path / "corpus.jsonl") == {"b", "3"}


def test_both_lines_are_named_when_the_corpus_repeats_an_id(make_set: MakeSet) -> None:
    path = make_set(corpus='{"_id": "7", "text": "a"}\n{"_id": 7, "text": "b"}\n')
    with pytest.raises(InputError, match=r"corpus\.jsonl:2: the id '7' stands in line 1 already"):
        list(read_corpus(path))
