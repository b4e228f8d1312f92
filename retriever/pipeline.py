"""The stages in order: the page to read first.

    query ─ understand ─ route ─ expand ─ search ─ cut ─ fuse ─ rerank_plan ─┐
               │                          (a list each, deep)                merge ─ inject ─
               └──────── supplement ─────────────────────────────────────────┘
                                                           rerank_merged ─ trim

Every stage is a pure function of its own section of the configuration and of the results before
it. Its result is remembered under

    key = hash(stage, version, keys of its inputs, fingerprint of that section,
               and, where it calls a hook, the plugins and their own sections)

so that a stage cannot read a parameter that its key leaves out, and a run repeats only what
changed. A live search, an evaluation and a trial of a sweep all pass through `Pipeline.run`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from retriever.batch_run import BatchRun
from retriever.config import RetrieverConfig
from retriever.encoders.cache import CachedCrossEncoder, CachedEncoder
from retriever.final import inject_supplement, rerank_pool
from retriever.hooks import (
    Assembly,
    Catalog,
    Expansion,
)
from retriever.index.store import Index
from retriever.lists import (
    cut_to_depth,
    expansions_of,
    neighbours_of,
    one_list,
    point_at_parents,
    search_list,
    search_supplement,
)
from retriever.memo import Memo, Node
from retriever.stages.fuse import (
    Parents,
)
from retriever.stages.gather import find_members, find_places, gather, gather_key
from retriever.stages.inject import Injected
from retriever.stages.merge import weigh
from retriever.stages.recall import lay_out
from retriever.stages.route import route, with_depth
from retriever.stages.scope import resolve
from retriever.stages.trim import place_images, trim
from retriever.stages.understand import understand
from retriever.types import (
    AuditEvent,
    Batch,
    Floats,
    Found,
    Integers,
    ListId,
    Query,
    RankedList,
    Ranking,
    Reranked,
    Routing,
    Slots,
    Supplement,
)

__all__ = ["Pipeline", "Trace"]


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Every stage's table for one batch: what diagnosis and `--explain` read.

    `found` and `lists` have an entry a laid-out list, in the order of `slots.lists`;
    `expansions` one a collection.
    """

    queries: tuple[Query, ...]
    assemblies: tuple[Assembly, ...]
    routing: Routing
    expansions: Mapping[str, tuple[Expansion, ...]]
    found: tuple[Found, ...]
    lists: tuple[RankedList, ...]
    supplement: Supplement
    slots: Slots
    merged: Ranking
    injected: Injected
    final: Reranked
    shown: Integers
    # Rows of the chunk table that each query's scope admits; None where it has no scope.
    allowed: tuple[Integers | None, ...] = ()
    scope_audit: tuple[AuditEvent, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)

    @property
    def collections(self) -> tuple[str, ...]:
        """Names that `node` counts, in merged and final."""
        return node_names(self.slots.lists, self.supplement)

    @property
    def audit(self) -> tuple[AuditEvent, ...]:
        """Everything that was skipped, added or replaced, over the batch."""
        stages = (self.scope_audit, self.routing.audit, self.merged.audit)
        return sum((*stages, self.injected.audit, self.final.audit), ())

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


def node_names(ids: Sequence[ListId], found: Supplement) -> tuple[str, ...]:
    """Return the collections that a node may be of, in order of name."""
    return tuple(sorted({*(item.collection for item in ids), *found.collections}))


class Pipeline:
    """An index and its models with the stages over them.

    `encoders` maps a collection to the encoder of its queries; `rerankers` a policy (`domain`,
    `general`) to its cross-encoder.
    """

    def __init__(
        self,
        index: Index,
        encoders: Mapping[str, CachedEncoder],
        rerankers: Mapping[str, CachedCrossEncoder],
        memo: Memo,
    ) -> None:
        self.index = index
        self.encoders = encoders
        self.rerankers = rerankers
        self.memo = memo

    def run(
        self, queries: Sequence[Query] | Batch, config: RetrieverConfig, also: Sequence[ListId] = ()
    ) -> Trace:
        """Take a batch of queries through all stages.

        `also` names lists to lay out although this configuration does not search them, so that
        configurations which do can share the slots; no result depends on it.
        """
        batch = queries if isinstance(queries, Batch) else Batch.of(queries)
        run = BatchRun(self.index, self.encoders, self.rerankers, self.memo, batch, config)
        return _trace(run, tuple(also))


def _trace(run: BatchRun, also: tuple[ListId, ...]) -> Trace:
    """Go through the stages: the graph, written out."""
    config, index = run.config, run.index
    allowed = run.stage("scope", "", lambda _: resolve(run.queries, index), run.root)
    known = run.hooked(
        "understand", "lexicon", lambda texts: understand(texts, run.subscribers), run.root
    )
    # How deep the lists count is no part of where to search: it is swept more often.
    anywhere = config.route.model_copy(
        update={
            "recall_top_k": 1,
            "recall_top_k_by_collection": {},
            "parent_doc_retrieval": False,
        }
    )
    routed = run.hooked(
        "route",
        "route",
        lambda texts, known, allowed: route(
            anywhere, run.subscribers, Catalog(index), texts, known, allowed, run.images
        ),
        run.root,
        known,
        allowed,
        section=anywhere.fingerprint,
    )
    routing = run.stage(
        "depth",
        config.route.fingerprint,
        lambda routed: with_depth(config.route, routed),
        routed,
    )
    held = {item for item in also if item.collection in index.collections}
    ids = tuple(sorted({*routing.value.lists, *held}))
    found = {item: search_list(run, item, known, allowed) for item in ids}
    lists: dict[ListId, Node[RankedList]] = {}
    deep = search_supplement(run, known, allowed)
    near = {item: neighbours_of(run, item, found[item], known) for item in ids}
    laid = run.stage(
        "lay_out",
        " ".join(map(str, ids)),
        lambda deep, *parts: lay_out(
            ids,
            [one.rows for one in parts[: len(ids)]],
            deep.found.rows,
            len(run.queries),
            [one.rows for one in parts[len(ids) :]],
        ),
        deep,
        *(found[item] for item in ids),
        *(near[item] for item in ids),
    )
    parents: list[Node[Parents | None]] = []
    for item in ids:
        found[item], lists[item], brought = one_list(run, item, found, routing, known, near[item])
        parents.append(brought)
    pointed = point_at_parents(run, laid, parents)
    extra, slots = cut_to_depth(run, deep, pointed)
    names = node_names(ids, extra.value)
    models = [
        "bm25" if item.search == "bm25" else run.encoder(item.collection).fingerprint
        for item in ids
    ]
    members = run.stage(
        "members", "", lambda *lists: find_members(lists), *(lists[item] for item in ids)
    )
    # Keyed by content: scores move more often than what enters the fusion.
    members = Node(members.value.key, members.value)
    places = run.stage("places", "", find_places, pointed, members)
    gathered = run.stage(
        "gather",
        gather_key(config.merge, names, models),
        lambda places, members, *lists: gather(config.merge, places, members, lists, names, models),
        places,
        members,
        *(lists[item] for item in ids),
    )
    merged = run.stage(
        "merge",
        config.merge.fingerprint,
        lambda gathered: weigh(config.merge, gathered),
        gathered,
    )
    injected = inject_supplement(run, known, slots, merged, extra, names, routing)
    final = rerank_pool(run, known, laid, merged, injected)
    if index.is_image is not None:
        final = run.stage(
            "place_images",
            config.trim.fingerprint,
            lambda final, injected: place_images(config.trim, final, injected),
            final,
            injected,
        )
    shown = run.stage(
        "trim",
        config.trim.fingerprint,
        lambda slots, ranking: trim(config.trim, slots, ranking),
        laid,
        final,
    )
    searched = {item.collection for item in ids}
    return Trace(
        queries=run.queries,
        assemblies=known.value,
        routing=routing.value,
        expansions={name: expansions_of(run, name, known).value for name in sorted(searched)},
        found=tuple(found[item].value for item in ids),
        lists=tuple(lists[item].value for item in ids),
        supplement=extra.value,
        slots=slots.value,
        merged=merged.value,
        injected=injected.value,
        final=final.value,
        shown=shown.value,
        allowed=allowed.value.rows,
        scope_audit=allowed.value.audit,
        timings_ms=dict(run.timings),
    )
