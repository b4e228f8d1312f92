"""The six known gaps of the bundled set: their class, and the cause that a replay verifies."""

from pathlib import Path
from typing import Any

import pytest

from experiments.diagnosis.diagnose import verify
from experiments.evaluate import evaluate
from experiments.recorded import RecordedRun
from gold import load
from retriever import Retriever, build_index, load_config

SMOKE = Path(__file__).parents[2] / "gold" / "smoke"


@pytest.fixture(scope="module")
def diagnosed(
    tmp_path_factory: pytest.TempPathFactory, smoke_vectors: Path
) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("gaps")
    config = load_config(SMOKE / "gaps.yaml")
    index = build_index(SMOKE, folder / "index", config, cache=smoke_vectors).index
    retriever, gold = Retriever.open(index, config, cache=smoke_vectors), load(SMOKE)
    evaluate(gold, retriever, folder / "run")
    found = verify(RecordedRun.open(folder / "run"), gold, retriever)
    assert not found.unreplayed
    return {query["query_id"]: dict(query) for query in found.queries}


def test_each_gap_has_its_class_and_its_cause_is_verified(
    diagnosed: dict[str, dict[str, Any]],
) -> None:
    gaps = {q: query.metadata["gap"] for q, query in load(SMOKE).queries.items() if "gap-" in q}
    assert len(gaps) == 6
    for query_id, gap in gaps.items():
        found = diagnosed[query_id]
        assert (found["class"], found["subclass"]) == (gap["class"], gap["subclass"]), query_id
        verified = {c["cause"] for c in found["causes"] if c["status"] == "verified"}
        assert gap["cause"] in verified, (query_id, found["causes"])


def test_verified_and_untried_are_never_mixed(diagnosed: dict[str, dict[str, Any]]) -> None:
    causes = [cause for query in diagnosed.values() for cause in query["causes"]]
    assert {cause["status"] for cause in causes} == {"hypothesis", "verified"}
    for cause in causes:
        passed = cause.get("replayed", {}).get("class") == "ok"
        assert (cause["status"] == "verified") == passed
