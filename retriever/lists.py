"""From a query to the lists that enter the merge: expand, search, cut, fuse, parents, tier 1.

Each function gives one node of the graph: a result and the key it is remembered by.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from retriever.batch_run import BatchRun
from retriever.hooks import (
    Assembly,
    Candidates,
    Expansion,
    PlanRerank,
    SupplementPlan,
)
from retriever.images import ImageFile
from retriever.memo import Node, key_of
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
from retriever.stages.recall import Encoded, asked_of, cut, encode, find_slots, point_at
from retriever.stages.rerank_merged import (
    check_shapes,
)
from retriever.stages.rerank_plan import compare, rerank_plan
from retriever.stages.route import depth_of
from retriever.stages.scope import Allowed
from retriever.stages.supplement import DeepSupplement, cut_supplement, deep_supplement
from retriever.types import (
    Booleans,
    Floats,
    Found,
    ListId,
    RankedList,
    Routing,
    Slots,
    Supplement,
)

__all__ = [
    "cut_to_depth",
    "expansions_of",
    "neighbours_of",
    "one_list",
    "point_at_parents",
    "search_list",
    "search_supplement",
    "vectors_of",
]


def expansions_of(
    run: BatchRun, collection: str, known: Node[tuple[Assembly, ...]]
) -> Node[tuple[Expansion, ...]]:
    """Expand each query for one collection."""
    return run.hooked(
        "expand",
        "expand",
        lambda texts, known: expand(texts, known, collection, run.subscribers),
        run.root,
        known,
        section=collection,
    )


def vectors_of(
    run: BatchRun, collection: str, known: Node[tuple[Assembly, ...]], raw: bool = False
) -> Node[Encoded]:
    """Encode what each query asks of a collection; `raw` is what tier 1 compares."""
    encoder, expansions = run.encoder(collection), expansions_of(run, collection, known)

    def asked(expansions: Sequence[Expansion]) -> list[tuple[str | ImageFile, ...]]:
        texts = [e.raw_texts if raw else e.dense_texts for e in expansions]
        return asked_of(encoder, texts, run.images)

    # Keyed by content: two collections of one model ask for the same vectors.
    content = run.stage(
        "ask",
        key_of("raw" if raw else "dense", encoder.fingerprint),
        lambda expansions: key_of(*(_content(of_query) for of_query in asked(expansions))),
        expansions,
    )
    key = key_of("encode", encoder.fingerprint, content.value)
    if key not in run.encoded:
        vectors = run.vectors.setdefault(encoder.fingerprint, {})
        run.encoded[key] = run.timed(
            "encode", key, lambda: encode(encoder, asked(expansions.value), vectors)
        )
    return run.encoded[key]


def search_list(
    run: BatchRun, item: ListId, known: Node[tuple[Assembly, ...]], allowed: Node[Allowed]
) -> Node[Found]:
    """Search one list for every query, deep."""
    collection = run.index.collections[item.collection]
    depth, queries = run.config.recall.search_depth, len(run.queries)
    section = key_of(str(item), run.config.recall.fingerprint)
    if item.search == "bm25":
        return run.stage(
            "search",
            section,
            lambda texts, allowed: collection.search_bm25(texts, depth, allowed.rows),
            run.root,
            allowed,
            timed="bm25",
        )
    return run.stage(
        "search",
        section,
        lambda encoded, allowed: collection.search_dense(
            encoded.vectors, encoded.owner, queries, depth, allowed.rows
        ),
        vectors_of(run, item.collection, known),
        allowed,
        timed="dense",
    )


def one_list(
    run: BatchRun,
    item: ListId,
    found: Mapping[ListId, Node[Found]],
    routing: Node[Routing],
    known: Node[tuple[Assembly, ...]],
    near: Node[Neighbours],
) -> tuple[Node[Found], Node[RankedList], Node[Parents | None]]:
    """Take one list from its search to the merge: cut, fuse, parents, tier 1."""
    searched = found[item]
    parents: Node[Parents | None] = Node("no parents", None)
    one = run.stage(
        "cut", str(item), lambda routing, found: cut(routing, item, found), routing, searched
    )
    if item.search == "bm25":
        return searched, one, parents
    one = fuse_list(run, item, searched, one, routing, known)
    if near.value.rows.shape[1]:
        both = run.stage(
            "parents",
            "",
            lambda found, one, near: append_parents(run.index, found, one, near),
            searched,
            one,
            near,
        )
        parents = Node(both.key, both.value)
        searched = Node(f"{both.key} rows", both.value.found)
        one = Node(f"{both.key} list", both.value.one)
    return searched, rerank_list(run, item, found[item], searched, one, known), parents


def fuse_list(
    run: BatchRun,
    item: ListId,
    found: Node[Found],
    one: Node[RankedList],
    routing: Node[Routing],
    known: Node[tuple[Assembly, ...]],
) -> Node[RankedList]:
    section, collection = run.config.fuse, run.index.collections[item.collection]
    hybrid = run.stage(
        "hybrid",
        key_of(str(item), section.fingerprint),
        lambda routing: is_hybrid(
            section,
            item.collection,
            _active(routing, ListId(item.collection, "bm25"), len(run.queries)),
            _active(routing, item, len(run.queries)),
        ),
        routing,
    )
    if not hybrid.value.any():
        return one
    sparse: Node[Floats]
    if section.sparse_method == "overlap":
        sparse = run.stage(
            "overlap",
            item.collection,
            lambda texts, expansions, found: overlap(
                collection, run.index, texts, expansions, found.rows
            ),
            run.root,
            expansions_of(run, item.collection, known),
            found,
        )
    else:
        sparse = run.stage(
            "bm25_share",
            "",
            lambda bm25, one: share_of_best(bm25, one.rank > 0),
            # Of all that was found, so that a cut at another depth costs no new scores.
            run.stage(
                "bm25_of",
                item.collection,
                lambda texts, found: bm25_of(collection, texts, found.rows),
                run.root,
                found,
            ),
            one,
        )
    return run.stage(
        "fuse",
        section.fingerprint,
        lambda one, hybrid, sparse: fuse(section, one, hybrid, sparse),
        one,
        hybrid,
        sparse,
    )


def neighbours_of(
    run: BatchRun, item: ListId, found: Node[Found], known: Node[tuple[Assembly, ...]]
) -> Node[Neighbours]:
    """Find what parents may bring to a list: nothing for queries with an entity."""
    if item.search == "bm25" or not run.config.route.parent_doc_retrieval:
        nothing = np.zeros((len(run.queries), 0), dtype=np.int32)
        return Node("no neighbours", Neighbours(nothing, nothing))

    def beside(found: Found, known: tuple[Assembly, ...]) -> Neighbours:
        wanted = np.array([not assembly.entities for assembly in known], dtype=np.bool_)
        return Neighbours.of(run.index, run.index.collections[item.collection], found, wanted)

    return run.stage("neighbours", item.collection, beside, found, known)


def point_at_parents(
    run: BatchRun, laid: Node[Slots], parents: Sequence[Node[Parents | None]]
) -> Node[Slots]:
    """Let the slots point at the parents behind each list."""
    if all(one.value is None for one in parents):
        return laid

    def point(slots: Slots, *parents: Parents | None) -> Slots:
        pointer = list(slots.pointer)
        for place, one in enumerate(parents):
            if one is not None:
                pointer[place] = point_at(slots, place, one.chosen)
        return replace(slots, pointer=tuple(pointer))

    return run.stage("point_at_parents", "", point, laid, *parents)


def rerank_list(
    run: BatchRun,
    item: ListId,
    searched: Node[Found],
    found: Node[Found],
    one: Node[RankedList],
    known: Node[tuple[Assembly, ...]],
) -> Node[RankedList]:
    """Tier 1 of a list; `found` is what was searched and, behind it, its neighbours."""
    asked: Node[PlanRerank | None] = run.hooked(
        "rerank_plan",
        "rerank_plan",
        lambda texts, found, known: run.subscribers.one(
            "rerank",
            "rerank_plan",
            item=item,
            candidates=Candidates(run.index, texts, known, found.rows),
        ),
        run.root,
        found,
        known,
        section=str(item),
    )
    if asked.value is None:
        return one
    section, keep = run.config.rerank_plan, asked.value.keep
    if keep is None and section.mode == "off":
        return one
    if keep is not None:
        check_shapes("rerank", {"keep": keep}, found.value.rows.shape)
    compared: Node[Floats | None] = Node("not compared", None)
    if asked.value.rerank and section.mode != "off":
        collection = run.index.collections[item.collection]
        raw = vectors_of(run, item.collection, known, raw=True)

        def compared_with(found: Found, raw: Encoded) -> Floats:
            return compare(run.index, collection, run.encoder(item.collection), raw, found.rows)

        # Neighbours come and go with every change before them; what was searched stays.
        first = run.stage("compare", item.collection, compared_with, searched, raw)
        compared = Node(first.key, first.value)
        if found is not searched:
            compared = run.stage(
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
    return run.stage(
        "tier_1",
        section.fingerprint,
        lambda one, asked, cosine: rerank_plan(section, one, cosine, keep),
        one,
        asked,
        compared,
    )


def search_supplement(
    run: BatchRun, known: Node[tuple[Assembly, ...]], allowed: Node[Allowed]
) -> Node[DeepSupplement]:
    """Search documents by name, where the plugin plans it."""

    def plan(
        texts: tuple[str, ...], known: tuple[Assembly, ...]
    ) -> tuple[SupplementPlan | None, ...]:
        plans: list[SupplementPlan | None] = [None] * len(texts)
        for _, answer in run.subscribers.every(
            "retrieve_supplement",
            "supplement",
            count=len(texts),
            texts=texts,
            assemblies=known,
            index=run.index,
        ):
            plans = [a or b for a, b in zip(plans, answer, strict=True)]
        return tuple(plans)

    planned = run.hooked("plan_supplement", "supplement", plan, run.root, known)
    names = sorted({c for p in planned.value if p for c in p.collections})
    held = [n for n in names if n in run.index.collections and n in run.encoders]
    encoded = [vectors_of(run, name, known) for name in held]
    return run.stage(
        "supplement",
        key_of(*held),
        lambda texts, planned, allowed, *encoded: deep_supplement(
            run.index, texts, planned, dict(zip(held, encoded, strict=True)), allowed
        ),
        run.root,
        planned,
        allowed,
        *encoded,
    )


def cut_to_depth(
    run: BatchRun, deep: Node[DeepSupplement], slots: Node[Slots]
) -> tuple[Node[Supplement], Node[Slots]]:
    """Cut the supplement to its depth; the slots then point at what is left of it."""
    depth = depth_of(run.config.route, ListId("", "dense"))
    extra = run.stage("cut_supplement", str(depth), lambda deep: cut_supplement(deep, depth), deep)
    if extra.value is deep.value.found:
        return extra, slots
    return extra, run.stage(
        "find_supplement",
        "",
        lambda slots, extra: replace(
            slots, pointer=(*slots.pointer[:-1], find_slots(slots, extra.rows))
        ),
        slots,
        extra,
    )


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
