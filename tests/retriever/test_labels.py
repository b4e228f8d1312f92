"""No gold label reaches the retriever: other labels, the same bytes in run.trec.

Vectors come from stand-in encoders, since what is tested is what the retriever is told.
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from worlds import HashedWords

from experiments.evaluate import evaluate
from gold import load
from retriever import Retriever, build_index
from retriever.config import load_config
from retriever.encoders.molecule import MorganStructures

SMOKE = Path(__file__).parents[2] / "gold" / "smoke"
LABELS = ("type", "role", "workflow", "expected_terms", "critical", "why", "labels", "gap")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels") / "index"
    build_index(SMOKE, folder, encoders=encoders())
    return folder


def encoders() -> dict[str, Any]:
    return {
        "eagle_text": HashedWords(),
        "eagle_text_biomed": HashedWords(seed=1),
        "eagle_chemical": MorganStructures(),
    }


def shuffled_smoke(folder: Path, seed: int) -> Path:
    """The smoke set with every label, and the judgements as a whole, moved to another query."""
    rng = random.Random(seed)
    lines = (SMOKE / "queries.jsonl").read_text("utf-8").splitlines()
    queries = [json.loads(line) for line in lines]
    for label in LABELS:
        given = [query["metadata"].pop(label, None) for query in queries]
        rng.shuffle(given)
        for query, value in zip(queries, given, strict=True):
            if value is not None:
                query["metadata"][label] = value
    ids = [query["_id"] for query in queries]
    swapped = dict(zip(ids, rng.sample(ids, len(ids)), strict=True))
    head, *rows = (SMOKE / "qrels" / "test.tsv").read_text("utf-8").splitlines()
    judged = [row.split("\t") for row in rows if row.strip()]
    rows = ["\t".join([swapped[query_id], *rest]) for query_id, *rest in judged]
    (folder / "qrels").mkdir(parents=True)
    (folder / "qrels" / "test.tsv").write_text("\n".join([head, *rows]) + "\n", "utf-8")
    text = "".join(json.dumps(query, ensure_ascii=False) + "\n" for query in queries)
    (folder / "queries.jsonl").write_text(text, "utf-8")
    for name in ("corpus.jsonl", "gold.yaml"):
        (folder / name).write_bytes((SMOKE / name).read_bytes())
    return folder


@pytest.mark.parametrize("preset", ["default", "seed"])
def test_run_is_the_same_bytes_when_every_label_is_shuffled(
    index: Path, tmp_path: Path, preset: str
) -> None:
    # The models of preset seed are not here; the stand-ins take their place.
    config = load_config(preset, ["evaluation.resamples=100"])

    def run(gold_folder: Path, name: str) -> tuple[bytes, dict[str, Any]]:
        retriever = Retriever.open(index, config, encoders=encoders(), rerankers={})
        done = evaluate(load(gold_folder), retriever, tmp_path / name)
        return (done.path / "run.trec").read_bytes(), dict(done.record)

    plain, scored = run(SMOKE, "plain")
    moved, other = run(shuffled_smoke(tmp_path / "gold", seed=7), "moved")
    assert moved == plain
    assert len(plain.splitlines()) > 55 * 10
    # The labels did move: the same run is judged otherwise.
    assert other["metrics"] != scored["metrics"]
    assert other["by_type"] != scored["by_type"]
