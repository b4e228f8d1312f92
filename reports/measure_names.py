"""The keys of measures as every file of a run spells them: `ndcg@10`, `mrr`, `hit@5`."""

import re

__all__ = ["LINKING", "NAMES", "WITHOUT_CUTOFF", "is_key", "is_rate"]

# Of entity linking alone, where NIL is an answer.
LINKING = ("accuracy", "accuracy_linkable", "accuracy_nil")
NAMES = (
    *("hit", "map", "mrr", "ndcg", "ndcg_burges", "precision", "recall", "judged", "coverage"),
    *LINKING,
)
WITHOUT_CUTOFF = frozenset({"map", "mrr", "ndcg", "ndcg_burges", *LINKING})
_RATES = frozenset({"hit", *LINKING})
_RATES_AT_1 = frozenset({"judged@1", "mrr@1", "precision@1"})
_KEY = re.compile(r"([a-z_]+)(?:@([1-9][0-9]*))?")


def is_key(text: str) -> bool:
    """Say whether a text is the key of a measure, spelt as files spell it."""
    parts = _KEY.fullmatch(text)
    return parts is not None and parts[1] in NAMES and bool(parts[2] or parts[1] in WITHOUT_CUTOFF)


def is_rate(key: str) -> bool:
    """Say whether every query scores 0 or 1, so that the mean is a rate of successes."""
    return key.partition("@")[0] in _RATES or key in _RATES_AT_1
