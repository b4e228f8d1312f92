"""understand: what a query asks for, from its text alone, never from a gold label."""

from collections.abc import Sequence

import numpy as np

from retriever.types import Intents

__all__ = ["understand"]


def understand(texts: Sequence[str]) -> Intents:
    """Return the intent of each query: `general`, until a plugin knows better."""
    nothing: tuple[tuple[str, ...], ...] = ((),) * len(texts)
    return Intents(
        workflow=("general",) * len(texts),
        suppress_collections=nothing,
        section_cues=nothing,
        require_entity_match=np.zeros(len(texts), dtype=np.bool_),
    )
