"""The stages in order: the page to read first.

    queries ─ understand ─ route ──────────┐
       └──── encode ─ search (deep) ─┬─── cut ───┐
                  a list each        └─ lay_out ─┴─ merge ─ trim

Every stage is a pure function of its own section of the configuration and of the results before
it. Its result is remembered under

    key = hash(stage, version, keys of its inputs, fingerprint of that section)

so that a stage cannot read a parameter that its key leaves out, and a run repeats only what
changed. A live search, an evaluation and a trial of a sweep all pass through `Pipeline.run`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from retriever.config import RetrieverConfig
from retriever.encoders.base import Vectors
from retriever.encoders.cache import CachedEncoder
from retriever.files import InputError
from retriever.index.store import Index
from retriever.memo import Memo, Node, key_of
from retriever.stages.merge import merge
from retriever.stages.recall import cut, lay_out
from retriever.stages.route import route
from retriever.stages.trim import trim
from retriever.stages.understand import understand
from retriever.types import (
    AuditEvent,
    Floats,
    Found,
    Integers,
    Intents,
    ListId,
    Query,
    RankedList,
    Ranking,
    Routing,
    Slots,
)

__all__ = ["Pipeline", "Trace"]

T = TypeVar("T")

# Raise a stage's number when the same inputs give another result than before.
VERSIONS = {
    "understand": "1",
    "route": "1",
    "encode": "1",
    "search": "1",
    "cut": "1",
    "lay_out": "1",
    "merge": "1",
    "trim": "1",
}


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Every stage's table for one batch: what diagnosis and `--explain` read.

    `lists` has an entry a laid-out list, in the order of `slots.lists`.
    """

    queries: tuple[Query, ...]
    intents: Intents
    routing: Routing
    slots: Slots
    lists: tuple[RankedList, ...]
    merged: Ranking
    shown: Integers
    timings_ms: Mapping[str, float] = field(default_factory=dict)

    @property
    def collections(self) -> tuple[str, ...]:
        """Names that `merged.node` counts."""
        return tuple(sorted({item.collection for item in self.slots.lists}))

    @property
    def audit(self) -> tuple[AuditEvent, ...]:
        """Everything that was skipped, added or replaced, over the batch."""
        return self.routing.audit + self.merged.audit

    def audit_of(self, row: int) -> tuple[AuditEvent, ...]:
        """Events of one query of the batch."""
        return tuple(event for event in self.audit if event.where[row])

    def by_slot(self, place: int) -> tuple[Integers, Floats]:
        """Rank and score of one list spread over the slots, (queries, slots); 0 and NaN if out."""
        one, pointer = self.lists[place], self.slots.pointer[place]
        queries, width = self.slots.chunk.shape
        rank, score = (
            np.zeros((queries, width + 1), np.int32),
            np.full((queries, width + 1), np.nan),
        )
        row = np.arange(queries)[:, None]
        rank[row, pointer] = one.rank
        score[row, pointer] = np.where(one.rank > 0, one.score, np.nan)
        return rank[:, :width], score[:, :width]


class Pipeline:
    """An index and its encoders with the stages over them.

    `encoders` maps a collection to the encoder of its queries.
    """

    def __init__(self, index: Index, encoders: Mapping[str, CachedEncoder], memo: Memo) -> None:
        self.index = index
        self.encoders = encoders
        self.memo = memo
        self._timings: dict[str, float] = {}

    def run(
        self, queries: Sequence[Query], config: RetrieverConfig, also: Sequence[ListId] = ()
    ) -> Trace:
        """Take a batch of queries through all stages.

        `also` names lists to lay out although this configuration does not search them, so that
        configurations which do can share the slots; no result depends on it.
        """
        self._timings = {}
        texts = tuple(query.text for query in queries)
        root = Node(key_of("root", self.index.manifest.fingerprint, *texts), texts)
        collections = tuple(self.index.collections)

        intents = self._stage("understand", "", understand, root)
        routing = self._stage(
            "route",
            config.route.fingerprint,
            lambda asked: route(config.route, asked, collections),
            intents,
        )
        ids = tuple(sorted({*routing.value.lists, *also}))
        found = [self._search(root, item, config) for item in ids]
        lists = [
            self._stage("cut", str(item), lambda r, f, item=item: cut(r, item, f), routing, node)
            for item, node in zip(ids, found, strict=True)
        ]
        slots = self._stage(
            "lay_out",
            " ".join(map(str, ids)),
            lambda texts, *found: lay_out(ids, found, len(texts)),
            root,
            *found,
        )
        merged = self._stage(
            "merge",
            config.merge.fingerprint,
            lambda slots, *lists: merge(config.merge, slots, lists),
            slots,
            *lists,
        )
        shown = self._stage(
            "trim",
            config.trim.fingerprint,
            lambda slots, ranking: trim(config.trim, slots, ranking),
            slots,
            merged,
        )
        return Trace(
            queries=tuple(queries),
            intents=intents.value,
            routing=routing.value,
            slots=slots.value,
            lists=tuple(node.value for node in lists),
            merged=merged.value,
            shown=shown.value,
            timings_ms=dict(self._timings),
        )

    def _search(
        self, root: Node[tuple[str, ...]], item: ListId, config: RetrieverConfig
    ) -> Node[Found]:
        """Search one list for every query, deep."""
        collection = self.index.collections[item.collection]
        depth = config.recall.search_depth
        section = key_of(str(item), config.recall.fingerprint)
        if item.search == "bm25":
            return self._stage(
                "search",
                section,
                lambda texts: Found(*collection.search_bm25(texts, depth)),
                root,
                timed="bm25",
            )
        return self._stage(
            "search",
            section,
            lambda vectors: Found(*collection.search_dense(vectors, depth)),
            self._encode(root, item.collection),
            timed="dense",
        )

    def _encode(self, root: Node[tuple[str, ...]], collection: str) -> Node[Vectors]:
        encoder = self.encoders.get(collection)
        if encoder is None:
            raise InputError(
                f"no encoder serves the collection {collection}",
                fix="choose a model set that names it",
            )
        return self._stage(
            "encode", encoder.fingerprint, lambda texts: encoder.encode(texts, "query"), root
        )

    def _stage(
        self,
        name: str,
        section: str,
        function: Callable[..., T],
        *inputs: Node[Any],
        timed: str | None = None,
    ) -> Node[T]:
        """Run one stage, or take its result from the memo."""
        key = key_of(name, VERSIONS[name], section, *(node.key for node in inputs))
        begin = time.perf_counter()
        node = self.memo.get(key, lambda: function(*(node.value for node in inputs)))
        spent = 1000 * (time.perf_counter() - begin)
        self._timings[timed or name] = self._timings.get(timed or name, 0.0) + spent
        return node
