"""A small world to sweep over: stand-in encoders, two lists that disagree, queries to divide."""

import random
from pathlib import Path
from typing import Any

from worlds import HashedWords, write_gold

from experiments.metrics import parse_measure
from experiments.space import Space, space_from
from experiments.sweep.procedure import SweepSettings
from experiments.sweep.storage import journal_url
from gold import GoldSet, load
from retriever import Retriever, RetrieverConfig, build_index
from retriever.encoders.molecule import MorganStructures

SPACE = """
name: small
parameters:
  merge.method: {choices: [minmax, rrf]}
  merge.rrf_k: {low: 1.0, high: 100.0, log: true, when: {merge.method: rrf}}
  merge.weights.dense: {low: 0.0, high: 1.0, complement: merge.weights.bm25}
  route.recall_top_k: {low: 2, high: 50}
"""


def small_space(text: str = SPACE) -> Space:
    return space_from(text, "small.yaml")


def small_world(folder: Path, queries: int = 24) -> tuple[GoldSet, Retriever]:
    """Return a gold set and a retriever; a query's words are those of its document, in part."""
    rng = random.Random(0)
    words = [f"w{i}" for i in range(40)]
    texts = {f"d{i:02}": " ".join(rng.choices(words, k=12)) for i in range(60)}
    asked, qrels = {}, {}
    for i in range(queries):
        document = f"d{i:02}"
        asked[f"q{i:02}"] = " ".join(
            rng.sample(texts[document].split(), 3) + rng.choices(words, k=2)
        )
        qrels[f"q{i:02}"] = {document: 1}
    write_gold(folder / "gold", texts, asked, qrels)
    config = RetrieverConfig(namespace="general")
    encoders = {"eagle_text": HashedWords()}
    build_index(folder / "gold", folder / "index", config, encoders=encoders)
    retriever = Retriever.open(folder / "index", config, encoders=encoders)
    return load(folder / "gold"), retriever


def small_settings(folder: Path, trials: int, **changes: Any) -> SweepSettings:
    given: dict[str, Any] = {
        "space": small_space(),
        "measures": (parse_measure("ndcg@10"),),
        "trials": trials,
        "out": folder,
        "storage": journal_url(folder / "study.journal"),
        "study": "small",
        "folds": 0,
    }
    return SweepSettings(**{**given, **changes})


def biomed_world(folder: Path) -> tuple[GoldSet, Retriever]:
    """Return a gold set whose queries have two workflows, some about a drug and some not."""
    rng = random.Random(1)
    drugs = ("gefitinib", "imatinib", "metformin")
    words = [f"w{i}" for i in range(30)]
    texts, asked, qrels, metadata = {}, {}, {}, {}
    for i in range(40):
        drug = drugs[i % 3] if i % 2 else ""
        texts[f"d{i:02}"] = f"{drug} {' '.join(rng.choices(words, k=10))}"
    for i in range(24):
        document = f"d{i:02}"
        kept = rng.sample(texts[document].split()[1:], 2)
        asked[f"q{i:02}"] = " ".join([drugs[i % 3] if i % 2 else "", *kept]).strip()
        qrels[f"q{i:02}"] = {document: 1}
        metadata[f"q{i:02}"] = {"type": "drug" if i % 2 else "other"}
    write_gold(folder / "gold", texts, asked, qrels, metadata=metadata)
    config = RetrieverConfig()
    encoders: Any = {
        "eagle_text": HashedWords(),
        "eagle_text_biomed": HashedWords(),
        "eagle_chemical": MorganStructures(),
    }
    build_index(folder / "gold", folder / "index", config, encoders=encoders)
    retriever = Retriever.open(folder / "index", config, encoders=encoders)
    return load(folder / "gold"), retriever
