"""merge: several lists become one order.

Reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009) adds up w / (k + rank); min-max fusion
adds up each list's own scores brought to [0, 1], with weights that sum to 1.

Two steps. `gather` brings the lists side by side and needs no weight and no `rrf_k`; `weigh` is
then a weighted sum of matrices and one sort, so that a change of weights costs no more than that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from retriever.config import MergeConfig
from retriever.memo import key_of
from retriever.order import DECIMALS, by_score
from retriever.types import (
    AuditEvent,
    Booleans,
    Floats,
    Integers,
    ListId,
    RankedList,
    Ranking,
    Slots,
)

__all__ = ["Gathered", "gather", "gather_key", "merge", "minmax", "weigh"]

FAR = np.iinfo(np.int32).max


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

    `slot` (queries, slots) lists the slots retrieved, `count` of them, by best rank, then node,
    then slot: the order that equal scores keep; then the others. The columns of a layer, and of
    `best` (collections, queries, places), are the first places of `slot`. `node` is by slot.
    """

    items: tuple[ListId, ...]
    groups: tuple[tuple[int, ...], ...]
    filled: Booleans
    alone: Integers
    slot: Integers
    count: Integers
    layers: tuple[Layer, ...]
    best: Integers
    node: Integers
    audit: tuple[AuditEvent, ...]


def gather_key(section: MergeConfig, names: Sequence[str], models: Sequence[str]) -> str:
    """Return what `gather` reads beside its tables: all of the section but how large it weighs."""
    weights = [f"{name} {weight > 0}" for name, weight in sorted(section.weights.items())]
    parts = (section.method, section.minmax_over, section.rrf_key)
    return key_of(*parts, str(weights), str(list(names)), str(list(models)))


def merge(
    section: MergeConfig,
    slots: Slots,
    lists: Sequence[RankedList],
    names: Sequence[str],
    models: Sequence[str],
) -> Ranking:
    """Fuse the lists of every query into one total order over its slots: gather, then weigh."""
    return weigh(section, gather(section, slots, lists, names, models))


def gather(
    section: MergeConfig,
    slots: Slots,
    lists: Sequence[RankedList],
    names: Sequence[str],
    models: Sequence[str],
) -> Gathered:
    """Bring the lists of every query side by side over its slots.

    A slot is a source chunk. Where several collections hold it, `rrf_key` decides: keyed by
    source chunk their parts add up, keyed by node they stay apart. `names` are the collections
    that `node` counts, in order; `models` says whose scores each list holds. A list of weight 0
    is left out. Of the weights nothing else is read.
    """
    queries, width = slots.chunk.shape
    groups = _groups(section, lists, models)
    filled = _filled(lists, queries)
    heavy = _has_weight(section, lists, groups, filled)
    member = [(one.rank > 0) & on[:, None] for one, on in zip(lists, heavy, strict=True)]
    row = np.arange(queries)[:, None] * (width + 1)
    place = [row + pointer for pointer in slots.pointer[: len(lists)]]
    collection = [names.index(one.item.collection) for one in lists]
    repeated = _repeated(member, place, collection, (queries, width))
    for group in groups:
        cut = _as_one(
            [lists[i].score for i in group],
            [member[i] for i in group],
            [place[i] for i in group] if repeated.any() else None,
            width + 1,
        )
        for i, inside in zip(group, cut, strict=True):
            member[i] = inside
    if repeated.any():
        repeated = _repeated(member, place, collection, (queries, width))
    there = np.array([m.any(axis=1) for m in member], dtype=np.int32).reshape(-1, queries)
    lonely = np.flatnonzero(there.sum(axis=0) == 1) if section.method == "rrf" else _NOBODY

    # Best rank and collection in one number; the last column takes the padding.
    node_bits = len(names).bit_length()
    far = (1 + max((int(one.rank.max(initial=0)) for one in lists), default=0)) << node_bits
    nearest = np.full(queries * (width + 1), far, dtype=np.int32)
    for i, one in enumerate(lists):
        near = np.where(member[i], one.rank << node_bits | collection[i], far).astype(np.int32)
        nearest[place[i]] = np.minimum(nearest[place[i]], near)
    nearest = nearest.reshape(queries, width + 1)[:, :width]
    retrieved = nearest < far
    slot = _earliest_first(nearest, far)
    count = retrieved.sum(axis=1).astype(np.int32)
    places = int(count.max(initial=0))
    # Where each slot stands among the first places; one more column takes all others.
    at = np.full(queries * (width + 1), places, dtype=np.int64)
    at[row + slot[:, :places]] = np.arange(places)
    spot = [np.arange(queries)[:, None] * (places + 1) + at[one] for one in place]

    def spread(some: Sequence[int], values: Mapping[int, Floats], empty: float) -> Floats:
        """Lay lists over the places; where several hold a chunk, the largest value counts."""
        laid = np.full(queries * (places + 1), empty)
        for i in some:
            value = np.where(member[i], values[i], empty)
            laid[spot[i]] = value if i == some[0] else np.maximum(laid[spot[i]], value)
        return np.ascontiguousarray(laid.reshape(queries, places + 1)[:, :places])

    by_node = section.rrf_key == "node_id" and len(names) > 1
    layers: list[Layer] = []
    for g, group in enumerate(groups):
        scores = {i: lists[i].score for i in group}
        empty, values = np.inf, {i: lists[i].rank.astype(np.float64) for i in group}
        if section.method == "minmax":
            scaled = _scaled(list(scores.values()), [member[i] for i in group])
            empty, values = 0.0, dict(zip(group, scaled, strict=True))
        # What one model says of a chunk counts once, however many of its collections hold it.
        for some in [[i] for i in group] if by_node else [group]:
            alone = spread(some, scores, 0.0)[lonely] if len(lonely) else np.zeros((0, places))
            of = collection[some[0]] if by_node else -1
            layers.append(Layer(g, of, spread(some, values, empty), alone))
    best = np.zeros((0, queries, places), dtype=np.int32)
    if by_node:
        held = np.full((len(names), queries * (places + 1)), FAR, dtype=np.int32)
        for i, one in enumerate(lists):
            layer = held[collection[i]]
            layer[spot[i]] = np.minimum(layer[spot[i]], np.where(member[i], one.rank, FAR))
        best = held.reshape(len(names), queries, places + 1)[..., :places]
    node = np.where(retrieved, nearest & np.int32((1 << node_bits) - 1), np.int32(-1))
    return Gathered(
        items=tuple(one.item for one in lists),
        groups=tuple(map(tuple, groups)),
        filled=filled,
        alone=lonely.astype(np.int32),
        slot=slot,
        count=count,
        layers=tuple(layers),
        best=best,
        node=node,
        audit=(AuditEvent("merge", "rrf_dedupe", repeated),) if repeated.any() else (),
    )


def weigh(section: MergeConfig, gathered: Gathered) -> Ranking:
    """Fuse the lists of every query into one total order over its slots.

    Order: score descending, then the best rank in any list, then node id. Keyed by node, the
    better node stands for its chunk and the others are dropped.
    """
    weight = _weights(section, gathered)
    queries, width = gathered.slot.shape
    places = gathered.layers[0].part.shape[1] if gathered.layers else 0
    by_node = np.zeros((len(gathered.best), queries, places))
    total = np.zeros((queries, places))
    for layer in gathered.layers:
        part = layer.part
        if section.method == "rrf":
            part = 1.0 / (section.rrf_k + part)
            part[gathered.alone] = layer.alone
        # Its lists weigh the same, but for the empty ones.
        of_group = weight[list(gathered.groups[layer.group])].max(axis=0)
        part = of_group[:, None] * part
        if layer.collection < 0:
            total += part
        else:
            by_node[layer.collection] += part
    slot = gathered.slot[:, :places]
    row = np.arange(queries, dtype=np.int64)[:, None] * width
    inside = np.arange(places) < gathered.count[:, None]
    node, ties = gathered.node, None
    if len(by_node):
        total, ties, chosen = _best_node(by_node, gathered.best)
        node = node.copy()
        node.ravel()[(row + slot)[inside]] = chosen[inside]
    total = np.where(inside, np.round(total, DECIMALS), -np.inf)
    order = by_score(total, inside, None if ties is None else ties * width + slot)
    score = np.full((queries, width), -np.inf)
    score.ravel()[row + slot] = total
    ordered = gathered.slot.copy()
    ordered[:, :places] = np.take_along_axis(slot, order, axis=1)
    return Ranking(
        order=ordered,
        count=gathered.count,
        score=score,
        node=node,
        weight=weight,
        audit=gathered.audit,
    )


_NOBODY = np.zeros(0, dtype=np.int64)


def _repeated(
    member: Sequence[Booleans],
    place: Sequence[npt.NDArray[np.int64]],
    collection: Sequence[int],
    shape: tuple[int, int],
) -> Booleans:
    """Tell for which queries a chunk was found in several collections, (queries,)."""
    queries, width = shape
    found = np.zeros(queries * (width + 1), dtype=np.int8)
    for one in sorted(set(collection)):
        held = np.zeros(len(found), dtype=np.bool_)
        for i in (i for i, other in enumerate(collection) if other == one):
            held[place[i][member[i]]] = True
        found += held
    several: Booleans = np.any(found.reshape(queries, width + 1)[:, :width] > 1, axis=1)
    return several


def _earliest_first(nearest: Integers, far: int) -> Integers:
    """Return the slots by best rank, node and slot, those not retrieved last by slot."""
    width = nearest.shape[1]
    bits = int(width).bit_length()
    # One integer holds all three, and one sort of numbers gives their order.
    small = (far + 1) << bits < 2**31
    key: npt.NDArray[np.signedinteger[Any]]
    key = nearest.astype(np.int32) if small else nearest.astype(np.int64)
    key <<= bits
    key |= np.arange(width, dtype=key.dtype)
    key.sort(axis=1)
    key &= (1 << bits) - 1
    return key.astype(np.int32, copy=False)


def _best_node(by_node: Floats, best: Integers) -> tuple[Floats, Integers, Integers]:
    """Return, by chunk, the better node's score, its place among equals, and its collection."""
    holds = best < FAR
    rounded = np.where(holds, np.round(by_node, DECIMALS), -np.inf)
    top = rounded == rounded.max(axis=0)
    node = np.where(top & holds, best, FAR).argmin(axis=0)
    total = np.take_along_axis(by_node, node[None], axis=0)[0]
    rank = np.take_along_axis(best, node[None], axis=0)[0]
    return total, np.minimum(rank, 2**24).astype(np.int64) * len(best) + node, node.astype(np.int32)


def _groups(
    section: MergeConfig, lists: Sequence[RankedList], models: Sequence[str]
) -> list[list[int]]:
    """Return which lists are read as one: those of one model, but for lists weighted by name."""
    joint = section.method == "minmax" and section.minmax_over == "model"
    groups: dict[str, list[int]] = {}
    for i, (one, model) in enumerate(zip(lists, models, strict=True)):
        own = not joint or str(one.item) in section.weights
        groups.setdefault(str(one.item) if own else f"model {model}", []).append(i)
    return list(groups.values())


def _as_one(
    scores: Sequence[Floats],
    member: Sequence[Booleans],
    place: Sequence[npt.NDArray[np.int64]] | None,
    columns: int,
) -> list[Booleans]:
    """Cut lists that are read as one to the length of the longest of them, by score.

    That is what one list over all their chunks would hold: else the tail of a small collection
    would set the scale for all. A chunk that several of them hold counts once; `place` says where
    each stands in a flat table of so many columns, None where no chunk is repeated.
    """
    if len(scores) == 1:
        return list(member)
    inside = [np.where(m, score, -np.inf) for m, score in zip(member, scores, strict=True)]
    queries = len(inside[0])
    if place is None:
        joint = np.concatenate(inside, axis=1)
    else:
        joint = np.full(queries * columns, -np.inf)
        for own, at in zip(inside, place, strict=True):
            joint[at] = np.maximum(joint[at], own)
        joint = joint.reshape(queries, columns)
    if not joint.shape[1]:
        return list(member)
    rising = -joint
    longest = np.max([m.sum(axis=1) for m in member], axis=0)
    last = np.clip(longest - 1, 0, joint.shape[1] - 1)
    if (last == last[0]).all():
        rising.partition(int(last[0]), axis=1)
    else:
        rising.sort(axis=1)
    least = -np.take_along_axis(rising, last[:, None], axis=1)
    return [m & (score >= least) for m, score in zip(member, scores, strict=True)]


def _scaled(scores: Sequence[Floats], member: Sequence[Booleans]) -> list[Floats]:
    """Bring the lists of one group to [0, 1] together."""
    if len(scores) == 1:
        return [minmax(scores[0], member[0])]
    ends = [_ends(score, inside) for score, inside in zip(scores, member, strict=True)]
    low, high = np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)
    return [_between(s, inside, low, high, 1.0) for s, inside in zip(scores, member, strict=True)]


def minmax(score: Floats, member: Booleans, equal: float = 1.0) -> Floats:
    """Bring each row of scores to [0, 1] over its members; outside 0.

    Members that all score the same get `equal`: 1 in the merge, 0 in tier 2.
    """
    return _between(score, member, *_ends(score, member), equal)


def _ends(score: Floats, member: Booleans) -> tuple[Floats, Floats]:
    """Return the least and the largest score of each row's members, (queries, 1) each."""
    low: Floats = np.where(member, score, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    high: Floats = np.where(member, score, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    return low, high


def _between(score: Floats, member: Booleans, low: Floats, high: Floats, equal: float) -> Floats:
    with np.errstate(invalid="ignore"):
        span = high - low
        spread = span > 0
        scaled = (score - low) / np.where(spread, span, 1.0)
    if not spread.all():
        scaled = np.where(spread, scaled, equal)
    return np.where(member, scaled, 0.0)


def _filled(lists: Sequence[RankedList], queries: int) -> Booleans:
    """Which lists brought something, (lists, queries)."""
    found = [(one.rank > 0).any(axis=1) for one in lists]
    return np.array(found, dtype=np.bool_).reshape(-1, queries)


def _has_weight(
    section: MergeConfig,
    lists: Sequence[RankedList],
    groups: Sequence[Sequence[int]],
    filled: Booleans,
) -> Booleans:
    """Which lists enter the fusion, (lists, queries): those that brought something and weigh."""
    given: Mapping[str, float] = section.weights
    heavy = np.zeros(filled.shape, dtype=np.bool_)
    for group in groups:
        item = lists[group[0]].item
        weighs = given.get(str(item), given.get(item.search, 1.0)) > 0
        heavy[list(group)] = filled[list(group)] & weighs
    return heavy


def _weights(section: MergeConfig, gathered: Gathered) -> Floats:
    """Weight of each list for each query, (lists, queries); 0 where the list is empty.

    Under min-max the weights of the groups sum to 1, and a weight given by search (`dense`) is the
    search's as a whole, shared equally by those of its groups that have no weight of their own.
    """
    filled, groups = gathered.filled, [list(group) for group in gathered.groups]
    queries = filled.shape[1]
    there = np.array([filled[group].any(axis=0) for group in groups], dtype=np.bool_)
    there = there.reshape(len(groups), queries)
    weight = np.zeros(there.shape)
    given = section.weights
    first = [gathered.items[group[0]] for group in groups]
    for search in ("dense", "bm25"):
        unnamed = [item.search == search and str(item) not in given for item in first]
        shared = there & np.array(unnamed, dtype=np.bool_)[:, None]
        sharing = shared.sum(axis=0) if section.method == "minmax" else np.ones(queries)
        weight = np.where(shared, given.get(search, 1.0) / np.maximum(sharing, 1), weight)
    for g, item in enumerate(first):
        if str(item) in given:
            weight[g] = np.where(there[g], given[str(item)], 0.0)
    if section.method == "minmax":
        total = weight.sum(axis=0)
        weight = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
    by_list = np.zeros(filled.shape)
    for g, group in enumerate(groups):
        by_list[group] = np.where(filled[group], weight[g], 0.0)
    return by_list
