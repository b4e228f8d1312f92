"""trim: how much of the ranking is shown."""

import numpy as np

from retriever.config import TrimConfig
from retriever.types import Integers, Reranked, Slots

__all__ = ["trim"]


def trim(section: TrimConfig, slots: Slots, ranking: Reranked) -> Integers:
    """Return the chunk rows of each query's first hits, (queries, final_top_k), -1 for none."""
    shown = min(section.final_top_k, ranking.order.shape[1])
    rows = np.take_along_axis(slots.chunk, ranking.order[:, :shown], axis=1)
    return np.where(np.arange(shown) < ranking.count[:, None], rows, -1).astype(np.int32)
