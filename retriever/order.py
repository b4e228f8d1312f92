"""Rows put in order by falling score: one sort of whole numbers, total and stable."""

import numpy as np

from retriever.types import Booleans, Floats, Integers

__all__ = ["DECIMALS", "by_score"]

# Scores after recall are rounded to so many decimals, which makes whole numbers of them.
DECIMALS = 12
_STEPS = 10.0**DECIMALS
# Beyond it a score times 10^12 is no longer exact in float64.
_LARGEST = 2.0**50
_WORD = 62


def by_score(score: Floats, inside: Booleans, earlier: Integers | None = None) -> Integers:
    """Return the places of each row, (queries, places): those inside by falling score, then rest.

    Equal scores go by `earlier` where it is given (whole numbers from 0), then by place. Scores
    are read to 12 decimals; NaN comes after every number. Score, `earlier` and place are packed
    into one integer, which sorts several times faster than indices do; where 62 bits do not hold
    them, a lexical sort gives the same.
    """
    queries, width = score.shape
    if not width:
        return np.zeros((queries, 0), dtype=np.int32)
    number = inside & np.isfinite(score)
    steps = np.where(number, score, 0.0)
    steps *= _STEPS
    np.rint(steps, out=steps)
    most = max(float(steps.max()), -float(steps.min()))
    later = 0 if earlier is None else int(earlier.max())
    place_bits, later_bits = int(width - 1).bit_length(), later.bit_length()
    score_bits = int(2 * most + 3).bit_length()
    if most > _LARGEST or score_bits + later_bits + place_bits > _WORD:
        return _lexical(score, inside, earlier)
    key = (most - steps).astype(np.int64)
    key[~number] = int(2 * most) + 1
    if not inside.all():
        key[~inside] = int(2 * most) + 2
    if earlier is not None:
        key <<= later_bits
        key |= np.where(inside, earlier, 0)
    key <<= place_bits
    key |= np.arange(width)
    key.sort(axis=1)
    key &= (1 << place_bits) - 1
    return key.astype(np.int32)


def _lexical(score: Floats, inside: Booleans, earlier: Integers | None) -> Integers:
    number = inside & np.isfinite(score)
    falling = np.where(number, -np.round(np.where(number, score, 0.0), DECIMALS), np.inf)
    before = np.zeros(score.shape, np.int32) if earlier is None else np.where(inside, earlier, 0)
    return np.lexsort((before, falling, ~inside), axis=-1).astype(np.int32)
