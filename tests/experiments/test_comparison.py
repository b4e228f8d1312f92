"""Two runs in, plain data out."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from run_worlds import write_run

from experiments.comparison.compare import compare_runs, primary_of
from experiments.comparison.gate import judge
from experiments.comparison.gate_file import load_gate
from experiments.comparison.movers import BEYOND_FIRST, moved_at
from experiments.comparison.pairing import pair
from experiments.metrics import Measure
from retriever.files import InputError


def test_figures_are_those_of_the_pairs_when_worked_by_hand(tmp_path: Path) -> None:
    # Differences +.5, -.25, 0, undefined: mean .25 / 3, one win, one tie, one loss. The four sign
    # assignments of .5 and .25 give sums .75 .25 -.25 -.75: all at least .25 away, p = 1.
    one = write_run(tmp_path / "a", {"ndcg@10": [0.5, 0.5, 1.0, None], "hit@5": [1, 1, 0, 0]})
    other = write_run(tmp_path / "b", {"ndcg@10": [1.0, 0.25, 1.0, 0.5], "hit@5": [1, 0, 0, 0]})
    (found,) = compare_runs(one, [other])["comparisons"]
    ndcg = found["metrics"]["ndcg@10"]
    assert ndcg["difference"] == pytest.approx(0.25 / 3)
    assert (ndcg["wins"], ndcg["ties"], ndcg["losses"], ndcg["undefined"]) == (1, 1, 1, 1)
    assert ndcg["p_value"] == 1.0
    assert ndcg["smallest_p"] == 0.5
    assert found["metrics"]["hit@5"]["test"] == "mcnemar"
    assert found["metrics"]["hit@5"]["interval"] == "tango"
    assert found["by_type"]["even"]["queries"] == 2
    assert found["metric"] == "ndcg@10"


def test_first_line_says_so_when_nothing_could_be_significant(tmp_path: Path) -> None:
    # Five queries differ, all one way: 2 / 2^5 = .0625
    one = write_run(tmp_path / "a", {"ndcg@10": [0.5] * 20})
    other = write_run(tmp_path / "b", {"ndcg@10": [1.0] * 5 + [0.5] * 15})
    (found,) = compare_runs(one, [other])["comparisons"]
    assert found["headline"][0].startswith("This comparison could never have been significant")
    assert "0.0625" in found["headline"][0]
    six = write_run(tmp_path / "c", {"ndcg@10": [1.0] * 6 + [0.5] * 14})
    (found,) = compare_runs(one, [six])["comparisons"]
    assert "better" in found["headline"][0]


def test_equal_runs_have_p_one_and_say_that_nothing_moved(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", {"ndcg@10": [0.5, 0.7], "hit@5": [1, 0]})
    other = write_run(tmp_path / "b", {"ndcg@10": [0.5, 0.7], "hit@5": [1, 0]})
    (found,) = compare_runs(one, [other])["comparisons"]
    assert found["headline"] == ["Nothing moved: all 2 queries have the same figures in both runs."]
    assert {f["p_value"] for f in found["metrics"].values()} == {1.0}
    assert found["movers"] == []


def test_swapping_the_runs_mirrors_every_figure(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform(size=(2, 40)).round(2)
    one = write_run(tmp_path / "a", {"ndcg@10": list(values[0])})
    other = write_run(tmp_path / "b", {"ndcg@10": list(values[1])})
    ours = compare_runs(one, [other])["comparisons"][0]["metrics"]["ndcg@10"]
    theirs = compare_runs(other, [one])["comparisons"][0]["metrics"]["ndcg@10"]
    assert theirs["difference"] == pytest.approx(-ours["difference"])
    assert (theirs["wins"], theirs["losses"]) == (ours["losses"], ours["wins"])
    assert theirs["p_value"] == ours["p_value"]


def test_other_gold_is_refused_unless_asked_for(tmp_path: Path) -> None:
    gold = {
        "name": "made", "path": "", "version": "2", "split": "test", "level": "document",
        "digest": "e" * 64, "relevant_from": 1,
    }  # fmt: skip
    one = write_run(tmp_path / "a", {"ndcg@10": [0.5, 0.7, 0.9]})
    ids = {"query_id": ["q0000", "q0001", "q0009"], "text": ["text of q0000", "changed", "new"]}
    other = write_run(tmp_path / "b", {"ndcg@10": [0.6, 0.7, 0.9]}, ids, gold=gold)
    with pytest.raises(InputError, match="different gold sets"):
        pair(one, other)
    (found,) = compare_runs(one, [other], shared_queries=True)["comparisons"]
    assert found["queries"] == 1
    assert found["left_out"] == {
        "only in the baseline": 1,
        "only in the candidate": 1,
        "judged or worded otherwise": 1,
    }
    assert any("only the 1 queries that both share" in line for line in found["headline"])
    assert found["differences"]["gold"]["version"] == {"baseline": "1", "candidate": "2"}


def test_runs_are_refused_when_they_share_no_metric_or_count_otherwise(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", {"ndcg@10": [0.5]})
    with pytest.raises(InputError, match="share no metric"):
        pair(one, write_run(tmp_path / "b", {"mrr@10": [0.5]}))
    gold = {**one.record["gold"], "relevant_from": 2}
    with pytest.raises(InputError, match="relevant_from 1 and 2"):
        pair(one, write_run(tmp_path / "c", {"ndcg@10": [0.5]}, gold=gold))


def test_unscorable_queries_are_left_out(tmp_path: Path) -> None:
    scorable = {"scorable": [True, False, True]}
    one = write_run(tmp_path / "a", {"ndcg@10": [0.5, None, 0.5]}, scorable)
    other = write_run(tmp_path / "b", {"ndcg@10": [0.5, None, 1.0]}, scorable)
    assert compare_runs(one, [other])["comparisons"][0]["queries"] == 2


def test_flow_adds_up_and_names_who_moved(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", {"hit@5": [1, 1, 0]}, {"class": ["ok", "ok", "ranking_gap"]})
    other = write_run(
        tmp_path / "b", {"hit@5": [1, 0, 0]}, {"class": ["ok", "ranking_gap", "ranking_gap"]}
    )
    flow = compare_runs(one, [other])["comparisons"][0]["flow"]
    assert flow == [
        {"from": "ok", "to": "ok", "queries": 1, "ids": []},
        {"from": "ok", "to": "ranking_gap", "queries": 1, "ids": ["q0001"]},
        {"from": "ranking_gap", "to": "ranking_gap", "queries": 1, "ids": []},
    ]
    plain = write_run(tmp_path / "c", {"hit@5": [1, 0, 0]})
    assert compare_runs(one, [plain])["comparisons"][0]["flow"] is None


def ranks(**both: tuple[int | None, int | None]) -> dict[str, dict[str, int | None]]:
    return {
        name.replace("__", ":"): {"baseline": a, "candidate": b} for name, (a, b) in both.items()
    }


TIER_2 = {"injected": (2, 2), "reranked": (1, 4), "final": (1, 4)}
SUPPLEMENT = {"injected": (1, 9), "reranked": (1, 9), "final": (1, 9)}
SAME = {"reranked": (1, 1), "final": (1, 1)}


@pytest.mark.parametrize(
    ("given", "stage", "lists"),
    [
        (ranks(t__dense=(3, 3), merged=(2, 2), **TIER_2), "reranked", []),
        (ranks(t__dense=(3, 9), merged=(2, 5), **SUPPLEMENT), "lists", ["t:dense"]),
        # what the list lost the merge made good; the move is tier 2's
        (ranks(t__dense=(3, 9), merged=(2, 2), **TIER_2), "reranked", []),
        (ranks(merged=(2, 4), injected=(2, 4), **SAME), BEYOND_FIRST, []),
        (ranks(supplement=(1, None), merged=(9, 9), **SUPPLEMENT), "supplement", []),
        (ranks(merged=(2, 2), injected=(2, 2), reranked=(2, 2), final=(1, 2)), "final", []),
        ({}, None, []),
    ],
)
def test_stage_is_where_the_ranks_part_for_good(given, stage, lists) -> None:
    assert moved_at(given) == (stage, lists)


def test_movers_stand_by_size_of_the_move_with_their_ranks(tmp_path: Path) -> None:
    one = write_run(
        tmp_path / "a",
        {"ndcg@10": [1.0, 0.5, 0.5, 0.5]},
        {"gold_rank:merged": [1, 2, 3, None], "gold_rank:final": [1, 2, 3, None]},
    )
    other = write_run(
        tmp_path / "b",
        {"ndcg@10": [0.4, 0.5, 1.0, 0.6]},
        {"gold_rank:merged": [1, 2, 1, 7], "gold_rank:final": [4, 2, 1, 7]},
    )
    found = compare_runs(one, [other], most_movers=2)["comparisons"][0]["movers"]
    assert [(m["query_id"], m["stage"]) for m in found] == [("q0000", "final"), ("q0002", "merged")]
    assert found[0]["ranks"]["final"] == {"baseline": 1, "candidate": 4}


def test_several_candidates_share_one_family_and_are_lettered(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    base = rng.uniform(0.2, 0.6, size=60)
    runs = [
        write_run(tmp_path / name, {"ndcg@10": list(np.clip(base + shift, 0, 1))})
        for name, shift in (("a", rng.normal(0, 0.01, 60)), ("b", rng.normal(0.1, 0.05, 60)),
                            ("c", rng.normal(0, 0.01, 60)))
    ]  # fmt: skip
    made = compare_runs(runs[0], runs[1:], labels=["a", "b", "c"])
    assert made["families"]["overall"] == 2
    assert made["systems"]["tests"] == 3
    better = {r["label"]: r["metrics"]["ndcg@10"]["better_than"] for r in made["systems"]["rows"]}
    assert better == {"a": [], "b": ["a", "c"], "c": []}
    first, second = (found["metrics"]["ndcg@10"] for found in made["comparisons"])
    # Holm over two: the smaller p doubles.
    assert first["p_adjusted"] == pytest.approx(2 * first["p_value"])
    assert second["p_adjusted"] == pytest.approx(second["p_value"])


def test_metric_of_the_verdict_is_refused_when_no_run_holds_it() -> None:
    held = [Measure("ndcg", 10), Measure("hit", 5)]
    assert primary_of(held, None) == held[0]
    assert primary_of(held, "Hit@5") == held[1]
    with pytest.raises(InputError, match="hold no mrr@10"):
        primary_of(held, "mrr@10")


def test_comparison_of_5000_queries_takes_under_five_seconds(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    names = ["hit@5", "mrr@10", "ndcg@10", "recall@100", "map@100", "judged@10", "coverage@5"]
    types = {"type": [f"type {i % 8}" for i in range(5000)]}
    runs = []
    for name in "ab":
        figures = {n: list(rng.uniform(size=5000).round(3)) for n in names}
        figures["hit@5"] = list(rng.integers(0, 2, size=5000).astype(float))
        ranks = {f"gold_rank:{s}": list(rng.integers(1, 100, 5000)) for s in ("merged", "final")}
        runs.append(write_run(tmp_path / name, figures, {**types, **ranks}))
    begin = time.process_time()
    made = compare_runs(runs[0], [runs[1]])
    assert time.process_time() - begin < 5
    assert json.dumps(made, allow_nan=False)


def test_undefined_metric_of_the_verdict_is_said_and_refused_in_a_gate(tmp_path: Path) -> None:
    undefined = {
        "ndcg@10": {"value": None, "undefined": 3},
        "hit@5": {"value": 1.0, "undefined": 0},
    }
    good = {"ndcg@10": [0.2, 0.4, 0.6], "hit@5": [1.0, 1.0, 1.0]}
    base = write_run(tmp_path / "a", good)
    other = write_run(tmp_path / "b", good | {"ndcg@10": [None] * 3}, metrics=undefined)
    made = compare_runs(base, [other], metric="ndcg@10")["comparisons"][0]
    assert any("ndcg@10: undefined for every query" in line for line in made["headline"])
    rules = tmp_path / "gate.yaml"
    rules.write_text("rules:\n  - {rule: max_drop, metric: ndcg@10, at_most: 0.1}\n")
    with pytest.raises(InputError, match=r"ndcg@10, which is undefined for every query"):
        judge(load_gate(rules), pair(base, other), made, str(rules))
