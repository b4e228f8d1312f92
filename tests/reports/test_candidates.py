"""Which candidates a drill-down shows, and what each term gave them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_worlds import WEIGHTS, write_run

from reports.candidates import ABOVE, GOLD, TOP, best_gold_ranks, choose, read_candidates
from reports.run_directory import RunDirectory


def shown(units: list[int], gold: set[int], query: int = 0) -> list[tuple[int, int]]:
    """Unit and rank of the rows chosen from one query's chunks in order."""
    unit = np.array(units)
    owner = np.full(len(units), query)
    marked = np.array([one in gold for one in units])
    rows, place = choose(owner, unit, np.arange(1, len(units) + 1), marked)
    return list(zip(unit[rows].tolist(), place.tolist(), strict=True))


def test_first_ten_units_are_shown_when_the_gold_is_among_them() -> None:
    assert shown(list(range(30)), {3}) == [(unit, unit + 1) for unit in range(10)]


def test_gold_and_five_above_are_shown_when_it_is_far_down() -> None:
    # Gold at rank 21: the first ten, ranks 16 to 20, and itself.
    expected = [*range(1, 11), *range(16, 22)]
    assert [place for _, place in shown(list(range(30)), {20})] == expected


def test_unit_stands_where_its_first_chunk_stands() -> None:
    # Chunks of units 7, 7, 8, 7, 9: three units at ranks 1, 2, 3.
    assert shown([7, 7, 8, 7, 9], {9}) == [(7, 1), (8, 2), (9, 3)]


def test_few_of_many_relevant_units_are_shown() -> None:
    found = shown(list(range(40)), set(range(12, 40)))
    assert sum(unit >= 12 for unit, _ in found) == GOLD


def test_chunks_that_are_not_ranked_are_left_out() -> None:
    query, unit = np.zeros(3, np.int64), np.array([0, 1, 2])
    rows, place = choose(query, unit, np.array([0, 2, 1]), np.zeros(3, np.bool_))
    assert rows.tolist() == [2, 1]
    assert place.tolist() == [1, 2]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 25), st.booleans()), min_size=0, max_size=80
    )
)
def test_choice_holds_top_gold_and_neighbours(drawn: list[tuple[int, int, bool]]) -> None:
    query = np.array([one[0] for one in drawn], dtype=np.int64)
    unit = np.array([one[1] for one in drawn], dtype=np.int64)
    relevant = {(q, u) for q, u, flag in drawn if flag}
    gold = np.array([(q, u) in relevant for q, u, _ in drawn], dtype=np.bool_)
    order = np.arange(1, len(drawn) + 1)
    rows, place = choose(query, unit, order, gold)
    for q in set(query.tolist()):
        units = list(dict.fromkeys(u for p, u, _ in drawn if p == q))
        here = {int(p): int(unit[r]) for r, p in zip(rows, place, strict=True) if query[r] == q}
        assert all(units[p - 1] == u for p, u in here.items())
        assert set(range(1, min(TOP, len(units)) + 1)) <= set(here)
        ranks = [p for p, u in enumerate(units, 1) if (q, u) in relevant]
        assert set(ranks[:GOLD]) <= set(here)
        if ranks:
            assert set(range(max(1, ranks[0] - ABOVE), ranks[0])) <= set(here)
        assert len(here) <= TOP + GOLD + ABOVE


def test_waterfall_takes_the_best_chunk_of_a_unit_at_each_stage() -> None:
    # Unit 4 has two chunks, unit 5 one that was recalled and then dropped from the order.
    query = np.array([0, 0, 0, 0])
    unit = np.array([4, 4, 5, 6])
    order = np.array([9, 3, 0, 1])
    gold = np.array([True, True, True, False])
    owner, name, best = best_gold_ranks(
        query, unit, order, gold, {"bm25": np.array([2, 0, 7, 1]), "merged": np.array([5, 4, 0, 1])}
    )
    assert owner.tolist() == [0, 0]
    assert name.tolist() == [4, 5]
    assert best["bm25"].tolist() == [2, 7]
    assert best["merged"].tolist() == [4, 0]


def test_contributions_make_the_score_and_the_penalty_is_negative(tmp_path: Path) -> None:
    found = read_candidates(RunDirectory.open(write_run(tmp_path / "run")))
    assert set(found.contributions) == {"rank", "entity", "section", "xdrug"}
    total = np.sum(list(found.contributions.values()), axis=0)
    assert total == pytest.approx(found.score)
    assert (found.contributions["xdrug"] <= 0).all()
    assert found.contributions["xdrug"].min() == -WEIGHTS["w_xdrug_penalty"]
    assert found.in_pool.all()


def rewrite(file: Path, **columns: object) -> None:
    table = pq.read_table(file)
    for name, column in columns.items():
        place = table.column_names.index(name.replace("__", ":"))
        table = table.set_column(place, table.column_names[place], pa.array(column))
    pq.write_table(table, file)


def test_what_a_structure_raised_a_score_by_is_a_part_of_its_own(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", queries=1, candidates=3)
    names = {
        name: pq.read_table(run / "candidates.parquet").column(name).to_numpy()
        for name in ("term:final",)
    }
    raised = names["term:final"] + np.array([0.0, 0.25, 0.0])
    rewrite(run / "candidates.parquet", **{"term__final": raised, "score__final": raised})
    found = read_candidates(RunDirectory.open(run))
    assert found.contributions["structure"] == pytest.approx([0, 0.25, 0])
    assert np.sum(list(found.contributions.values()), axis=0) == pytest.approx(found.score)


def test_no_part_is_made_up_when_the_run_tells_no_weights(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    rewrite(run / "queries.parquet", **{f"weight__{name}": [None] * 12 for name in WEIGHTS})
    found = read_candidates(RunDirectory.open(run))
    assert found.contributions == {}
    assert np.isfinite(found.score).all()
