"""expand: what each collection's encoder reads of a query, and the extra terms of the overlap."""

from collections.abc import Sequence

from retriever.hooks import Assembly, Expansion
from retriever.plugins import Subscribers

__all__ = ["expand"]


def expand(
    texts: Sequence[str],
    assemblies: Sequence[Assembly],
    collection: str,
    subscribers: Subscribers,
) -> tuple[Expansion, ...]:
    """Return the expansion of each query for one collection; the raw text where none is given.

    A query without any text asks for nothing: its vector would be near to arbitrary chunks.
    """
    found = subscribers.first(
        "query_dense_expand",
        len(texts),
        "expand",
        texts=texts,
        assemblies=assemblies,
        collection=collection,
    )
    nothing = Expansion((), {}, ())
    return tuple(
        (expansion or Expansion((text,), {}, (text,))) if text.strip() else nothing
        for text, expansion in zip(texts, found, strict=True)
    )
