"""Counts in words."""

__all__ = ["counted"]


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 query`, `2 queries`, `0 trials`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}s"
