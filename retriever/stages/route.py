"""route: which collections a query searches, in which ways, and how deep each list counts."""

from collections.abc import Sequence

import numpy as np

from retriever.config import RouteConfig
from retriever.types import AuditEvent, Intents, ListId, Routing

__all__ = ["DEFAULT_COLLECTION", "route"]

# The general text collection: all that is searched when no plugin decides.
DEFAULT_COLLECTION = "eagle_text"


def route(section: RouteConfig, intents: Intents, collections: Sequence[str]) -> Routing:
    """Return the lists of each query over the `collections` that the index holds.

    Core alone searches the general text collection. A planned collection that the index lacks is
    skipped and noted.
    """
    queries = len(intents.workflow)
    everyone = np.ones(queries, dtype=np.bool_)
    if DEFAULT_COLLECTION not in collections:
        missing = {"collection": DEFAULT_COLLECTION}
        event = AuditEvent("route", "route_skipped_collection", everyone, missing)
        nothing = np.zeros((0, queries), dtype=np.bool_)
        return Routing((), nothing, np.zeros(0, dtype=np.int32), (event,))
    lists = []
    if section.bm25_search:
        lists.append(ListId(DEFAULT_COLLECTION, "bm25"))
    if section.dense_search:
        lists.append(ListId(DEFAULT_COLLECTION, "dense"))
    depth = [depth_of(section, item) for item in lists]
    return Routing(
        tuple(lists),
        np.ones((len(lists), queries), dtype=np.bool_),
        np.array(depth, dtype=np.int32),
    )


def depth_of(section: RouteConfig, item: ListId) -> int:
    """Return how many hits of a list count: recall_top_k, or its collection's own number."""
    return section.recall_top_k_by_collection.get(item.collection, section.recall_top_k)
