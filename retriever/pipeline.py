"""The stages in order: the page to read first.

    texts ─ understand ─ route ─┐
      └─── encode ─ search (a list each, deep) ─ lay_out ─ cut ─ merge ─ trim

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
from retriever.types import AuditEvent, Floats, Integers, Intents, ListId, Lists, Ranking, Routing

__all__ = ["Pipeline", "Trace"]

T = TypeVar("T")

# Raise a stage's number when the same inputs give another result than before.
VERSIONS = {
    "understand": "1",
    "route": "1",
    "encode": "1",
    "search": "1",
    "lay_out": "1",
    "cut": "1",
    "merge": "1",
    "trim": "1",
}


@dataclass(frozen=True, slots=True)
class Trace:
    """Every stage's table for one batch: what diagnosis and `--explain` read."""

    texts: tuple[str, ...]
    intents: Intents
    routing: Routing
    lists: Lists
    merged: Ranking
    shown: Integers
    timings_ms: Mapping[str, float] = field(compare=False)

    @property
    def collections(self) -> tuple[str, ...]:
        """Names that `merged.node` counts."""
        return tuple(sorted({item.collection for item in self.lists.lists}))

    @property
    def audit(self) -> tuple[AuditEvent, ...]:
        """Everything that was skipped, added or replaced, over the batch."""
        return self.routing.audit + self.merged.audit


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
        self, texts: Sequence[str], config: RetrieverConfig, also: Sequence[ListId] = ()
    ) -> Trace:
        """Take a batch of queries through all stages.

        `also` names lists to lay out although this configuration does not search them, so that
        configurations which do can share the slots; no result depends on it.
        """
        self._timings = {}
        queries = tuple(texts)
        root = Node(
            key_of("root", self.index.manifest.fingerprint, str(len(queries)), *queries), queries
        )
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
        laid = self._stage(
            "lay_out",
            " ".join(map(str, ids)),
            lambda *found: lay_out(ids, found, len(queries)),
            *found,
        )
        lists = self._stage("cut", "", cut, routing, laid)
        merged = self._stage(
            "merge", config.merge.fingerprint, lambda cut: merge(config.merge, cut), lists
        )
        shown = self._stage(
            "trim",
            config.trim.fingerprint,
            lambda *inputs: trim(config.trim, *inputs),
            lists,
            merged,
        )
        return Trace(
            texts=queries,
            intents=intents.value,
            routing=routing.value,
            lists=lists.value,
            merged=merged.value,
            shown=shown.value,
            timings_ms=dict(self._timings),
        )

    def _search(
        self, root: Node[tuple[str, ...]], item: ListId, config: RetrieverConfig
    ) -> Node[tuple[Integers, Floats]]:
        """Search one list for every query, deep."""
        collection = self.index.collections[item.collection]
        depth = config.recall.search_depth
        if item.search == "bm25":
            return self._stage(
                "search",
                key_of(str(item), config.recall.fingerprint),
                lambda texts: collection.search_bm25(texts, depth),
                root,
                timed="bm25",
            )
        vectors = self._encode(root, item.collection)
        return self._stage(
            "search",
            key_of(str(item), config.recall.fingerprint),
            lambda vectors: collection.search_dense(vectors, depth),
            vectors,
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
