"""The leaderboard: which runs stand on it, in which order, and what is left out and said."""

import json
import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.exceptions import MlflowException

from experiments.tracking import leaderboard
from experiments.tracking.leaderboard import _created, boards
from retriever.files import InputError


def run(
    run_id: str, value: float | None, gold: str | None = "a", status: str = "FINISHED", **tags: str
) -> Any:
    """A run as MLflow gives it; `gold` is the digest of its set and, in capitals, its name."""
    known = {"assay.gold_digest": gold, "assay.gold": gold.upper()} if gold else {}
    return SimpleNamespace(
        info=SimpleNamespace(
            run_id=run_id, run_name=f"run {run_id}", status=status, start_time=1_700_000_000_000
        ),
        data=SimpleNamespace(
            tags={**known, **{f"assay.{key}": value for key, value in tags.items()}},
            metrics={} if value is None else {"ndcg_at_10": value},
        ),
    )


@dataclass
class Client:
    """MLflow's client, as far as the leaderboard asks it: pages of two runs."""

    runs: list[Any]
    aliases: dict[str, str] = field(default_factory=dict)
    stage: str = "active"

    def get_experiment_by_name(self, name: str) -> Any:
        known = SimpleNamespace(experiment_id="1", lifecycle_stage=self.stage)
        return known if name == "assay" else None

    def search_runs(self, _: Any, max_results: int, page_token: str | None) -> Any:
        start = int(page_token or 0)
        end = start + 2

        class Page(list[Any]):
            token = str(end) if end < len(self.runs) else None

        return Page(self.runs[start:end])

    def get_registered_model(self, _: str) -> Any:
        if not self.aliases:
            raise MlflowException("no such model")
        return SimpleNamespace(aliases={name: name for name in self.aliases})

    def get_model_version(self, _: str, version: str) -> Any:
        return SimpleNamespace(run_id=self.aliases[version])


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Any:
    def give(*runs: Any, **more: Any) -> None:
        monkeypatch.setattr(leaderboard, "open_client", lambda _: Client(list(runs), **more))

    return give


def test_runs_fall_by_value_and_equal_ones_share_a_rank(given: Any) -> None:
    given(run("d", 0.5), run("b", 0.9), run("c", 0.9), run("a", 0.95), run("e", 0.4))
    (board,) = boards("assay", "NDCG@10", 4)["boards"]
    # Two second places: the next is the fourth. By run id within a rank.
    ranks = [(row["rank"], row["run_id"]) for row in board["rows"]]
    assert ranks == [(1, "a"), (2, "b"), (2, "c"), (4, "d")]
    assert board["runs"] == 5


def test_order_is_the_same_whatever_order_mlflow_gives(given: Any) -> None:
    runs = [run("d", 0.5), run("b", 0.9, "z"), run("c", 0.9), run("a", 0.95, "z")]
    given(*runs)
    found = boards("assay", "ndcg@10", 9)
    given(*reversed(runs))
    assert boards("assay", "ndcg@10", 9) == found


def test_each_gold_set_has_a_board_of_its_own(given: Any) -> None:
    given(run("x", 0.1, "b"), run("y", 0.9, "a"), run("z", 0.2, "b"))
    found = [
        (board["gold"], [row["run_id"] for row in board["rows"]])
        for board in boards("assay", "ndcg@10", 9)["boards"]
    ]
    assert found == [("A", ["y"]), ("B", ["z", "x"])]


def test_what_does_not_stand_on_a_board_is_counted_by_reason(given: Any) -> None:
    given(
        run("a", 0.5),
        run("b", None),
        run("c", None, kind="sweep"),
        run("d", None, kind="trial"),
        run("e", None, kind="trial"),
        run("f", None, kind="linking"),
        run("g", 0.9, status="FAILED"),
        run("h", 0.9, gold=None),
        run("i", math.nan),
        run("j", math.inf),
    )
    found = boards("assay", "ndcg@10", 9)
    assert [row["run_id"] for row in found["boards"][0]["rows"]] == ["a"]
    assert found["left_out"] == {
        "without ndcg@10": 1,
        "sweeps, without ndcg@10": 1,
        "trials of sweeps, without ndcg@10": 2,
        "entity linking, without ndcg@10": 1,
        "no finished evaluation": 2,
        "ndcg@10 is no number": 2,
    }


def test_table_and_json_say_the_same(given: Any, assay: Any) -> None:
    evil = run("a" * 32, 0.5, config="f" * 64)
    evil.info.run_name = f"\x1b[2J[red]{'x' * 9999}"
    given(
        evil, run("b" * 32, 0.25, kind="imported"), run("c" * 32, None), aliases={"best": "b" * 32}
    )
    shown = assay("leaderboard", "--most", 1)
    assert shown.code == 0
    assert "A (a), 2 runs" in shown.out
    assert r"\x1b[2J[red]xxx" in shown.out
    assert "x" * 60 not in shown.out
    assert "0.5000" in shown.out
    assert "1 more run: --most" in shown.out
    assert "1 run left out: without ndcg@10" in shown.out
    assert "@best" in assay("leaderboard").out
    assert len(json.loads(assay("leaderboard", "--json").out)["boards"][0]["rows"]) == 2


def test_empty_board_says_so(given: Any, assay: Any) -> None:
    given(run("a", None))
    assert assay("leaderboard").out.splitlines() == [
        "no run has a figure of ndcg@10",
        "1 run left out: without ndcg@10",
    ]


def test_experiment_that_is_not_there_is_refused(given: Any) -> None:
    given()
    with pytest.raises(InputError, match="no MLflow experiment 'other'"):
        boards("other", "ndcg@10", 9)
    given(stage="deleted")
    with pytest.raises(InputError, match="deleted"):
        boards("assay", "ndcg@10", 9)


@pytest.mark.parametrize("milliseconds", [None, 0, 10**18, -(10**18)])
def test_run_without_a_time_that_there_is_has_no_date(milliseconds: int | None) -> None:
    assert _created(milliseconds) == ""
    assert _created(86_400_000) == "1970-01-02T00:00:00+00:00"
