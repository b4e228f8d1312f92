"""Judgement files: headers, layouts, quotes, grades, repeats."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gold import InputError, read_qrels, write_qrels
from gold.faults import Fault
from gold.qrels import parse_grade, read_judgements

HEADER = "query-id\tcorpus-id\tscore\n"


def read(tmp_path: Path, text: str, name: str = "test.tsv") -> dict[str, dict[str, int]]:
    (tmp_path / name).write_bytes(text.encode())
    return read_qrels(tmp_path / name)


def faults_of(tmp_path: Path, text: str, name: str = "test.tsv") -> list[tuple[str, int | None]]:
    (tmp_path / name).write_bytes(text.encode())
    faults: list[Fault] = []
    read_judgements(tmp_path / name, faults.append)
    return [(fault.code, fault.line) for fault in faults]


def test_first_judgement_is_kept_when_there_is_no_header(tmp_path: Path) -> None:
    assert read(tmp_path, "q1\td1\t1\nq2\td2\t2\n") == {"q1": {"d1": 1}, "q2": {"d2": 2}}
    assert faults_of(tmp_path, "q1\td1\t1\n") == [("missing-header", 1)]


@pytest.mark.parametrize(
    "header",
    [
        "query-id\tcorpus-id\tscore",
        "query_id\tdoc_id\trelevance",
        '"query-id"\t"corpus-id"\t"score"',
    ],
)
def test_header_is_skipped_when_it_names_columns(tmp_path: Path, header: str) -> None:
    assert read(tmp_path, f"\ufeff{header}\r\nq1\td1\t1\r\n") == {"q1": {"d1": 1}}


def test_file_is_refused_when_its_header_orders_columns_otherwise(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"test\.tsv:1: .*put query-id, corpus-id, score"):
        read(tmp_path, "corpus-id\tquery-id\tscore\nd1\tq1\t1\n")


def test_word_for_a_grade_is_no_header_when_the_columns_are_not_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"test\.tsv:1: the grade 'high' is not an integer"):
        read(tmp_path, "q1\td1\thigh\nq2\td2\t1\n")


def test_four_columns_are_read_as_trec_when_parted_by_any_blanks(tmp_path: Path) -> None:
    text = "# judged by hand\n301 0  CR93E-1 0\n301\t0\tCR93E-2\t2\n"
    assert read(tmp_path, text) == {"301": {"CR93E-1": 0, "CR93E-2": 2}}
    assert faults_of(tmp_path, text) == [("trec-layout", 2)]
    assert faults_of(tmp_path, text, "qrels.txt") == []


def test_number_sign_starts_an_id_when_the_layout_is_beir(tmp_path: Path) -> None:
    assert read(tmp_path, HEADER + "#1\t#d\t1\n") == {"#1": {"#d": 1}}


def test_ids_keep_their_text_when_they_look_like_numbers_or_hold_blanks(tmp_path: Path) -> None:
    text = HEADER + "007\t1e3\t1\n7\tlabel A\t1\n"
    assert read(tmp_path, text) == {"007": {"1e3": 1}, "7": {"label A": 1}}


def test_no_break_space_stays_in_an_id_when_columns_are_parted_by_spaces(tmp_path: Path) -> None:
    assert read(tmp_path, "q1 0 d\u00a01 1\n") == {"q1": {"d\u00a01": 1}}


def test_quotation_is_taken_away_only_when_it_is_whole(tmp_path: Path) -> None:
    text = HEADER + '"q1"\t5"-HT\t1\nq2\t"5"-HT\t1\nq3\t"a""b"\t1\n'
    assert read(tmp_path, text) == {"q1": {'5"-HT': 1}, "q2": {'"5"-HT': 1}, "q3": {'a"b': 1}}
    assert faults_of(tmp_path, text) == [("quoted-field", line) for line in (2, 3, 4)]


def test_quotation_mark_swallows_no_line_when_it_is_never_closed(tmp_path: Path) -> None:
    assert read(tmp_path, HEADER + '"q1\td1\t1\nq2\td2\t1\n') == {'"q1': {"d1": 1}, "q2": {"d2": 1}}


@pytest.mark.parametrize(
    ("token", "grade"),
    [
        ("1", 1),
        ("1.0", 1),
        ("-2", -2),
        ("+1", 1),
        ("1e0", 1),
        ("9007199254740993", 9007199254740993),
        ("0.9", None),
        ("", None),
    ]
    + [(token, None) for token in ("nan", "inf", "-inf", "1_0", "１", "one", "1e999")],
)
def test_grade_is_an_integer_or_none_when_parsed(token: str, grade: int | None) -> None:
    assert parse_grade(token) == grade


def test_fraction_is_refused_with_its_line_when_a_grade(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"test\.tsv:3: the grade '0\.9' is not an integer"):
        read(tmp_path, HEADER + "q1\td1\t1.0\nq1\td2\t0.9\n")


def test_both_lines_are_named_when_judgements_conflict(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"test\.tsv:4: .* judged 0 here and 1 in line 2"):
        read(tmp_path, HEADER + "q1\td1\t1\nq1\td2\t1\nq1\td1\t0\n")


def test_repeat_is_tolerated_and_told_when_identical(tmp_path: Path) -> None:
    text = HEADER + "q1\td1\t1\nq1\td1\t1.0\n"
    assert read(tmp_path, text) == {"q1": {"d1": 1}}
    assert faults_of(tmp_path, text) == [("duplicate-judgement", 3)]


def test_every_faulty_line_is_told_when_there_are_several(tmp_path: Path) -> None:
    text = HEADER + "q1\td1\nq1\td1\t1\tx\nq1\td1\tx\n\td1\t1\nq1 d3 1\nq 1\t5\n"
    assert faults_of(tmp_path, text) == [
        ("space-separated", 6),
        ("column-count", 2),
        ("column-count", 3),
        ("bad-grade", 4),
        ("bad-id", 5),
        ("column-count", 7),
    ]


def test_only_the_path_is_named_when_the_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.tsv: no such file"):
        read_qrels(tmp_path / "absent.tsv")


IDS = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1).filter(
    lambda text: not text.startswith("#")
)


@settings(deadline=None)  # the disk is shared
@given(st.dictionaries(IDS, st.dictionaries(IDS, st.integers(-9, 9), min_size=1), min_size=1))
def test_judgements_come_back_when_written_as_trec(
    tmp_path_factory: pytest.TempPathFactory, qrels: dict[str, dict[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("trec") / "qrels.txt"
    write_qrels(path, qrels)
    assert read_qrels(path) == qrels


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        ({"q 1": {"d": 1}}, "query id 'q 1' holds a space"),
        ({"q": {"d\t1": 1}}, "document id 'd\\\\t1' holds a tab"),
        ({"q": {"d\u00a01": 1}}, "holds U\\+00A0"),
        ({"q": {"d\x00": 1}}, "holds U\\+0000"),
        ({"#q": {"d": 1}}, "starts with '#'"),
        ({"\ufeffq": {"d": 1}}, "which readers skip"),
        ({"q": {"": 1}}, "an empty document id"),
        ({"q": {"\ud800": 1}}, "UTF-8"),
        ({"q": {"d": 0.9}}, "is 0.9"),
        ({"q": {"d": True}}, "is True"),
    ],
)
def test_nothing_is_written_when_a_value_is_unfit_for_trec(
    tmp_path: Path, qrels: dict[str, dict[str, int]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        write_qrels(tmp_path / "qrels.txt", {"fine": {"d": 1}} | qrels)
    assert list(tmp_path.iterdir()) == []
