"""What two configurations do not share, with the value in force where one names none.

A weight or a depth by collection that a configuration does not name, and a mode that it leaves to
its model set, is null in the tree. What holds there is a default, which this finds.
"""

from dataclasses import dataclass
from typing import Any

from retriever import RetrieverConfig
from retriever.config import difference
from retriever.encoders.models import resolved

__all__ = ["Held", "differences_in_force"]

WEIGHTS, DEPTHS = "merge.weights.", "route.recall_top_k_by_collection."
# What a list or a search weighs that is not named.
UNNAMED = 1.0


@dataclass(frozen=True)
class Held:
    """The value in force of one parameter, and whether the configuration leaves it to a default."""

    value: Any
    is_default: bool = False


def differences_in_force(
    one: RetrieverConfig, other: RetrieverConfig
) -> dict[str, tuple[Held, Held]]:
    """Return {parameter: what holds in each} of what differs in force, in the tree's order.

    What one names and the other leaves to a default of the same value is no difference.
    """
    found = {}
    for path, (a, b) in difference(one, other).items():
        held = _held(one, path, a), _held(other, path, b)
        if held[0].value != held[1].value:
            found[path] = held
    return found


def _held(config: RetrieverConfig, path: str, value: Any) -> Held:
    if value is not None:
        return Held(value)
    if path.startswith(WEIGHTS):
        # A list that is not named takes the weight of its search.
        search = path.removeprefix(WEIGHTS).rpartition(":")[2]
        return Held(config.merge.weights.get(search, UNNAMED), is_default=True)
    if path.startswith(DEPTHS):
        return Held(config.route.recall_top_k, is_default=True)
    if path == "rerank_plan.mode":
        return Held(resolved(config).rerank_plan.mode, is_default=True)
    return Held(None)
