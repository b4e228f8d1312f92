"""Results of stages, remembered under a key that names everything they depend on."""

import dataclasses
import hashlib
import heapq
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

__all__ = ["Asked", "Memo", "Node", "key_of"]

T = TypeVar("T")

# What an object costs beside its arrays, roughly.
OVERHEAD = 64

# A kind of result is kept while one of so many was asked for again.
TRIED = 16
# Keys of what was not kept that are remembered for each kind, and batches whose kinds are.
GONE, BATCHES = 4096, 1024


@dataclass(frozen=True, slots=True)
class Node(Generic[T]):
    """A stage's result together with the key it is known by."""

    key: str
    value: T


def key_of(*parts: str | bytes) -> str:
    """Return one key for several: SHA-256 over the parts, each with its length."""
    contents = [p.encode("utf-8", "surrogatepass") if isinstance(p, str) else p for p in parts]
    # The lengths in front, then all parts: one call of the hash, since each costs a microsecond.
    lengths = " ".join([str(len(content)) for content in contents])
    return hashlib.sha256(b"".join([lengths.encode(), b"\n", *contents])).hexdigest()


@dataclass(slots=True)
class _Kept:
    """A result, its bytes, the seconds a byte it took, and the level below which it goes."""

    value: object
    size: int
    worth: float
    level: float


@dataclass(slots=True)
class Asked:
    """Whether results of one kind are asked for again: most of a sweep's late ones never are.

    To keep them costs more than their bytes: a table that is let go at once leaves its memory, warm
    in the cache, to the next one, and one that is kept has the next touch fresh pages. So a kind is
    kept at first, and then while one in `TRIED` of the latest was asked for again. What is not kept
    is remembered by key: when such a one is asked for, that counts too, and the kind is kept anew.
    """

    computed: int = 0
    again: int = 0
    gone: dict[str, None] = field(default_factory=dict)

    def hit(self) -> None:
        """Note that a kept result was asked for."""
        self.again = min(self.again + 1, 2 * TRIED)

    def keeps(self, key: str) -> bool:
        """Note that a result was computed; tell whether to keep it."""
        self.computed += 1
        if key in self.gone:
            del self.gone[key]
            self.hit()
        if self.computed >= 2 * TRIED:
            self.computed //= 2
            self.again //= 2
        if self.computed < TRIED or self.again * TRIED >= self.computed:
            return True
        self.gone[key] = None
        if len(self.gone) > GONE:
            del self.gone[next(iter(self.gone))]
        return False


class Memo:
    """Keeps results until they outgrow `budget` bytes; then the cheapest to compute again go first.

    GreedyDual-Size (Cao and Irani, 1997): a result's level is the seconds a byte that computing
    it took, above the level that was let go last. So what a sweep's every trial reads outlives what
    single trials leave behind, even where one pass over all queries is larger than the budget; and
    what nobody asks for any more goes in the end, however dear. `clock` tells the seconds.

    Arrays become read-only on the way in, so that nobody can change what another will be given.
    A result larger than the whole budget is handed on and not kept; `refused` counts those, and
    `passed` those of kinds that nobody asks for again (`Asked`). A budget of 0 keeps nothing. Not
    shared between threads.
    """

    def __init__(
        self, budget: int = 512 * 2**20, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.budget = budget
        self.hits = 0
        self.misses = 0
        self.refused = 0
        self.passed = 0
        self.size = 0
        self._clock = clock
        self._level = 0.0
        self._kept: dict[str, _Kept] = {}
        # Lowest level first. A level that a hit has raised since is found out when it is its turn.
        self._queue: list[tuple[float, int, str]] = []
        self._asked: dict[str, defaultdict[str, Asked]] = {}

    def asked(self, batch: str) -> Mapping[str, Asked]:
        """Return what is known of the kinds of one batch's results, by stage; made when read."""
        kinds = self._asked.pop(batch, None) or defaultdict(Asked)
        self._asked[batch] = kinds
        if len(self._asked) > BATCHES:
            del self._asked[next(iter(self._asked))]
        return kinds

    def get(self, key: str, compute: Callable[[], T], asked: Asked | None = None) -> Node[T]:
        """Return what is kept under `key`, or compute it and keep it where its kind is kept."""
        kept = self._kept.get(key)
        if kept is not None:
            self.hits += 1
            if asked is not None:
                asked.hit()
            kept.level = self._level + kept.worth
            return Node(key, kept.value)  # type: ignore[arg-type]
        self.misses += 1
        begin = self._clock()
        value = compute()
        seconds = self._clock() - begin
        size = _freeze(value)
        if asked is not None and not asked.keeps(key):
            self.passed += 1
            return Node(key, value)
        if size > self.budget:
            self.refused += 1
            return Node(key, value)
        self.size += size
        while self.size > self.budget:
            self._let_go()
        worth = seconds / max(size, 1)
        self._kept[key] = _Kept(value, size, worth, self._level + worth)
        heapq.heappush(self._queue, (self._level + worth, self.misses, key))
        return Node(key, value)

    def _let_go(self) -> None:
        while True:
            level, turn, key = heapq.heappop(self._queue)
            kept = self._kept[key]
            if kept.level <= level:
                break
            heapq.heappush(self._queue, (kept.level, turn, key))
        self._level = level
        self.size -= kept.size
        del self._kept[key]


def _freeze(value: Any, seen: set[int] | None = None) -> int:
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
        return sum([_freeze(item, seen) for item in value]) + OVERHEAD
    if isinstance(value, str):
        return len(value) + OVERHEAD
    if names := _fields(type(value)):
        return sum([_freeze(getattr(value, name), seen) for name in names]) + OVERHEAD
    if isinstance(value, Mapping):
        return sum(_freeze(item, seen) for item in value.values()) + OVERHEAD
    return OVERHEAD


def _fields(kind: type) -> tuple[str, ...]:
    """Return the names of a dataclass's fields, looked up once; none where it is no dataclass."""
    names = _FIELDS.get(kind)
    if names is None:
        held = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
        names = _FIELDS[kind] = tuple(field.name for field in held)
    return names


_FIELDS: dict[type, tuple[str, ...]] = {}
