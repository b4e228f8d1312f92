"""Rows put in order by falling score: one sort of whole numbers, total and stable."""

import math

import numpy as np
import numpy.typing as npt

from retriever.types import Booleans, Floats, Integers

__all__ = ["DECIMALS", "STEPS", "by_score", "by_steps", "in_steps"]

# Scores after recall are rounded to so many decimals, which makes whole numbers of them.
DECIMALS = 12
STEPS = 10.0**DECIMALS
# Beyond it a score times 10^12 is no longer exact in float64.
_LARGEST = 2.0**50
_WORD = 62


def in_steps(score: Floats) -> Floats:
    """Return scores in steps of 10^-12, whole numbers; over `STEPS` they are the rounded scores.

    `in_steps(x) / STEPS` is `np.round(x, 12)` bit for bit.
    """
    steps = score * STEPS
    return np.rint(steps, out=steps)


def by_score(score: Floats, inside: Booleans, earlier: Integers | None = None) -> Integers:
    """Return the places of each row, (queries, places): those inside by falling score, then rest.

    Equal scores go by `earlier` where it is given (whole numbers from 0), then by place. Scores
    are read to 12 decimals; NaN comes after every number.
    """
    return by_steps(in_steps(score), inside, earlier)


def by_steps(steps: Floats, inside: Booleans, earlier: Integers | None = None) -> Integers:
    """Return the same order for scores that are in steps already.

    Score, `earlier` and place are packed into one integer, which sorts several times faster than
    indices do. Where 62 bits do not hold all three, one sort goes by `earlier` and place and a
    second by score; where they do not hold the score, a lexical sort gives the same.
    """
    queries, width = steps.shape
    if not width:
        return np.zeros((queries, 0), dtype=np.int32)
    numbers, most, least = steps, float(steps.max()), float(steps.min())
    if not math.isfinite(most - least):
        finite = np.isfinite(steps)
        numbers = np.where(finite, steps, 0.0)
        most, least = float(numbers.max()), float(numbers.min())
    span = most - least
    later = 0 if earlier is None else int(earlier.max())
    place_bits, later_bits = int(width - 1).bit_length(), later.bit_length()
    score_bits = (int(span) + 2).bit_length() if span < _LARGEST else _WORD
    if max(most, -least) > _LARGEST or max(score_bits, later_bits) + place_bits > _WORD:
        return _lexical(steps, inside, earlier)
    key = (most - numbers).astype(np.int64)
    if numbers is not steps:
        key[~finite] = int(span) + 1
    outside = ~inside
    last = int(span) + 2
    if earlier is None:
        return _sorted(_behind(key, outside, last), place_bits)
    if score_bits + later_bits + place_bits > _WORD:
        first = _sorted(_behind(earlier.astype(np.int64), outside, 1 << later_bits), place_bits)
        key = np.take_along_axis(_behind(key, outside, last), first, axis=1)
        return np.take_along_axis(first, _sorted(key, place_bits), axis=1)
    key <<= later_bits
    key |= earlier
    return _sorted(_behind(key, outside, last << later_bits), place_bits)


def _behind(key: npt.NDArray[np.int64], outside: Booleans, last: int) -> npt.NDArray[np.int64]:
    """Set the keys of what is outside to `last`, which no other key exceeds."""
    return np.maximum(key, outside * np.int64(last), out=key)


def _sorted(key: npt.NDArray[np.int64], place_bits: int) -> Integers:
    """Return the places of each row by rising key, then place; `key` is used up."""
    key <<= place_bits
    key |= np.arange(key.shape[1])
    key.sort(axis=1)
    key &= (1 << place_bits) - 1
    return key.astype(np.int32)


def _lexical(steps: Floats, inside: Booleans, earlier: Integers | None) -> Integers:
    number = inside & np.isfinite(steps)
    falling = np.where(number, -steps / STEPS, np.inf)
    before = np.zeros(steps.shape, np.int32) if earlier is None else np.where(inside, earlier, 0)
    return np.lexsort((before, falling, ~inside), axis=-1).astype(np.int32)
