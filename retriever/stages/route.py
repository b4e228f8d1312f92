"""route: which collections a query searches, in which ways, and how deep each list counts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from retriever.config import RouteConfig
from retriever.hooks import Assembly, Catalog
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

    def note(event: str, query: int, collection: str = "") -> None:
        everyone = np.zeros(len(texts), dtype=np.bool_)
        events.setdefault((event, collection), everyone)[query] = True

    active: dict[ListId, Booleans] = {}
    visual = np.array([image is not None for image in images], dtype=np.bool_)
    for q, (decision, assembly) in enumerate(zip(classified, assemblies, strict=True)):
        planned = (DEFAULT_COLLECTION,) if decision is None else decision.collections
        for event in () if decision is None else decision.events:
            note(event, q)
        visual[q] |= decision is not None and decision.visual
        suppressed = intent_of(assembly).suppress_collections
        planned = (*planned, *section.exploratory_search_collections)
        planned = tuple(name for name in planned if name not in suppressed)
        wanted = dict.fromkeys((*planned, *allowed.collections[q]))
        held = [name for name in wanted if name in catalog.index.collections]
        if images[q] and not any(catalog.index.collections[name].images for name in held):
            note("query_image_unused", q)
        for name in wanted:
            if name not in held:
                note("route_skipped_collection", q, name)
                continue
            searches = ["dense"] if section.dense_search else []
            if section.bm25_search and catalog.index.collections[name].text:
                searches.append("bm25")
            for search in searches:
                item = ListId(name, search)  # type: ignore[arg-type]
                active.setdefault(item, np.zeros(len(texts), dtype=np.bool_))[q] = True
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
