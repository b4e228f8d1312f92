"""Scores brought to [0, 1], row by row."""

from collections.abc import Sequence

import numpy as np

from retriever.types import Booleans, Floats

__all__ = ["minmax", "minmax_together"]


def minmax(score: Floats, member: Booleans, equal: float = 1.0) -> Floats:
    """Bring each row of scores to [0, 1] over its members; outside 0.

    Members that all score the same get `equal`: 1 in the merge, 0 in tier 2.
    """
    return _between(score, member, *_ends(score, member), equal)


def minmax_together(
    scores: Sequence[Floats], member: Sequence[Booleans], least: Floats | None = None
) -> list[Floats]:
    """Bring several tables to [0, 1] by the ends that their rows have in common.

    `least` (queries, 1) is the members' least score where it is known already and everything else
    in the tables scores less.
    """
    if len(scores) == 1:
        return [minmax(scores[0], member[0])]
    if least is not None and np.isfinite(least).all():
        # What scores less than the members changes no largest score, and falls below 0.
        high = np.max([score.max(axis=1, keepdims=True, initial=-np.inf) for score in scores], 0)
        if np.isfinite(high).all():
            spread = high > least
            span = np.where(spread, high - least, 1.0)
            scaled = [np.maximum((score - least) / span, 0.0) for score in scores]
            if spread.all():
                return scaled
            each = zip(scaled, member, strict=True)
            return [np.where(spread, one, np.where(inside, 1.0, 0.0)) for one, inside in each]
    ends = [_ends(score, inside) for score, inside in zip(scores, member, strict=True)]
    low, high = np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)
    return [_between(s, inside, low, high, 1.0) for s, inside in zip(scores, member, strict=True)]


# Past any score. Masks by arithmetic: a choice of NumPy's by a mask without pattern costs thrice.
_BEYOND = 1e300


def _ends(score: Floats, member: Booleans) -> tuple[Floats, Floats]:
    """Return the least and the largest score of each row's members, (queries, 1) each.

    A row without members gets ends that no number lies between.
    """
    low = high = score.astype(np.float64, copy=False)
    if not member.all():
        if np.isfinite(score).all():
            outside = ~member * _BEYOND
            low, high = score + outside, score - outside
        else:
            low, high = np.where(member, score, np.inf), np.where(member, score, -np.inf)
    least: Floats = low.min(axis=1, keepdims=True, initial=np.inf)
    largest: Floats = high.max(axis=1, keepdims=True, initial=-np.inf)
    return least, largest


def _between(score: Floats, member: Booleans, low: Floats, high: Floats, equal: float) -> Floats:
    with np.errstate(invalid="ignore"):
        span = high - low
        spread = span > 0
        scaled = score - low
        scaled /= np.where(spread, span, 1.0)
    if not spread.all():
        scaled = np.where(spread, scaled, equal)
    if member.all():
        return scaled
    if not np.isfinite(scaled).all():
        return np.where(member, scaled, 0.0)
    scaled *= member
    # No zero with a sign.
    scaled += 0.0
    return scaled
