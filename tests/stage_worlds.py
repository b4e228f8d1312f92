"""A small biomedical world for tests of single stages: its own lexicon, stand-in encoders."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from worlds import HashedWords

from retriever import Retriever, RetrieverConfig, build_index
from retriever.encoders.base import TextEncoder
from retriever.encoders.molecule import MorganStructures
from retriever.hooks import Assembly
from retriever.plugins import Subscribers
from retriever.stages.understand import understand

# `ethane` is a drug here because the cosine of ethane and propane can be worked out by hand.
LEXICON: list[dict[str, Any]] = [
    {
        "id": "gefitinib",
        "name": "gefitinib",
        "aliases": ["Iressa", "ZD1839", "third name"],
        "is_drug": True,
        "pathways": ["EGFR signaling", "second pathway"],
    },
    {"id": "erlotinib", "name": "erlotinib", "aliases": ["Tarceva"], "is_drug": True},
    {"id": "afatinib", "name": "afatinib", "is_drug": True},
    {"id": "dacomitinib", "name": "dacomitinib", "is_drug": True},
    {"id": "amlodipine", "name": "amlodipine", "aliases": ["Norvasc"], "is_drug": True},
    {"id": "pct", "name": "50%_mix", "is_drug": True},
    {"id": "ethane", "name": "ethane", "is_drug": True, "smiles": ["CC"]},
    {
        "id": "EGFR",
        "name": "EGFR",
        "aliases": ["ErbB1", "HER1"],
        "is_drug": False,
        "pathways": ["EGFR signaling"],
        "related_drugs": ["afatinib", "erlotinib", "gefitinib", "dacomitinib", "amlodipine"],
    },
    {"id": "TP53", "name": "TP53", "is_drug": False, "aliases": ["p53"]},
]


# What the tests of a stage need to be at work, whatever the shipped defaults are.
SWITCHED_ON: dict[str, Any] = {
    "plugins.biomed.expand.expand_collections": ["eagle_text_biomed"],
    "plugins.biomed.rerank_plan.entity_filter": True,
    "plugins.biomed.supplement.enabled": True,
    "plugins.biomed.route.default_dual_text_search": "auto",
    "plugins.biomed.route.chemical_searches_text": True,
    "plugins.biomed.route.drug_hits_search_chemical": True,
    "route.bm25_search": True,
    "rerank_plan.mode": "off",
}


def config_of(folder: Path, overrides: Mapping[str, Any] | None = None) -> RetrieverConfig:
    """Return a configuration of the namespace biomed that reads the lexicon above."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lexicon.json"
    if not path.exists():
        path.write_text(json.dumps(LEXICON), "utf-8")
    given = {**SWITCHED_ON, "plugins.biomed.lexicon.path": str(path), **(overrides or {})}
    return RetrieverConfig().with_overrides(given)


def subscribers_of(config: RetrieverConfig) -> Subscribers:
    return Subscribers.of(config.namespace, dict(config.plugins))


def understood(config: RetrieverConfig, *texts: str) -> tuple[Assembly, ...]:
    return understand(texts, subscribers_of(config))


def open_world(
    folder: Path,
    documents: Sequence[Mapping[str, Any]],
    overrides: Mapping[str, Any] | None = None,
    rerankers: Mapping[str, Any] | None = None,
) -> Retriever:
    """Build an index of documents (`_id`, `text`, and their metadata flat beside) and open it.

    Without a `domain` a document is biomedical.
    """
    (folder / "corpus").mkdir(parents=True)
    records = []
    for document in documents:
        metadata = {k: v for k, v in document.items() if k not in ("_id", "text", "title")}
        top = {"_id": document["_id"], "text": document["text"], "title": document.get("title", "")}
        records.append({**top, "metadata": {"domain": "biomedical", **metadata}})
    lines = "\n".join(json.dumps(record) for record in records)
    (folder / "corpus" / "corpus.jsonl").write_text(lines, "utf-8")
    config = config_of(folder, overrides)
    encoders: dict[str, TextEncoder] = {
        "eagle_text": HashedWords(),
        "eagle_text_biomed": HashedWords(seed=1),
        "eagle_chemical": MorganStructures(),
    }
    build_index(folder / "corpus", folder / "index", config, encoders=encoders)
    return Retriever.open(
        folder / "index", config, encoders=encoders, rerankers=dict(rerankers or {})
    )
