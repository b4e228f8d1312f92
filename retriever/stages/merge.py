"""merge: several lists become one order.

Reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009) adds up w / (k + rank); min-max fusion
adds up each list's own scores brought to [0, 1], with weights that sum to 1.

`gather` (a module of its own) brings the lists side by side and needs no weight and no `rrf_k`;
`weigh` is then a weighted sum and one sort, so that a change of weights costs no more than that.
"""

from collections.abc import Sequence

import numpy as np

from retriever.config import MergeConfig
from retriever.order import DECIMALS, STEPS, by_steps, in_steps
from retriever.stages.gather import FAR, Gathered, find_members, find_places, gather
from retriever.types import Floats, Integers, RankedList, Ranking, Slots

__all__ = ["merge", "weigh"]


def merge(
    section: MergeConfig,
    slots: Slots,
    lists: Sequence[RankedList],
    names: Sequence[str],
    models: Sequence[str],
) -> Ranking:
    """Fuse the lists of every query into one total order over its slots: gather, then weigh."""
    members = find_members(lists)
    places = find_places(slots, members)
    return weigh(section, gather(section, places, members, lists, names, models))


def weigh(section: MergeConfig, gathered: Gathered) -> Ranking:
    """Fuse the lists of every query into one total order over its slots.

    Order: score descending, then the best rank in any list, then node id. Keyed by node, the
    better node stands for its chunk and the others are dropped.
    """
    places, weight = gathered.places, _weights(section, gathered)
    queries, width = places.slot.shape
    several = gathered.several
    by_node = np.zeros(gathered.best.shape)
    total = np.zeros((queries, places.width))
    for layer in gathered.layers:
        part = layer.part
        if section.method == "rrf":
            part = 1.0 / (section.rrf_k + part)
            part[gathered.alone] = layer.alone
        # Its lists weigh the same, but for the empty ones.
        of_group = weight[list(gathered.groups[layer.group])].max(axis=0)
        part = of_group[:, None] * part
        total += part
        if len(several):
            by_node[layer.collection] += part.ravel().take(several)
    row = np.arange(queries, dtype=np.int64)[:, None]
    slot, node = places.slot[:, : places.width], gathered.node
    earlier = gathered.nearest
    if len(several):
        total.ravel()[several], rank, chosen = _best_node(by_node, gathered.best)
        earlier, node = earlier.copy(), node.copy()
        earlier.ravel()[several] = rank << np.int32(gathered.node_bits) | chosen
        node.ravel()[(row * width + slot).ravel()[several]] = chosen
    steps = in_steps(total)
    order = row * places.width + by_steps(steps, gathered.inside, earlier)
    slot = np.ascontiguousarray(slot).ravel().take(order)
    retrieved = np.arange(places.width) < gathered.count[:, None]
    ranked = np.where(retrieved, steps.ravel().take(order), -np.inf)
    ranked /= STEPS
    ordered = places.slot.copy()
    ordered[:, : places.width] = slot
    return Ranking(
        order=ordered,
        count=gathered.count,
        ranked=ranked,
        node=node,
        weight=weight,
        audit=gathered.audit,
    )


def _best_node(by_node: Floats, best: Integers) -> tuple[Floats, Integers, Integers]:
    """Return the better node of some chunks by score, then rank: its score, rank and collection.

    `by_node` and `best` are (collections, chunks), the rank `FAR` where a node lacks a chunk.
    """
    holds = best < FAR
    rounded = np.where(holds, np.round(by_node, DECIMALS), -np.inf)
    top = rounded == rounded.max(axis=0)
    node = np.where(top & holds, best, FAR).argmin(axis=0)[None]
    score, rank = np.take_along_axis(by_node, node, axis=0), np.take_along_axis(best, node, axis=0)
    return score[0], rank[0], node[0].astype(np.int32)


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
