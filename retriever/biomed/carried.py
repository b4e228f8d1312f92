"""What a cached function is given and its key leaves out: the key beside it says enough."""

from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Carried"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False, slots=True)
class Carried(Generic[T]):
    """A value that equals every other, so that `lru_cache` tells calls apart by the rest."""

    value: T

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Carried)

    def __hash__(self) -> int:
        return 0
