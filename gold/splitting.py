"""Divide judged queries: splits that stay put as a set grows, folds for a set that is small.

Queries that share a relevant document form a group and stay together, since a method tuned on one
of them has seen the answer to the other.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gold.faults import InputError
from gold.leakage import relevant_documents
from gold.model import GoldQuery, Qrels

CROSS_VALIDATION_BELOW: Final = 150
"""With fewer queries a split is too small to tell two systems apart; folds take its place."""


@dataclass(frozen=True, slots=True)
class Splits:
    """Where each query goes.

    `assignment` maps query_id to a split's name in the queries' order; `groups` counts the groups
    kept together, `largest_group` their biggest in queries; `by_type` maps a split to its queries
    by type. `notes` says in words what is off: too few queries, an empty split.
    """

    assignment: Mapping[str, str]
    groups: int
    largest_group: int
    by_type: Mapping[str, Mapping[str, int]]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A query that two assignments put into different splits."""

    query_id: str
    before: str
    after: str


def make_splits(
    queries: Mapping[str, GoldQuery],
    qrels: Qrels,
    fractions: Mapping[str, float],
    seed: str = "",
    *,
    relevant_from: int = 1,
    keep_together: bool = True,
) -> Splits:
    """Divide queries among the splits of `fractions` (name -> share, summing to 1).

    Within each type the groups stand in the order of the SHA-256 of `seed` and their smallest
    query id, and each goes to the split in whose share its middle falls, counted in queries. So
    every type is divided by `fractions` to within a group at each border, nothing depends on the
    order of the input, and an added query moves only groups that touch a border (see `moved`) or
    that it joins. The shares of each type start at a point of their own, so that types of one
    query do not all land in one split. A group's type is its commonest, the first by name of
    equals. Raises `InputError` for shares that are not positive or do not sum to 1, and for no
    query at all.
    """
    if not queries:
        raise InputError("there is no query to split")
    if not fractions or not all(0 < share <= 1 for share in fractions.values()):
        raise InputError(f"each share must be above 0 and at most 1, got {dict(fractions)}")
    if not math.isclose(math.fsum(fractions.values()), 1.0, abs_tol=1e-9):
        raise InputError(f"the shares must sum to 1, got {math.fsum(fractions.values())}")
    groups = _groups(queries, qrels, relevant_from, keep_together)
    names, borders = list(fractions), list(itertools.accumulate(fractions.values()))
    placed: dict[str, str] = {}
    for kind, of_kind in _by_type(groups, queries).items():
        total = sum(map(len, of_kind))
        before = 0
        for group in sorted(of_kind, key=lambda members: _hash(seed, "group", members[0])):
            middle = ((before + len(group) / 2) / total + _hash(seed, "type", kind)) % 1.0
            before += len(group)
            at = next((i for i, border in enumerate(borders) if middle < border), len(names) - 1)
            placed.update(dict.fromkeys(group, names[at]))
    assignment = {query_id: placed[query_id] for query_id in queries}
    return Splits(
        assignment,
        groups=len(groups),
        largest_group=max(map(len, groups)),
        by_type={name: _types_of(name, assignment, queries) for name in names},
        notes=_notes(assignment, fractions),
    )


def folds(
    queries: Mapping[str, GoldQuery],
    qrels: Qrels,
    k: int,
    seed: str = "",
    *,
    relevant_from: int = 1,
) -> tuple[tuple[str, ...], ...]:
    """Divide queries into k folds for cross-validation; each fold's ids in the queries' order.

    Groups go one by one, the largest first and equals by hash, to the fold that has fewest queries
    of the group's type, then fewest queries. So folds are disjoint in relevant documents, balanced
    by type and never empty. Raises `InputError` for k below 2 or above the number of groups.
    """
    groups = _groups(queries, qrels, relevant_from, keep_together=True)
    if not 2 <= k <= len(groups):
        message = f"{k} folds of {len(queries)} queries in {len(groups)} groups cannot be made"
        fix = f"take 2 to {len(groups)}; a group shares documents"
        if len(groups) < 2:
            fix = "judge queries about other documents: a group shares them"
        raise InputError(message, fix=fix)
    type_of = {group[0]: kind for kind, some in _by_type(groups, queries).items() for group in some}
    by_type: list[Counter[str]] = [Counter() for _ in range(k)]
    fold_of: dict[str, int] = {}
    for group in sorted(groups, key=lambda m: (-len(m), _hash(seed, "group", m[0]), m[0])):
        kind = type_of[group[0]]
        fold = min(range(k), key=lambda i: (by_type[i][kind], by_type[i].total(), i))
        by_type[fold][kind] += len(group)
        fold_of.update(dict.fromkeys(group, fold))
    return tuple(tuple(q for q in queries if fold_of[q] == fold) for fold in range(k))


def moved(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Move, ...]:
    """Return the queries of both assignments whose split differs, in the order of `before`."""
    return tuple(
        Move(query_id, split, after[query_id])
        for query_id, split in before.items()
        if query_id in after and after[query_id] != split
    )


def _groups(
    queries: Mapping[str, GoldQuery], qrels: Qrels, relevant_from: int, keep_together: bool
) -> list[tuple[str, ...]]:
    """Return the groups, each sorted by query id: connected by shared relevant documents."""
    parent = {query_id: query_id for query_id in queries}

    def root(query_id: str) -> str:
        while parent[query_id] != query_id:
            parent[query_id] = parent[parent[query_id]]
            query_id = parent[query_id]
        return query_id

    if keep_together:
        first_with: dict[str, str] = {}
        for query_id, relevant in relevant_documents(qrels, relevant_from).items():
            if query_id in parent:
                for document_id in relevant:
                    other = root(first_with.setdefault(document_id, query_id))
                    parent[root(query_id)] = other
    members: dict[str, list[str]] = {}
    for query_id in queries:
        members.setdefault(root(query_id), []).append(query_id)
    return [tuple(sorted(group)) for group in members.values()]


def _by_type(
    groups: Iterable[tuple[str, ...]], queries: Mapping[str, GoldQuery]
) -> dict[str, list[tuple[str, ...]]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for group in groups:
        types = Counter(queries[query_id].type for query_id in group)
        kind = min(types, key=lambda name: (-types[name], name))
        found.setdefault(kind, []).append(group)
    return found


def _hash(*parts: str) -> float:
    """Return a number in [0, 1) that depends on the texts alone."""
    digest = hashlib.sha256("\0".join(parts).encode("utf-8")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def _types_of(
    name: str, assignment: Mapping[str, str], queries: Mapping[str, GoldQuery]
) -> dict[str, int]:
    types = Counter(queries[q].type for q, split in assignment.items() if split == name)
    return dict(sorted(types.items()))


def _notes(assignment: Mapping[str, str], fractions: Mapping[str, float]) -> tuple[str, ...]:
    notes: list[str] = []
    many = len(assignment)
    if many < CROSS_VALIDATION_BELOW:
        notes.append(
            f"{'1 query is' if many == 1 else f'{many} queries are'} too few to split "
            f"(under {CROSS_VALIDATION_BELOW}): cross-validation takes its place"
        )
    empty = [name for name in fractions if name not in set(assignment.values())]
    notes += [f"split {name} is empty: no group's share reaches it" for name in empty]
    return tuple(notes)
