"""scope: the documents a query is restricted to, and the collections that hold them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retriever.index.store import Index
from retriever.types import AuditEvent, Integers, Query

__all__ = ["Allowed", "resolve"]


@dataclass(frozen=True, slots=True, eq=False)
class Allowed:
    """What each query may find: rows of the chunk table, rising; None means all.

    `collections` are those that the scoped documents were ingested into.
    """

    rows: tuple[Integers | None, ...]
    collections: tuple[tuple[str, ...], ...]
    audit: tuple[AuditEvent, ...] = ()


def resolve(queries: Sequence[Query], index: Index) -> Allowed:
    """Look the scopes up in the documents registry. A scope without documents allows nothing."""
    if all(query.scope.is_empty for query in queries):
        return Allowed((None,) * len(queries), ((),) * len(queries))
    rows: list[Integers | None] = []
    collections: list[tuple[str, ...]] = []
    empty = np.zeros(len(queries), dtype=np.bool_)
    for i, query in enumerate(queries):
        if query.scope.is_empty:
            rows.append(None)
            collections.append(())
            continue
        found = index.registry.scope(index.registry_id, query.scope)
        rows.append(index.chunks.rows_of_documents(found.document_ids))
        collections.append(found.collections)
        empty[i] = not found.document_ids
    audit = (AuditEvent("scope", "scope_empty", empty),) if empty.any() else ()
    return Allowed(tuple(rows), tuple(collections), audit)
