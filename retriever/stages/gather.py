"""gather: a batch's lists side by side, with all that their fusion needs but the weights.

Three steps, each remembered by itself. `find_members` says what of each list enters the fusion;
`find_places` gives the chunks so found a table of their own, narrower than the slots, and says
where in it each list's chunks stand; `gather` brings the lists' scores and ranks. A change of
scores alone, as by `fuse.alpha`, leaves the places as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from retriever.config import MergeConfig
from retriever.memo import key_of
from retriever.stages.scale import minmax_together
from retriever.types import AuditEvent, Booleans, Floats, Integers, ListId, RankedList, Slots

__all__ = [
    "FAR",
    "Gathered",
    "Members",
    "Places",
    "find_members",
    "find_places",
    "gather",
    "gather_key",
]

FAR = np.iinfo(np.int32).max
Spots = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """What of each list is in it, (queries, places) list by list; `key` names the content.

    A list found deeper than it counts has no member in its last places: those are left out here
    and in all that follows.
    """

    collection: tuple[str, ...]
    member: tuple[Booleans, ...]
    key: str


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The chunks of a batch's lists, as wide as the query with the most.

    `slot` (queries, slots) has a query's chunks first, by slot, then its other slots; its first
    `width` columns are the places. `spot` (queries, depth) says, list by list, where each entry
    stands in a flat table (queries, width + 1), whose last column takes what is no member.
    `repeated` (queries,) marks queries with a chunk found in several collections.
    """

    slot: Integers
    width: int
    spot: tuple[Spots, ...]
    repeated: Booleans


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One summand of the fusion: what the lists of a group say in some or all collections.

    `part` (queries, places) is what it adds at weight 1: a score brought to [0, 1] for min-max,
    the rank for RRF (infinite where absent). `alone` is the list's own score for the queries
    `Gathered.alone`, which have no other list. `collection` counts the names, -1 for all.
    """

    group: int
    collection: int
    part: Floats
    alone: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """A batch's lists side by side: all that fusion needs but the weights.

    `nearest` (queries, places) is the best rank and its node in one number, the node in the last
    `node_bits`, by which equal scores go; `inside` marks the places retrieved, `count` of them.
    `several` points into the flat places whose chunk several nodes hold and stand apart for, and
    `best` (collections, several) has their best ranks by node. `node` is by slot.
    """

    items: tuple[ListId, ...]
    groups: tuple[tuple[int, ...], ...]
    filled: Booleans
    alone: Integers
    places: Places
    layers: tuple[Layer, ...]
    nearest: Integers
    node_bits: int
    inside: Booleans
    count: Integers
    several: Spots
    best: Integers
    node: Integers
    audit: tuple[AuditEvent, ...]


def gather_key(section: MergeConfig, names: Sequence[str], models: Sequence[str]) -> str:
    """Return what this step reads beside its tables: all of the section but how large it weighs."""
    weights = [f"{name} {weight > 0}" for name, weight in sorted(section.weights.items())]
    parts = (section.method, section.minmax_over, section.rrf_key)
    return key_of(*parts, str(weights), str(list(names)), str(list(models)))


def find_members(lists: Sequence[RankedList]) -> Members:
    """Say what of each list is in it."""
    member = tuple(_without_end(one.rank > 0) for one in lists)
    names = tuple(one.item.collection for one in lists)
    content = [part for one in member for part in (str(one.shape), np.packbits(one).tobytes())]
    return Members(names, member, key_of(str(names), *content))


def _without_end(member: Booleans) -> Booleans:
    """Leave out the last places, which no query has a member in."""
    used = np.flatnonzero(member.any(axis=0))
    return np.ascontiguousarray(member[:, : used[-1] + 1 if len(used) else 0])


def find_places(slots: Slots, members: Members) -> Places:
    """Give the chunks that enter the fusion a table of their own."""
    queries, width = slots.chunk.shape
    row = np.arange(queries, dtype=np.int64)[:, None]
    # What is no member points past the last slot.
    pointer = [
        row * (width + 1) + np.where(member, one[:, : member.shape[1]], width)
        for one, member in zip(slots.pointer, members.member, strict=False)
    ]
    found = np.zeros((queries, width + 1), dtype=np.int8)
    for name in sorted(set(members.collection)):
        held = np.zeros((queries, width + 1), dtype=np.bool_)
        for at, own in zip(pointer, members.collection, strict=True):
            if own == name:
                held.ravel()[at] = True
        found += held
    brought = found[:, :width] > 0
    nth = np.cumsum(brought, axis=1, dtype=np.int32)
    count = nth[:, -1:] if width else np.zeros((queries, 1), dtype=np.int32)
    places = int(count.max(initial=0))
    place = np.full((queries, width + 1), places, dtype=np.int32)
    np.subtract(nth, 1, out=place[:, :width])
    # The chunks stand first, by slot, then the other slots: they are put behind by one high bit.
    bits = np.int32(width.bit_length())
    slot = np.arange(width, dtype=np.int32) | (~brought).astype(np.int32) << bits
    slot.sort(axis=1)
    slot &= (np.int32(1) << bits) - np.int32(1)
    spot = tuple(row * (places + 1) + place.ravel().take(at) for at in pointer)
    return Places(slot, places, spot, np.any(found[:, :width] > 1, axis=1))


def gather(
    section: MergeConfig,
    places: Places,
    members: Members,
    lists: Sequence[RankedList],
    names: Sequence[str],
    models: Sequence[str],
) -> Gathered:
    """Bring the lists of every query side by side over the places of their chunks.

    A slot is a source chunk. Where several collections hold it, `rrf_key` decides: keyed by
    source chunk their parts add up, keyed by node they stay apart. `names` are the collections
    that `node` counts, in order; `models` says whose scores each list holds. A list of weight 0
    is left out. Of the weights nothing else is read.
    """
    queries, width = places.slot.shape
    table = (queries, places.width + 1)
    counted = [m.shape[1] for m in members.member]
    scores = [one.score[:, :end] for one, end in zip(lists, counted, strict=True)]
    ranks = [one.rank[:, :end] for one, end in zip(lists, counted, strict=True)]
    spot, by_node = places.spot, section.rrf_key == "node_id" and len(names) > 1
    collection = tuple(names.index(name) for name in members.collection)
    groups = _groups(section, lists, models)
    member = _weighing(section, lists, groups, members.member)
    repeated = places.repeated
    least: list[Floats | None] = []
    for group in groups:
        own = [spot[i] for i in group] if repeated.any() else None
        entered = [member[i] for i in group]
        cut, end = _as_one([scores[i] for i in group], entered, own, table)
        # Of lists that were full before the cut, all that it left out scores less than the end.
        least.append(end if all(m.all() for m in entered) else None)
        for i, inside in zip(group, cut, strict=True):
            member[i] = inside
    if repeated.any():
        repeated = _repeated(member, spot, collection, table)
    there = np.array([m.any(axis=1) for m in member], dtype=np.int32).reshape(-1, queries)
    lonely = np.flatnonzero(there.sum(axis=0) == 1) if section.method == "rrf" else _NOBODY

    def spread(some: Sequence[int], values: Mapping[int, Floats], empty: float) -> Floats:
        """Lay lists over the places; where several hold a chunk, the largest value counts."""
        laid = np.full(table, empty)
        flat = laid.ravel()
        for i in some:
            value = values[i]
            if i != some[0] and places.repeated.any():
                value = np.maximum(flat.take(spot[i]), value)
            flat[spot[i]] = value
        return laid[:, : places.width]

    layers: list[Layer] = []
    for g, group in enumerate(groups):
        entered = [member[i] for i in group]
        if section.method == "minmax":
            empty, scaled = 0.0, minmax_together([scores[i] for i in group], entered, least[g])
        else:
            empty, scaled = (
                np.inf,
                [np.where(m, ranks[i], np.inf) for i, m in zip(group, entered, strict=True)],
            )
        values = dict(zip(group, scaled, strict=True))
        # What one model says of a chunk counts once, however many of its collections hold it.
        for some in [(i,) for i in group] if by_node else [group]:
            alone = np.zeros((0, places.width))
            if len(lonely):
                own_scores = {i: np.where(member[i], scores[i], 0.0) for i in some}
                alone = spread(some, own_scores, 0.0)[lonely]
            of = collection[some[0]] if by_node else -1
            layers.append(Layer(g, of, spread(some, values, empty), alone))

    node_bits = len(names).bit_length()
    cut_from = [None if m is whole else m for m, whole in zip(member, members.member, strict=True)]
    nearest, far = _nearest(places, ranks, cut_from, collection, node_bits)
    retrieved = nearest < far
    several, best = _NOBODY, np.zeros((len(names), 0), dtype=np.int32)
    if by_node:
        several, best = _held_apart(places, member, ranks, collection, len(names))
    node = np.full((queries, width), -1, dtype=np.int32)
    row = np.arange(queries, dtype=np.int64)[:, None] * width
    of_place = (nearest & np.int32((1 << node_bits) - 1)) - ~retrieved
    node.ravel()[row + places.slot[:, : places.width]] = of_place
    filled = np.array([m.any(axis=1) for m in members.member], dtype=np.bool_)
    return Gathered(
        items=tuple(one.item for one in lists),
        groups=groups,
        filled=filled.reshape(-1, queries),
        alone=lonely.astype(np.int32),
        places=places,
        layers=tuple(layers),
        nearest=nearest,
        node_bits=node_bits,
        inside=retrieved,
        count=np.count_nonzero(retrieved, axis=1).astype(np.int32),
        several=several,
        best=best,
        node=node,
        audit=(AuditEvent("merge", "rrf_dedupe", repeated),) if repeated.any() else (),
    )


def _nearest(
    places: Places,
    ranks: Sequence[Integers],
    left: Sequence[Booleans | None],
    collection: Sequence[int],
    node_bits: int,
) -> tuple[Integers, np.int32]:
    """Return the best rank in any list with its node behind it, and what stands for no rank.

    `left` says what a cut has left of each list, None where nothing was cut.
    """
    deepest = max((int(rank.max(initial=0)) for rank in ranks), default=0)
    far = np.int32((deepest + 1) << node_bits)
    laid = np.full((len(places.slot), places.width + 1), far, dtype=np.int32)
    flat = laid.ravel()
    for i, (rank, inside, spot) in enumerate(zip(ranks, left, places.spot, strict=True)):
        near = rank << np.int32(node_bits)
        near |= np.int32(collection[i])
        if inside is not None:
            near = np.maximum(near, far * ~inside)
        flat[spot] = near if i == 0 else np.minimum(near, flat.take(spot))
    return laid[:, : places.width], far


_NOBODY = np.zeros(0, dtype=np.int64)


def _weighing(
    section: MergeConfig,
    lists: Sequence[RankedList],
    groups: Sequence[Sequence[int]],
    member: Sequence[Booleans],
) -> list[Booleans]:
    """Return the members of the lists that weigh; of the others none, and so for their groups."""
    given: Mapping[str, float] = section.weights
    left = list(member)
    for group in groups:
        item = lists[group[0]].item
        if not given.get(str(item), given.get(item.search, 1.0)) > 0:
            for i in group:
                left[i] = np.zeros_like(member[i])
    return left


def _groups(
    section: MergeConfig, lists: Sequence[RankedList], models: Sequence[str]
) -> tuple[tuple[int, ...], ...]:
    """Return which lists are read as one: those of one model, but for lists weighted by name."""
    joint = section.method == "minmax" and section.minmax_over == "model"
    groups: dict[str, list[int]] = {}
    for i, (one, model) in enumerate(zip(lists, models, strict=True)):
        own = not joint or str(one.item) in section.weights
        groups.setdefault(str(one.item) if own else f"model {model}", []).append(i)
    return tuple(tuple(group) for group in groups.values())


def _as_one(
    scores: Sequence[Floats],
    member: Sequence[Booleans],
    spot: Sequence[Spots] | None,
    table: tuple[int, int],
) -> tuple[list[Booleans], Floats | None]:
    """Cut lists that are read as one to the length of the longest of them, by score.

    That is what one list over all their chunks would hold: else the tail of a small collection
    would set the scale for all. A chunk that several of them hold counts once; `spot` says where
    each stands in a flat table of that shape, None where no chunk is repeated. The second answer
    is the least score left, (queries, 1), None where nothing was cut.
    """
    if len(scores) == 1:
        return list(member), None
    # Falling scores rise, so that the first of a sort are the best.
    rising = [
        -score if m.all() else np.where(m, -score, np.inf)
        for m, score in zip(member, scores, strict=True)
    ]
    if spot is None:
        joint = np.concatenate(rising, axis=1)
    else:
        joint = np.full(table, np.inf)
        for own, at in zip(rising, spot, strict=True):
            joint.ravel()[at] = np.minimum(joint.ravel()[at], own)
    if not joint.shape[1]:
        return list(member), None
    longest = np.max([np.count_nonzero(m, axis=1) for m in member], axis=0)
    last = np.clip(longest - 1, 0, joint.shape[1] - 1)
    if (last == last[0]).all():
        joint.partition(int(last[0]), axis=1)
    else:
        joint.sort(axis=1)
    least = -joint[np.arange(len(last)), last][:, None]
    return [m & (score >= least) for m, score in zip(member, scores, strict=True)], least


def _held_apart(
    places: Places,
    member: Sequence[Booleans],
    ranks: Sequence[Integers],
    collection: Sequence[int],
    names: int,
) -> tuple[Spots, Integers]:
    """Return the flat places whose chunk several collections hold, and its ranks (names, those).

    Few queries have any, so only those are looked at.
    """
    queries = np.flatnonzero(places.repeated)
    if not len(queries):
        return _NOBODY, np.zeros((names, 0), dtype=np.int32)
    held = np.full((names, len(queries), places.width + 1), FAR, dtype=np.int32)
    shift = (np.arange(len(queries)) - queries)[:, None] * (places.width + 1)
    for inside, rank, spot, own in zip(member, ranks, places.spot, collection, strict=True):
        layer, at = held[own].ravel(), spot[queries] + shift
        found = np.where(inside[queries], rank[queries], FAR)
        layer[at] = np.minimum(layer.take(at), found)
    held = held[..., : places.width]
    query, place = np.nonzero(np.count_nonzero(held < FAR, axis=0) > 1)
    return queries[query] * places.width + place, held[:, query, place]


def _repeated(
    member: Sequence[Booleans],
    spot: Sequence[Spots],
    collection: Sequence[int],
    table: tuple[int, int],
) -> Booleans:
    """Tell for which queries a chunk was found in several collections, (queries,)."""
    found = np.zeros(table, dtype=np.int8)
    for one in sorted(set(collection)):
        held = np.zeros(table, dtype=np.bool_)
        for inside, at, own in zip(member, spot, collection, strict=True):
            if own == one:
                held.ravel()[at[inside]] = True
        found += held
    several: Booleans = np.any(found[:, :-1] > 1, axis=1)
    return several
