"""route: which collections a query searches, in which ways, and how deep each list counts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from retriever.config import RouteConfig
from retriever.hooks import Assembly, Catalog, Classification
from retriever.images import ImageFile
from retriever.plugins import Subscribers
from retriever.stages.scope import Allowed
from retriever.stages.understand import intent_of
from retriever.types import AuditEvent, Booleans, ListId, Routing

__all__ = ["DEFAULT_COLLECTION", "depth_of", "route", "with_depth"]

# The general text collection: all that is searched when no plugin decides.
DEFAULT_COLLECTION = "eagle_text"


def route(
    section: RouteConfig,
    subscribers: Subscribers,
    catalog: Catalog,
    texts: Sequence[str],
    assemblies: Sequence[Assembly],
    allowed: Allowed,
    images: Sequence[ImageFile | None] = (),
) -> Routing:
    """Return the lists of each query.

    A plugin's collections, or the general text collection where none decides; then the
    exploratory ones; less those that the intent suppresses; then the collections that a scope's
    documents are in. A collection that the index lacks is skipped and noted. Every text
    collection searched gets a BM25 list where `bm25_search` is on. `images` has the image of each
    query, if any; one that no searched collection can be compared with is noted.
    """
    images = images or (None,) * len(texts)
    classified = subscribers.first(
        "classify_query",
        len(texts),
        "route",
        texts=texts,
        images=images,
        assemblies=assemblies,
        catalog=catalog,
    )
    events: dict[tuple[str, str], Booleans] = {}
    active: dict[ListId, Booleans] = {}

    def mark(marks: dict[Any, Booleans], what: Any, where: Sequence[int]) -> None:
        if what not in marks:
            marks[what] = np.zeros(len(texts), dtype=np.bool_)
        marks[what][list(where)] = True

    # Queries that are decided alike search alike.
    alike: dict[tuple[Any, ...], list[int]] = {}
    general = Classification((DEFAULT_COLLECTION,))
    for q, (decision, assembly) in enumerate(zip(classified, assemblies, strict=True)):
        decided = decision or general
        key = (
            tuple(decided.collections),
            tuple(decided.events),
            decided.visual or images[q] is not None,
            images[q] is not None,
            tuple(intent_of(assembly).suppress_collections),
            tuple(allowed.collections[q]),
        )
        alike.setdefault(key, []).append(q)
    visual = np.zeros(len(texts), dtype=np.bool_)
    for (collections, noted, looks, has_image, suppressed, scoped), where in alike.items():
        for event in noted:
            mark(events, (event, ""), where)
        visual[where] = looks
        planned = (*collections, *section.exploratory_search_collections)
        planned = tuple(name for name in planned if name not in suppressed)
        wanted = dict.fromkeys((*planned, *scoped))
        held = [name for name in wanted if name in catalog.index.collections]
        if has_image and not any(catalog.index.collections[name].images for name in held):
            mark(events, ("query_image_unused", ""), where)
        for name in wanted:
            if name not in held:
                mark(events, ("route_skipped_collection", name), where)
                continue
            searches = ["dense"] if section.dense_search else []
            if section.bm25_search and catalog.index.collections[name].text:
                searches.append("bm25")
            for search in searches:
                mark(active, ListId(name, search), where)  # type: ignore[arg-type]
    lists = tuple(sorted(active))
    return Routing(
        lists,
        np.array([active[item] for item in lists], dtype=np.bool_).reshape(len(lists), len(texts)),
        np.array([depth_of(section, item) for item in lists], dtype=np.int32),
        tuple(
            AuditEvent("route", event, where, {"collection": name} if name else {})
            for (event, name), where in sorted(events.items())
        ),
        visual,
    )


def with_depth(section: RouteConfig, routing: Routing) -> Routing:
    """Return a routing whose lists count as deep as a section says."""
    depth = np.array([depth_of(section, item) for item in routing.lists], dtype=np.int32)
    return replace(routing, depth=depth)


def depth_of(section: RouteConfig, item: ListId) -> int:
    """Return how many hits of a list count: recall_top_k, or its collection's own number."""
    return section.recall_top_k_by_collection.get(item.collection, section.recall_top_k)
