"""Counterfactuals: the same questions asked again with one thing changed.

The memo of the retriever makes a replay cost no more than the stages that the change touches. A
change of the configuration is replayed for all failing queries at once, so that replays share
what they do not change; a change of the data only for the queries that need it.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from experiments.diagnosis.causes import Change
from experiments.diagnosis.judging import Judge
from experiments.failures import Verdict
from experiments.rankings import asked, run_blocks
from gold import GoldSet
from retriever import InputError, Retriever
from retriever.hooks import StructureChunk

__all__ = ["Bench", "Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One query of a replay: its verdict, the best rank of a relevant unit, the first unit."""

    verdict: Verdict
    rank: int | None
    first: str | None

    @property
    def passes(self) -> bool:
        """Whether the query passes."""
        return self.verdict.failure == "ok"


class Bench:
    """A gold set and a retriever to ask it again; a context, for the overlays it writes.

    `together` are the queries that a change of the configuration is replayed for.
    """

    def __init__(self, gold: GoldSet, retriever: Retriever, together: Sequence[str]) -> None:
        self._gold = gold
        self._retriever = retriever
        self._together = [query_id for query_id in gold.queries if query_id in set(together)]
        self._folder = tempfile.TemporaryDirectory(prefix="assay-")
        self.replays = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    def replay(self, change: Change, query_ids: Sequence[str]) -> dict[str, Outcome]:
        """Ask the queries under a change and return how each ends, by id.

        Queries beyond `query_ids` may be among them. Raises InputError for a change that the
        configuration, the lexicon or the index refuses.
        """
        wanted = self._together if change.is_configuration else list(query_ids)
        queries = [self._gold.queries[query_id] for query_id in wanted]
        if not queries:
            return {}
        self.replays += 1
        retriever = self._changed(change)
        settings = retriever.config.evaluation
        judge = Judge(retriever.index, self._gold, settings)
        ask = [asked(query, self._gold.path, scoped=not change.lift_scope) for query in queries]
        outcomes: dict[str, Outcome] = {}
        for block in run_blocks(retriever, ask, self._gold.level, settings.depth):
            of_block = queries[block.start : block.start + len(block.trace.queries)]
            judged = judge.judge(of_block, block)
            found = judged.waterfall
            best: dict[int, int] = {}
            for q, rank in zip(found.pairs.query, found.ranks["final"], strict=True):
                if rank:
                    best[int(q)] = min(int(rank), best.get(int(q), int(rank)))
            for row, (query, verdict) in enumerate(zip(of_block, judged.verdicts, strict=True)):
                units = block.ranked.units[row]
                first = judge.units.ids[units[0]] if units.size and units[0] >= 0 else None
                outcomes[query.query_id] = Outcome(verdict, best.get(row), first)
        return outcomes

    def _changed(self, change: Change) -> Retriever:
        retriever = self._retriever
        overrides: dict[str, Any] = dict(change.overrides)
        if change.lexicon:
            overrides["plugins.biomed.lexicon.overlays"] = [
                *map(str, retriever.config.plugins["biomed"].lexicon.overlays),
                str(self._overlay(change.lexicon)),
            ]
        if overrides:
            retriever = retriever.with_config(retriever.config.with_overrides(overrides))
        if change.smiles or change.sections:
            given = {name: _compound(smiles) for name, smiles in change.smiles.items()}
            retriever = retriever.with_mended(given, change.sections)
        return retriever

    def _overlay(self, parts: Mapping[str, Any]) -> Path:
        """Write an overlay of the lexicon under a name of its own, and so under its own key."""
        path = Path(self._folder.name) / f"overlay-{self.replays}.json"
        path.write_text(json.dumps(parts, ensure_ascii=False), "utf-8")
        return path


def _compound(smiles: str) -> StructureChunk:
    """Return the chunk that ingest makes of a document's SMILES."""
    from retriever.biomed.routing import CHEMICAL
    from retriever.encoders.molecule import parent_smiles

    parent = parent_smiles(smiles)
    if parent is None:
        raise InputError(f"{smiles!r} is no structure")
    return replace(StructureChunk(CHEMICAL, "compound", ""), structure=parent)
