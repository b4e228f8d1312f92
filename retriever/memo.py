"""Results of stages, remembered under a key that names everything they depend on."""

import dataclasses
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

__all__ = ["Memo", "Node", "key_of"]

T = TypeVar("T")

# What an object costs beside its arrays, roughly.
OVERHEAD = 64


@dataclass(frozen=True, slots=True)
class Node(Generic[T]):
    """A stage's result together with the key it is known by."""

    key: str
    value: T


def key_of(*parts: str) -> str:
    """Return one key for several: SHA-256 over the parts, each with its length."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


class Memo:
    """Keeps results until they outgrow `budget` bytes; those used longest ago go first.

    Arrays become read-only on the way in, so that nobody can change what another will be given.
    A result larger than the whole budget is handed on and not kept; `refused` counts those. A
    budget of 0 keeps nothing. Not shared between threads.
    """

    def __init__(self, budget: int = 512 * 2**20) -> None:
        self.budget = budget
        self.hits = 0
        self.misses = 0
        self.refused = 0
        self.size = 0
        self._kept: OrderedDict[str, tuple[object, int]] = OrderedDict()

    def get(self, key: str, compute: Callable[[], T]) -> Node[T]:
        """Return what is kept under `key`, or compute and keep it."""
        if key in self._kept:
            self.hits += 1
            self._kept.move_to_end(key)
            return Node(key, self._kept[key][0])  # type: ignore[arg-type]
        self.misses += 1
        value = compute()
        size = _freeze(value)
        if size > self.budget:
            self.refused += 1
            return Node(key, value)
        self._kept[key] = (value, size)
        self.size += size
        while self.size > self.budget:
            _, (_, freed) = self._kept.popitem(last=False)
            self.size -= freed
        return Node(key, value)


def _freeze(value: object, seen: set[int] | None = None) -> int:
    """Make every array in a result read-only; return the result's size in bytes.

    What a result holds several times counts once. What says `is_shared` of its class is knowledge
    that results only point to: walking it for every result would cost more than the search.
    """
    if getattr(type(value), "is_shared", False):
        return OVERHEAD
    seen = set() if seen is None else seen
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
        return value.nbytes
    if isinstance(value, tuple | list):
        return sum(_freeze(item, seen) for item in value) + OVERHEAD
    if isinstance(value, str):
        return len(value) + OVERHEAD
    if dataclasses.is_dataclass(value):
        held = (getattr(value, field.name) for field in dataclasses.fields(value))
        return sum(_freeze(item, seen) for item in held) + OVERHEAD
    if isinstance(value, Mapping):
        return sum(_freeze(item, seen) for item in value.values()) + OVERHEAD
    return OVERHEAD
