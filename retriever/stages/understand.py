"""understand: what a query asks for, from its text alone, never from a gold label."""

from collections.abc import Sequence

from retriever.hooks import Assembly
from retriever.plugins import Subscribers
from retriever.types import Intent

__all__ = ["intent_of", "understand"]


def understand(texts: Sequence[str], subscribers: Subscribers) -> tuple[Assembly, ...]:
    """Return what the plugins know of each query, joined; the first intent given stands."""
    answers = subscribers.every("query_assemble", count=len(texts), texts=texts)
    joined = []
    for q in range(len(texts)):
        known = [(name, answer[q]) for name, answer in answers if answer[q] is not None]
        intents = [item.intent for _, item in known if item.intent is not None]
        joined.append(
            Assembly(
                intent=intents[0] if intents else Intent(),
                entities=tuple(e for _, item in known for e in item.entities),
                drugs=tuple(d for _, item in known for d in item.drugs),
                suffix=tuple(dict.fromkeys(t for _, item in known for t in item.suffix)),
                facts={name: item.facts for name, item in known},
            )
        )
    return tuple(joined)


def intent_of(assembly: Assembly) -> Intent:
    """Return the intent of a query; `general` where no plugin gave one."""
    return assembly.intent or Intent()
