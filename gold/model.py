"""The records of a gold set and of a run: frozen, typed, and with text for every id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Qrels = Mapping[str, Mapping[str, int]]
"""query_id -> document_id -> grade."""

Level = Literal["document", "chunk"]
Success = Literal["any", "all"]


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    """One line of `corpus.jsonl`; `line` counts from 1."""

    document_id: str
    title: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0


@dataclass(frozen=True, slots=True)
class GoldQuery:
    """One line of `queries.jsonl`: the text, what a report groups by, and what it must find.

    `type`, `role` and `workflow` are for reporting only and must not reach a retriever.
    `expected_terms` are looked for in the top k texts; `scope` maps a kind (`kb_names`,
    `document_ids`, `tags`) to the values searched; `k` overrides the cutoff for this query.
    `metadata` keeps every other key as it was read.
    """

    query_id: str
    text: str
    type: str = ""
    role: str = ""
    workflow: str = ""
    expected_terms: tuple[str, ...] = ()
    scope: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    image: str | None = None
    smiles: str | None = None
    critical: bool = False
    k: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """What `gold.yaml` says; the defaults stand where it says nothing or is absent.

    `coverage_threshold` is a share in [0, 1]; a grade counts as relevant from `relevant_from`;
    `grades` says in words what each grade means.
    """

    name: str = ""
    version: str = ""
    level: Level = "document"
    success: Success = "any"
    coverage_threshold: float = 1.0
    relevant_from: int = 1
    cutoffs: tuple[int, ...] = (5, 10, 100)
    grades: Mapping[int, str] = field(default_factory=dict)
    licence: str = ""


@dataclass(frozen=True, slots=True)
class GoldSet:
    """One split of a gold set, with the settings of `Settings`.

    `queries` holds the queries judged in this split, in the order of `queries.jsonl`; `qrels` has
    the same keys in the same order. `digest` is the SHA-256 (hex) of what they and the settings
    say, whatever the formatting and the order of lines. `unjudged` counts the queries of
    `queries.jsonl` that this split does not judge.
    """

    path: Path
    name: str
    version: str
    level: Level
    success: Success
    coverage_threshold: float
    relevant_from: int
    cutoffs: tuple[int, ...]
    grades: Mapping[int, str]
    licence: str
    split: str
    queries: Mapping[str, GoldQuery]
    qrels: Qrels
    digest: str
    unjudged: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """A ranking per query, best first, with the scores as the file gave them.

    `rankings` and `scores` have the same keys and lengths. `repaired` counts the entries dropped
    because their document, or their query, stood twice.
    """

    rankings: dict[str, list[str]]
    scores: dict[str, list[float]]
    name: str
    format: Literal["trec", "json"]
    repaired: int = 0
