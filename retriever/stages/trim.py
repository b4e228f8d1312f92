"""trim: images after the text hits, and how much of the ranking is shown."""

from dataclasses import replace

import numpy as np

from retriever.config import TrimConfig
from retriever.stages.inject import Injected
from retriever.types import Integers, Reranked, Slots

__all__ = ["place_images", "trim"]


def place_images(section: TrimConfig, ranking: Reranked, injected: Injected) -> Reranked:
    """Order images after the text hits, `image_slots` of the first `final_top_k` kept for them.

    Both keep their own order. Where fewer images were found, text takes the rest of the slots. A
    query that looks for images keeps the merged order.
    """
    images, stands = injected.images, injected.stands
    if images is None or stands is None:
        return ranking
    places = np.arange(ranking.order.shape[1])
    retrieved = places < ranking.count[:, None]
    image = retrieved & np.take_along_axis(images, ranking.order.astype(np.int64), axis=1)
    if not (image.any(axis=1) & ~stands).any():
        return ranking
    text = retrieved & ~image
    texts = text.sum(axis=1, keepdims=True)
    kept = np.minimum(section.image_slots, image.sum(axis=1, keepdims=True))
    first = np.minimum(section.final_top_k - kept, texts)
    nth_text, nth_image = np.cumsum(text, axis=1) - 1, np.cumsum(image, axis=1) - 1
    of_text = np.where(nth_text < first, nth_text, nth_text + kept)
    of_image = np.where(nth_image < kept, first + nth_image, texts + nth_image)
    place = np.where(image, of_image, np.where(text, of_text, places))
    place = np.where(stands[:, None], places, place)
    again = np.argsort(place, axis=1, kind="stable")
    return replace(ranking, order=np.take_along_axis(ranking.order, again, axis=1))


def trim(section: TrimConfig, slots: Slots, ranking: Reranked) -> Integers:
    """Return the chunk rows of each query's first hits, (queries, final_top_k), -1 for none."""
    shown = min(section.final_top_k, ranking.order.shape[1])
    rows = np.take_along_axis(slots.chunk, ranking.order[:, :shown], axis=1)
    return np.where(np.arange(shown) < ranking.count[:, None], rows, -1).astype(np.int32)
