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

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from retriever.config import RetrieverConfig
from retriever.encoders.base import Vectors
from retriever.encoders.cache import CachedCrossEncoder, CachedEncoder
from retriever.files import InputError
from retriever.hooks import (
    Assembly,
    Candidates,
    Catalog,
    Expansion,
    MergedFeatures,
    PlanRerank,
    SupplementPlan,
)
from retriever.images import ImageFile
from retriever.index.store import Index
from retriever.memo import Memo, Node, key_of
from retriever.plugins import Subscribers
from retriever.stages.expand import expand
from retriever.stages.fuse import (
    Neighbours,
    Parents,
    append_parents,
    bm25_of,
    fuse,
    is_hybrid,
    overlap,
    share_of_best,
)
from retriever.stages.gather import find_members, find_places, gather, gather_key
from retriever.stages.inject import Injected, inject
from retriever.stages.merge import weigh
from retriever.stages.recall import Encoded, asked_of, cut, encode, find_slots, lay_out, point_at
from retriever.stages.rerank_merged import (
    check_offer,
    check_shapes,
    choose_policy,
    pass_through,
    read_pairs,
    rerank_domain,
    rerank_general,
)
from retriever.stages.rerank_plan import compare, rerank_plan
from retriever.stages.route import depth_of, route, with_depth
from retriever.stages.scope import Allowed, resolve
from retriever.stages.supplement import DeepSupplement, cut_supplement, deep_supplement
from retriever.stages.trim import place_images, trim
from retriever.stages.understand import understand
from retriever.types import (
    AuditEvent,
    Batch,
    Booleans,
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

T = TypeVar("T")

# Raise the number when the same inputs give another result than before.
VERSION = "1"


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
        return _Run(self, batch, config).trace(tuple(also))


class _Run:
    """One batch under one configuration: the graph of stages, written out."""

    def __init__(self, pipeline: Pipeline, batch: Batch, config: RetrieverConfig) -> None:
        self.index = pipeline.index
        self.encoders = pipeline.encoders
        self.rerankers = pipeline.rerankers
        self.memo = pipeline.memo
        self.config = config
        self.queries = batch.queries
        self.images = batch.images
        self.subscribers = Subscribers.of(config.namespace, dict(config.plugins))
        self.identity = self.subscribers.identity
        self.timings: dict[str, float] = {}
        # What this batch has asked its models for, by model and text, whatever the memo keeps.
        self.vectors: dict[str, dict[str | ImageFile, Vectors]] = {}
        self.encoded: dict[str, Node[Encoded]] = {}
        fingerprint = self.index.manifest.fingerprint
        self.root = Node(key_of("root", VERSION, fingerprint, batch.key), batch.texts)

    def trace(self, also: tuple[ListId, ...]) -> Trace:
        config, index = self.config, self.index
        allowed = self.stage("scope", "", lambda _: resolve(self.queries, index), self.root)
        known = self.hooked(
            "understand", "lexicon", lambda texts: understand(texts, self.subscribers), self.root
        )
        # How deep the lists count is no part of where to search: it is swept more often.
        anywhere = config.route.model_copy(
            update={
                "recall_top_k": 1,
                "recall_top_k_by_collection": {},
                "parent_doc_retrieval": False,
            }
        )
        routed = self.hooked(
            "route",
            "route",
            lambda texts, known, allowed: route(
                anywhere, self.subscribers, Catalog(index), texts, known, allowed, self.images
            ),
            self.root,
            known,
            allowed,
            section=anywhere.fingerprint,
        )
        routing = self.stage(
            "depth",
            config.route.fingerprint,
            lambda routed: with_depth(config.route, routed),
            routed,
        )
        held = {item for item in also if item.collection in index.collections}
        ids = tuple(sorted({*routing.value.lists, *held}))
        found = {item: self.search(item, known, allowed) for item in ids}
        lists: dict[ListId, Node[RankedList]] = {}
        deep = self.supplement(known, allowed)
        near = {item: self.neighbours(item, found[item], known) for item in ids}
        laid = self.stage(
            "lay_out",
            " ".join(map(str, ids)),
            lambda deep, *parts: lay_out(
                ids,
                [one.rows for one in parts[: len(ids)]],
                deep.found.rows,
                len(self.queries),
                [one.rows for one in parts[len(ids) :]],
            ),
            deep,
            *(found[item] for item in ids),
            *(near[item] for item in ids),
        )
        parents: list[Node[Parents | None]] = []
        for item in ids:
            found[item], lists[item], brought = self.one_list(
                item, found, routing, known, near[item]
            )
            parents.append(brought)
        pointed = self.point_at(laid, parents)
        extra, slots = self.cut_supplement(deep, pointed)
        names = node_names(ids, extra.value)
        models = [
            "bm25" if item.search == "bm25" else self.encoder(item.collection).fingerprint
            for item in ids
        ]
        members = self.stage(
            "members", "", lambda *lists: find_members(lists), *(lists[item] for item in ids)
        )
        # Keyed by content: scores move more often than what enters the fusion.
        members = Node(members.value.key, members.value)
        places = self.stage("places", "", find_places, pointed, members)
        gathered = self.stage(
            "gather",
            gather_key(config.merge, names, models),
            lambda places, members, *lists: gather(
                config.merge, places, members, lists, names, models
            ),
            places,
            members,
            *(lists[item] for item in ids),
        )
        merged = self.stage(
            "merge",
            config.merge.fingerprint,
            lambda gathered: weigh(config.merge, gathered),
            gathered,
        )
        injected = self.inject(known, slots, merged, extra, names, routing)
        final = self.rerank(known, laid, merged, injected)
        if index.is_image is not None:
            final = self.stage(
                "place_images",
                config.trim.fingerprint,
                lambda final, injected: place_images(config.trim, final, injected),
                final,
                injected,
            )
        shown = self.stage(
            "trim",
            config.trim.fingerprint,
            lambda slots, ranking: trim(config.trim, slots, ranking),
            laid,
            final,
        )
        searched = {item.collection for item in ids}
        return Trace(
            queries=self.queries,
            assemblies=known.value,
            routing=routing.value,
            expansions={name: self.expand(name, known).value for name in sorted(searched)},
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
            timings_ms=dict(self.timings),
        )

    # --- recall ----------------------------------------------------------------------------

    def expand(
        self, collection: str, known: Node[tuple[Assembly, ...]]
    ) -> Node[tuple[Expansion, ...]]:
        return self.hooked(
            "expand",
            "expand",
            lambda texts, known: expand(texts, known, collection, self.subscribers),
            self.root,
            known,
            section=collection,
        )

    def encode(
        self, collection: str, known: Node[tuple[Assembly, ...]], raw: bool = False
    ) -> Node[Encoded]:
        """Encode what each query asks of a collection; `raw` is what tier 1 compares."""
        encoder, expansions = self.encoder(collection), self.expand(collection, known)

        def asked(expansions: Sequence[Expansion]) -> list[tuple[str | ImageFile, ...]]:
            texts = [e.raw_texts if raw else e.dense_texts for e in expansions]
            return asked_of(encoder, texts, self.images)

        # Keyed by content: two collections of one model ask for the same vectors.
        content = self.stage(
            "ask",
            key_of("raw" if raw else "dense", encoder.fingerprint),
            lambda expansions: key_of(*(_content(of_query) for of_query in asked(expansions))),
            expansions,
        )
        key = key_of("encode", encoder.fingerprint, content.value)
        if key not in self.encoded:
            vectors = self.vectors.setdefault(encoder.fingerprint, {})
            self.encoded[key] = self.timed(
                "encode", key, lambda: encode(encoder, asked(expansions.value), vectors)
            )
        return self.encoded[key]

    def search(
        self, item: ListId, known: Node[tuple[Assembly, ...]], allowed: Node[Allowed]
    ) -> Node[Found]:
        """Search one list for every query, deep."""
        collection = self.index.collections[item.collection]
        depth, queries = self.config.recall.search_depth, len(self.queries)
        section = key_of(str(item), self.config.recall.fingerprint)
        if item.search == "bm25":
            return self.stage(
                "search",
                section,
                lambda texts, allowed: collection.search_bm25(texts, depth, allowed.rows),
                self.root,
                allowed,
                timed="bm25",
            )
        return self.stage(
            "search",
            section,
            lambda encoded, allowed: collection.search_dense(
                encoded.vectors, encoded.owner, queries, depth, allowed.rows
            ),
            self.encode(item.collection, known),
            allowed,
            timed="dense",
        )

    def one_list(
        self,
        item: ListId,
        found: Mapping[ListId, Node[Found]],
        routing: Node[Routing],
        known: Node[tuple[Assembly, ...]],
        near: Node[Neighbours],
    ) -> tuple[Node[Found], Node[RankedList], Node[Parents | None]]:
        """Take one list from its search to the merge: cut, fuse, parents, tier 1."""
        searched = found[item]
        parents: Node[Parents | None] = Node("no parents", None)
        one = self.stage(
            "cut", str(item), lambda routing, found: cut(routing, item, found), routing, searched
        )
        if item.search == "bm25":
            return searched, one, parents
        one = self.fuse(item, searched, one, routing, known)
        if near.value.rows.shape[1]:
            both = self.stage(
                "parents",
                "",
                lambda found, one, near: append_parents(self.index, found, one, near),
                searched,
                one,
                near,
            )
            parents = Node(both.key, both.value)
            searched = Node(f"{both.key} rows", both.value.found)
            one = Node(f"{both.key} list", both.value.one)
        return searched, self.rerank_plan(item, found[item], searched, one, known), parents

    def fuse(
        self,
        item: ListId,
        found: Node[Found],
        one: Node[RankedList],
        routing: Node[Routing],
        known: Node[tuple[Assembly, ...]],
    ) -> Node[RankedList]:
        section, collection = self.config.fuse, self.index.collections[item.collection]
        hybrid = self.stage(
            "hybrid",
            key_of(str(item), section.fingerprint),
            lambda routing: is_hybrid(
                section,
                item.collection,
                _active(routing, ListId(item.collection, "bm25"), len(self.queries)),
                _active(routing, item, len(self.queries)),
            ),
            routing,
        )
        if not hybrid.value.any():
            return one
        sparse: Node[Floats]
        if section.sparse_method == "overlap":
            sparse = self.stage(
                "overlap",
                item.collection,
                lambda texts, expansions, found: overlap(
                    collection, self.index, texts, expansions, found.rows
                ),
                self.root,
                self.expand(item.collection, known),
                found,
            )
        else:
            sparse = self.stage(
                "bm25_share",
                "",
                lambda bm25, one: share_of_best(bm25, one.rank > 0),
                # Of all that was found, so that a cut at another depth costs no new scores.
                self.stage(
                    "bm25_of",
                    item.collection,
                    lambda texts, found: bm25_of(collection, texts, found.rows),
                    self.root,
                    found,
                ),
                one,
            )
        return self.stage(
            "fuse",
            section.fingerprint,
            lambda one, hybrid, sparse: fuse(section, one, hybrid, sparse),
            one,
            hybrid,
            sparse,
        )

    def neighbours(
        self, item: ListId, found: Node[Found], known: Node[tuple[Assembly, ...]]
    ) -> Node[Neighbours]:
        """Find what parents may bring to a list: nothing for queries with an entity."""
        if item.search == "bm25" or not self.config.route.parent_doc_retrieval:
            nothing = np.zeros((len(self.queries), 0), dtype=np.int32)
            return Node("no neighbours", Neighbours(nothing, nothing))

        def beside(found: Found, known: tuple[Assembly, ...]) -> Neighbours:
            wanted = np.array([not assembly.entities for assembly in known], dtype=np.bool_)
            return Neighbours.of(self.index, self.index.collections[item.collection], found, wanted)

        return self.stage("neighbours", item.collection, beside, found, known)

    def point_at(self, laid: Node[Slots], parents: Sequence[Node[Parents | None]]) -> Node[Slots]:
        """Let the slots point at the parents behind each list."""
        if all(one.value is None for one in parents):
            return laid

        def point(slots: Slots, *parents: Parents | None) -> Slots:
            pointer = list(slots.pointer)
            for place, one in enumerate(parents):
                if one is not None:
                    pointer[place] = point_at(slots, place, one.chosen)
            return replace(slots, pointer=tuple(pointer))

        return self.stage("point_at_parents", "", point, laid, *parents)

    def rerank_plan(
        self,
        item: ListId,
        searched: Node[Found],
        found: Node[Found],
        one: Node[RankedList],
        known: Node[tuple[Assembly, ...]],
    ) -> Node[RankedList]:
        """Tier 1 of a list; `found` is what was searched and, behind it, its neighbours."""
        asked: Node[PlanRerank | None] = self.hooked(
            "rerank_plan",
            "rerank_plan",
            lambda texts, found, known: self.subscribers.one(
                "rerank",
                "rerank_plan",
                item=item,
                candidates=Candidates(self.index, texts, known, found.rows),
            ),
            self.root,
            found,
            known,
            section=str(item),
        )
        if asked.value is None:
            return one
        section, keep = self.config.rerank_plan, asked.value.keep
        if keep is None and section.mode == "off":
            return one
        if keep is not None:
            check_shapes("rerank", {"keep": keep}, found.value.rows.shape)
        compared: Node[Floats | None] = Node("not compared", None)
        if asked.value.rerank and section.mode != "off":
            collection = self.index.collections[item.collection]
            raw = self.encode(item.collection, known, raw=True)

            def compared_with(found: Found, raw: Encoded) -> Floats:
                return compare(
                    self.index, collection, self.encoder(item.collection), raw, found.rows
                )

            # Neighbours come and go with every change before them; what was searched stays.
            first = self.stage("compare", item.collection, compared_with, searched, raw)
            compared = Node(first.key, first.value)
            if found is not searched:
                compared = self.stage(
                    "compare_neighbours",
                    item.collection,
                    lambda first, found, raw: np.concatenate(
                        [first, compared_with(_behind(found, first.shape[1]), raw)], axis=1
                    ),
                    first,
                    found,
                    raw,
                )
        if compared.value is None and (keep is None or keep.all()):
            return one  # neither compared nor filtered
        return self.stage(
            "tier_1",
            section.fingerprint,
            lambda one, asked, cosine: rerank_plan(section, one, cosine, keep),
            one,
            asked,
            compared,
        )

    def supplement(
        self, known: Node[tuple[Assembly, ...]], allowed: Node[Allowed]
    ) -> Node[DeepSupplement]:
        def plan(
            texts: tuple[str, ...], known: tuple[Assembly, ...]
        ) -> tuple[SupplementPlan | None, ...]:
            plans: list[SupplementPlan | None] = [None] * len(texts)
            for _, answer in self.subscribers.every(
                "retrieve_supplement",
                "supplement",
                count=len(texts),
                texts=texts,
                assemblies=known,
                index=self.index,
            ):
                plans = [a or b for a, b in zip(plans, answer, strict=True)]
            return tuple(plans)

        planned = self.hooked("plan_supplement", "supplement", plan, self.root, known)
        names = sorted({c for p in planned.value if p for c in p.collections})
        held = [n for n in names if n in self.index.collections and n in self.encoders]
        encoded = [self.encode(name, known) for name in held]
        return self.stage(
            "supplement",
            key_of(*held),
            lambda texts, planned, allowed, *encoded: deep_supplement(
                self.index, texts, planned, dict(zip(held, encoded, strict=True)), allowed
            ),
            self.root,
            planned,
            allowed,
            *encoded,
        )

    def cut_supplement(
        self, deep: Node[DeepSupplement], slots: Node[Slots]
    ) -> tuple[Node[Supplement], Node[Slots]]:
        """Cut the supplement to its depth; the slots then point at what is left of it."""
        depth = depth_of(self.config.route, ListId("", "dense"))
        extra = self.stage(
            "cut_supplement", str(depth), lambda deep: cut_supplement(deep, depth), deep
        )
        if extra.value is deep.value.found:
            return extra, slots
        return extra, self.stage(
            "find_supplement",
            "",
            lambda slots, extra: replace(
                slots, pointer=(*slots.pointer[:-1], find_slots(slots, extra.rows))
            ),
            slots,
            extra,
        )

    # --- after the merge -------------------------------------------------------------------

    def inject(
        self,
        known: Node[tuple[Assembly, ...]],
        slots: Node[Slots],
        merged: Node[Ranking],
        extra: Node[Supplement],
        names: tuple[str, ...],
        routing: Node[Routing],
    ) -> Node[Injected]:
        def wanted(known: tuple[Assembly, ...], extra: Supplement) -> Booleans:
            there = (extra.rows >= 0).any(axis=1)
            answers = self.subscribers.first(
                "rrf_post_merge", len(known), assemblies=known, supplemented=there
            )
            return np.array([bool(answer) for answer in answers], dtype=np.bool_)

        asked = self.hooked("post_merge", "inject", wanted, known, extra)
        section, is_image = self.config.inject, self.index.is_image

        def put(
            slots: Slots, merged: Ranking, extra: Supplement, wanted: Booleans, routing: Routing
        ) -> Injected:
            images = None
            if is_image is not None:
                images = (slots.chunk >= 0) & is_image[slots.chunk]
            return inject(section, slots, merged, extra, names, wanted, images, routing.visual)

        return self.stage(
            "inject", key_of(section.fingerprint, *names), put, slots, merged, extra, asked, routing
        )

    def rerank(
        self,
        known: Node[tuple[Assembly, ...]],
        slots: Node[Slots],
        merged: Node[Ranking],
        injected: Node[Injected],
    ) -> Node[Reranked]:
        section = self.config.rerank_merged
        offered: Node[MergedFeatures | None] = self.hooked(
            "rerank_merged",
            "rerank_merged",
            lambda texts, slots, known: self.subscribers.one(
                "rerank_merged",
                "rerank_merged",
                candidates=Candidates(self.index, texts, known, slots.chunk),
            ),
            self.root,
            slots,
            known,
        )
        policy = choose_policy(section.rerank_policy, offered.value)
        if policy == "domain" and offered.value is None:
            raise InputError(
                f"rerank_policy is domain, and no plugin of the namespace {self.config.namespace} "
                "reranks",
                fix="--set rerank_merged.rerank_policy=general",
            )
        if policy == "none" or (policy == "general" and "general" not in self.rerankers):
            return self.stage("pass_through", "", pass_through, merged, injected)
        pairs = self.pairs(policy, slots, injected)
        if policy == "general":
            return self.stage("rerank_general", "", rerank_general, merged, injected, pairs)
        return self.rerank_domain(known, slots, merged, injected, offered, pairs)

    def rerank_domain(
        self,
        known: Node[tuple[Assembly, ...]],
        slots: Node[Slots],
        merged: Node[Ranking],
        injected: Node[Injected],
        offered: Node[MergedFeatures | None],
        pairs: Node[tuple[Floats, Booleans] | None],
    ) -> Node[Reranked]:
        bound = offered.value
        assert bound is not None  # noqa: S101 - the caller has looked
        # Features depend on the candidates alone, so they outlive a change of weights.
        features = self.hooked("features", "", lambda *_: dict(bound.features()), slots, known)
        check_offer(bound, features.value, slots.value.chunk.shape)
        structure: Node[Floats | None] = Node("no structure", None)
        name = bound.floor_collection
        if name and name in self.index.collections and name in self.encoders:
            collection, encoder = self.index.collections[name], self.encoder(name)
            structure = self.stage(
                "compare",
                f"{name} slots",
                lambda slots, raw: compare(self.index, collection, encoder, raw, slots.chunk),
                slots,
                self.encode(name, known, raw=True),
            )
        return self.stage(
            "rerank_domain",
            "",
            rerank_domain,
            merged,
            injected,
            offered,
            features,
            pairs,
            structure,
        )

    def pairs(
        self, policy: str, slots: Node[Slots], injected: Node[Injected]
    ) -> Node[tuple[Floats, Booleans] | None]:
        """Logits of the pool by the policy's cross-encoder; None where there is none."""
        cross = self.rerankers.get(policy)
        if cross is None:
            return Node("no cross-encoder", None)
        return self.stage(
            "cross_encode",
            cross.fingerprint,
            lambda texts, slots, injected: read_pairs(
                self.index, cross, texts, slots, injected.pool
            ),
            self.root,
            slots,
            injected,
        )

    # --- how a stage runs ------------------------------------------------------------------

    def encoder(self, collection: str) -> CachedEncoder:
        encoder = self.encoders.get(collection)
        if encoder is None:
            raise InputError(
                f"no encoder serves the collection {collection}",
                fix="choose a model set that names it",
            )
        return encoder

    def hooked(
        self,
        name: str,
        part: str,
        function: Callable[..., T],
        *inputs: Node[Any],
        section: str = "",
    ) -> Node[T]:
        """Run a stage that calls a hook: the plugins are part of its key."""
        key = key_of(section, self.identity, self.subscribers.part(part))
        return self.stage(name, key, function, *inputs)

    def stage(
        self,
        name: str,
        section: str,
        function: Callable[..., T],
        *inputs: Node[Any],
        timed: str | None = None,
    ) -> Node[T]:
        """Run one stage, or take its result from the memo."""
        key = key_of(name, section, *(node.key for node in inputs))
        return self.timed(timed or name, key, lambda: function(*(node.value for node in inputs)))

    def timed(self, name: str, key: str, compute: Callable[[], T]) -> Node[T]:
        begin = time.perf_counter()
        node = self.memo.get(key, compute)
        self.timings[name] = self.timings.get(name, 0.0) + 1000 * (time.perf_counter() - begin)
        return node


def _behind(found: Found, places: int) -> Found:
    """Return what stands behind the first places of a list."""
    return Found(found.rows[:, places:], found.score[:, places:])


def _active(routing: Routing, item: ListId, queries: int) -> Booleans:
    if item not in routing.lists:
        return np.zeros(queries, dtype=np.bool_)
    found: Booleans = routing.active[routing.lists.index(item)]
    return found


def _content(asked: Sequence[str | ImageFile]) -> str:
    """Return the key of what a query asks a model: texts, or an image by its bytes."""
    return key_of(*(x if isinstance(x, str) else f"image {x.digest}" for x in asked))
