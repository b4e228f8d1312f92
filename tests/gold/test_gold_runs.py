"""Runs of others and our own: trec_eval's order, sniffed formats, repeats, strict scores."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from gold import InputError, Run, read_run, write_run


def read(tmp_path: Path, text: str | bytes, repair: bool = False) -> Run:
    data = text.encode() if isinstance(text, str) else text
    (tmp_path / "run").write_bytes(data)
    return read_run(tmp_path / "run", repair)


def test_order_is_score_then_id_descending_when_ranks_say_otherwise(tmp_path: Path) -> None:
    run = read(tmp_path, "q Q0 a 1 1.0 tag\nq Q0 c 2 2.5 tag\nq Q0 b 3 1.0 tag\n")
    assert run.rankings == {"q": ["c", "b", "a"]}
    assert run.scores == {"q": [2.5, 1.0, 1.0]}
    assert (run.name, run.format, run.repaired) == ("tag", "trec", 0)


def test_scores_tie_when_they_are_equal_in_32_bits(tmp_path: Path) -> None:
    # float32 has 24 bits: its step above 1 is 2**-23 = 1.2e-7, so 1.00000001 rounds to 1.
    run = read(tmp_path, "q Q0 a 1 1.00000001 t\nq Q0 b 2 1.0 t\nq Q0 c 3 1.0000002 t\n")
    assert run.rankings == {"q": ["c", "b", "a"]}
    assert run.scores == {"q": [1.0000002, 1.0, 1.00000001]}


def test_ties_break_by_bytes_when_ids_are_not_ascii(tmp_path: Path) -> None:
    # UTF-8: z is 7A, é C3 A9, the emoji F0 9F ..., U+FB01 EF AC 81: descending F0, EF, C3, 7A.
    run = read(tmp_path, "".join(f"q Q0 {d} 0 1 t\n" for d in ("é", "\ufb01", "z", "😀")))
    assert run.rankings == {"q": ["😀", "\ufb01", "é", "z"]}


@pytest.mark.parametrize("packed", [False, True])
def test_json_run_reads_like_trec_when_sniffed(tmp_path: Path, packed: bool) -> None:
    data = b'\xef\xbb\xbf {"q1": {"a": 1, "b": 2.5}, "q2": {}}'
    run = read(tmp_path, gzip.compress(data) if packed else data)
    assert run == Run({"q1": ["b", "a"], "q2": []}, {"q1": [2.5, 1.0], "q2": []}, "run", "json")


def test_queries_merge_when_their_lines_are_apart(tmp_path: Path) -> None:
    run = read(
        tmp_path, "q2 Q0 a 1 1 t\r\n\r\nq1 Q0 a 1 1 t\r\n# note\r\nq2 Q0 b 1 3 t more words\r\n"
    )
    assert list(run.rankings.items()) == [("q2", ["b", "a"]), ("q1", ["a"])]


def test_both_lines_are_named_when_trec_lists_a_document_twice(tmp_path: Path) -> None:
    text = "q Q0 a 1 1 t\nq Q0 b 2 9 t\nq Q0 a 3 5 t\n"
    with pytest.raises(InputError, match=r"run:3: query 'q' lists document 'a' in lines 1 and 3"):
        read(tmp_path, text)
    run = read(tmp_path, text, repair=True)
    assert (run.rankings, run.scores, run.repaired) == ({"q": ["b", "a"]}, {"q": [9.0, 5.0]}, 1)


def test_both_lines_are_named_when_json_lists_a_document_twice(tmp_path: Path) -> None:
    text = '{"p": {"a": 1},\n "q": {"a": 1,\n "b\\"": 2,\n "a": 5}}'
    with pytest.raises(InputError, match=r"run:4: query 'q' lists document 'a' in lines 2 and 4"):
        read(tmp_path, text)
    run = read(tmp_path, text, repair=True)
    assert (run.scores["q"], run.repaired) == ([5.0, 2.0], 1)


def test_both_lines_are_named_when_json_lists_a_query_twice(tmp_path: Path) -> None:
    text = '{"q": {"a": 1},\n"q": {"b": 2, "a": 3}}'
    with pytest.raises(InputError, match=r"run:2: query 'q' stands in lines 1 and 2"):
        read(tmp_path, text)
    run = read(tmp_path, text, repair=True)
    assert (run.rankings, run.repaired) == ({"q": ["a", "b"]}, 2)


@pytest.mark.parametrize("score", ["nan", "inf", "-Infinity", "1e39", "1_0", "١", "x", "0x1p3"])
def test_line_is_named_when_a_trec_score_is_no_finite_number(tmp_path: Path, score: str) -> None:
    with pytest.raises(InputError, match=r"run:2: the score .* is no finite number"):
        read(tmp_path, f"q Q0 a 1 1 t\nq Q0 b 2 {score} t\n")


@pytest.mark.parametrize("score", ["NaN", "Infinity", "1e39", "1e999", '"1"', "true", "null", "[]"])
def test_line_is_named_when_a_json_score_is_no_finite_number(tmp_path: Path, score: str) -> None:
    with pytest.raises(InputError, match=r"run:3: the score .* is no finite number"):
        read(tmp_path, f'{{"q":\n{{"a": 1,\n"b": {score}}}}}')


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the run is empty"),
        (b"{}", "the run is empty"),
        (b"q Q0 a 1 1\n", "run:1: expected 6 columns, got 5"),
        (b"q Q0 \xff 1 1 t\n", "run:1: not UTF-8"),
        (b'{"q": {"\xff": 1}}', "run:1: not UTF-8"),
        (b'{"q":\n [1]}', "run:1: the value of query 'q' is no object"),
        (b"[]", "run:1: the run is a list"),
        (b'{"q": {"a": 1}', "run:1: invalid JSON"),
        (b'{"q": {"": 1}}', "run:1: .* empty"),
        (b'{"q": {"\\ud800": 1}}', "run:1: .* no UTF-8"),
        (b'{"q":' * 100_000, "invalid JSON"),
        ("q Q0 a 1 1 t\n".encode("utf-16"), "UTF-16"),
        (b"PAR1....", "a Parquet file is not read"),
        (b"\x80\x04\x95", "a pickle is not read"),
    ],
)
def test_one_clear_error_is_raised_when_a_file_is_no_run(
    tmp_path: Path, data: bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, data)


def test_path_is_named_when_the_run_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.trec: no such file"):
        read_run(tmp_path / "absent.trec")
    with pytest.raises(InputError, match="cannot be read"):
        read_run(tmp_path)


SCORES = st.sampled_from([0.0, -0.0, 1.0, 1.00000001, 1.0000001, -3.5, 2.0**24, 2.0**24 + 1, 1e-46])
LISTS = st.dictionaries(st.text("abé1", min_size=1, max_size=3), SCORES, min_size=1, max_size=9)


@settings(deadline=None)  # the disk is shared
@given(st.dictionaries(st.sampled_from("pq"), LISTS, min_size=1), st.randoms(use_true_random=False))
def test_order_is_one_whatever_the_order_of_the_file(
    tmp_path_factory: pytest.TempPathFactory,
    lists: dict[str, dict[str, float]],
    rng: random.Random,
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    rows = [f"{q} Q0 {d} 0 {s!r} t\n" for q, entries in lists.items() for d, s in entries.items()]
    (folder / "a").write_text("".join(rows))
    rng.shuffle(rows)
    (folder / "b").write_text("".join(rows))
    (folder / "c.json").write_text(json.dumps(lists))
    runs = [read_run(folder / name) for name in ("a", "b", "c.json")]
    assert runs[0].rankings == runs[1].rankings == runs[2].rankings


@settings(deadline=None)  # the disk is shared
@given(LISTS, st.data())
def test_metrics_equal_trec_evals_when_read_in_our_order(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[str, float], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("run") / "run.trec"
    path.write_text("".join(f"q Q0 {d} 0 {s!r} t\n" for d, s in entries.items()))
    relevant = data.draw(st.sampled_from(sorted(entries)))
    referee = pytrec_eval.RelevanceEvaluator({"q": {relevant: 1}}, {"recip_rank"})
    rank = read_run(path).rankings["q"].index(relevant) + 1
    assert referee.evaluate({"q": entries})["q"]["recip_rank"] == pytest.approx(1 / rank)


def test_scores_fall_by_one_from_depth_when_a_run_is_written(tmp_path: Path) -> None:
    write_run(tmp_path / "run.trec", {"q1": ["b", "a", "c"], "q2": []}, depth=2, name="ours")
    assert (tmp_path / "run.trec").read_bytes() == b"q1 Q0 b 1 1 ours\nq1 Q0 a 2 0 ours\n"


@settings(deadline=None)  # the disk is shared
@given(
    st.dictionaries(
        st.text("q#1é", min_size=1).filter(lambda text: text[0] != "#"),
        st.lists(st.text("d#1é", min_size=1), unique=True, min_size=1, max_size=9),
        min_size=1,
    )
)
def test_rankings_come_back_when_a_run_is_written(
    tmp_path_factory: pytest.TempPathFactory, rankings: dict[str, list[str]]
) -> None:
    path = tmp_path_factory.mktemp("run") / "run.trec"
    write_run(path, rankings, depth=9, name="ours")
    run = read_run(path)
    assert list(run.rankings.items()) == list(rankings.items())
    assert run.name == "ours"


@pytest.mark.parametrize(
    ("rankings", "depth", "name", "message"),
    [
        ({"q": ["a b"]}, 5, "n", "document id 'a b' holds a space"),
        ({"q\n": ["a"]}, 5, "n", "holds a line feed"),
        ({"#q": ["a"]}, 5, "n", "starts with '#'"),
        ({"q": ["a", "a"]}, 5, "n", "ranks a document twice"),
        ({"q": ["a"]}, 5, "my run", "run name 'my run' holds a space"),
        ({"q": ["a"]}, 0, "n", "a depth of 0"),
        ({"q": ["a"]}, 2**24 + 1, "n", "float32"),
    ],
)
def test_nothing_is_written_when_a_run_is_unfit(
    tmp_path: Path, rankings: dict[str, list[str]], depth: int, name: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        write_run(tmp_path / "run.trec", {"fine": ["a"]} | rankings, depth, name)
    assert list(tmp_path.iterdir()) == []
