"""rerank_merged, tier 2: a linear score over the pool.

    final = sum over features of weight * feature

Core brings `ce_norm` (the cross-encoder's logits, min-max over the pool) and `rank_norm` (the
merged score, alike; 0 for an injected chunk); the plugin brings the other features and the weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from retriever.encoders.cache import CrossEncoder
from retriever.files import InputError
from retriever.hooks import MergedFeatures
from retriever.index.store import Index
from retriever.order import DECIMALS, by_score
from retriever.stages.inject import Injected
from retriever.stages.scale import minmax
from retriever.types import (
    AuditEvent,
    Booleans,
    FinalScores,
    Floats,
    Integers,
    Ranking,
    Reranked,
    Slots,
)

__all__ = [
    "Policy",
    "check_offer",
    "check_shapes",
    "choose_policy",
    "pass_through",
    "read_pairs",
    "rerank_domain",
    "rerank_general",
]

T = TypeVar("T", bound=np.generic)

Policy = Literal["domain", "general", "none"]


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """The pool's places of the injected order, as wide as the largest pool.

    `order` (queries, slots) has the pool in front, in its own order, what is outside behind it;
    `spot` (queries, places) points into a flattened matrix by slot; `inside` marks the pool.
    """

    order: Integers
    spot: npt.NDArray[np.int64]
    inside: Booleans
    shape: tuple[int, int]

    @classmethod
    def of(cls, injected: Injected) -> "Pooled":
        """Return the pool of an order."""
        queries, width = injected.pool.shape
        pooled = np.count_nonzero(injected.pool, axis=1)
        places = int(pooled.max(initial=0))
        row = np.arange(queries, dtype=np.int64)[:, None] * width
        order = injected.order
        if injected.images is not None:
            # Images stand between the texts; without any the pool is the head of the order.
            outside = ~injected.pool.ravel().take(row + order)
            front = np.argsort(outside, axis=1, kind="stable")
            order = np.take_along_axis(order, front, axis=1)
        inside = np.arange(places) < pooled[:, None]
        return cls(order, row + order[:, :places], inside, (queries, width))

    def take(self, by_slot: npt.NDArray[T]) -> npt.NDArray[T]:
        """Return the pool's columns of a matrix by slot."""
        return by_slot.ravel().take(self.spot)


@dataclass(frozen=True, eq=False)
class Features:
    """A plugin's matrices by slot, which the stage that computed them keeps."""

    is_shared: ClassVar[bool] = True  # results point to it, and the memo does not count it
    by_slot: Mapping[str, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class PoolTerms(Mapping[str, Floats]):
    """The terms of tier 2 by name, laid over the slots when read; NaN outside the pool.

    `features` are the plugin's, `columns` what Core made, kept for the pool. Diagnosis reads
    them; a trial of a sweep never does.
    """

    features: Features
    columns: Mapping[str, Floats]
    pooled: Pooled

    def __getitem__(self, name: str) -> Floats:
        laid = np.full(self.pooled.shape, np.nan)
        inside = self.pooled.inside
        own = self.columns.get(name)
        column = self.pooled.take(self.features.by_slot[name]) if own is None else own
        laid.ravel()[self.pooled.spot[inside]] = column[inside]
        return laid

    def __iter__(self) -> Iterator[str]:
        return iter({**self.features.by_slot, **self.columns})

    def __len__(self) -> int:
        return len(self.features.by_slot.keys() | self.columns.keys())


def read_pairs(
    index: Index, cross: CrossEncoder, texts: Sequence[str], slots: Slots, pool: Booleans
) -> tuple[Floats, Booleans]:
    """Return logits (queries, slots), NaN outside the pool, and which queries failed.

    A query fails when the cross-encoder raises, or gives another number of scores or one that is
    not finite. A model that cannot be loaded is no failure of a query: its error goes through.
    """
    found = np.full(slots.chunk.shape, np.nan)
    failed = np.zeros(len(texts), dtype=np.bool_)
    for q, text in enumerate(texts):
        inside = np.flatnonzero(pool[q])
        if not len(inside):
            continue
        contents = index.chunks.values("text", slots.chunk[q, inside])
        try:
            logits = np.asarray(cross.logits(text, contents), dtype=np.float64)
        except InputError:
            raise
        except Exception:  # noqa: BLE001 - any fault of a model fails over, counted in the audit
            failed[q] = True
            continue
        if logits.shape != (len(inside),) or not np.isfinite(logits).all():
            failed[q] = True
            continue
        found[q, inside] = np.round(logits, 6)
    return found, failed


def rerank_domain(
    merged: Ranking,
    injected: Injected,
    offered: MergedFeatures,
    features: Mapping[str, Floats],
    pairs: tuple[Floats, Booleans] | None,
    structure: Floats | None,
) -> Reranked:
    """Order the pool by the plugin's weights; what is outside follows in merged order.

    Without a cross-encoder the weight `ce` counts as 0. Where it failed, the merged score takes
    its place for that query, and the audit says so.
    """
    pooled = Pooled.of(injected)
    inside = pooled.inside
    # What the supplement brought has no merged score to compare.
    scored = inside & ~pooled.take(injected.injected)
    merged_score = _merged_of_pool(merged, injected, pooled)
    finite = np.where(np.isfinite(merged_score), merged_score, 0.0)
    rank_norm = minmax(finite, scored, equal=0.0)
    audit = [AuditEvent("rerank_merged", "rerank_t2_domain", np.any(inside, axis=1))]
    audit += _passed(injected)
    weights = dict(offered.weights)
    raw = np.broadcast_to(np.nan, inside.shape)
    ce_norm = np.broadcast_to(0.0, inside.shape)
    if pairs is None:
        weights["ce"] = np.zeros_like(weights["ce"])
    else:
        failed = pairs[1]
        raw = pooled.take(pairs[0])
        ce_norm = np.where(
            failed[:, None], rank_norm, minmax(raw, inside & ~failed[:, None], equal=0.0)
        )
        if failed.any():
            audit.append(AuditEvent("rerank_merged", "cross_encoder_fallback", failed))
    columns = {"ce_norm": ce_norm, "rank_norm": rank_norm, "ce_raw": raw}
    final = np.zeros(inside.shape)
    for name, weight in weights.items():
        if weight.any():
            own = f"{name}_norm" if name in ("ce", "rank") else name
            final += weight[:, None] * (
                columns[own] if own in columns else pooled.take(features[own])
            )
    if structure is not None:
        scale: Floats = np.ones(len(inside))
        if offered.floor_weights:
            scale = np.sum([weights[name] for name in offered.floor_weights], axis=0)
        cosine = pooled.take(structure)
        held = (pooled.take(features["floor"]) > 0) & ~np.isnan(cosine)
        final = np.maximum(final, np.where(held, cosine * scale[:, None], -np.inf))
        columns["structure"] = np.where(held, cosine, np.nan)
    columns["final"] = final = np.where(inside, np.round(final, DECIMALS), np.nan)
    terms = PoolTerms(Features(features), columns, pooled)
    found = _ordered(injected, merged, pooled, final, terms, weights, tuple(audit))
    return found if structure is None else replace(found, floor_weights=offered.floor_weights)


def rerank_general(merged: Ranking, injected: Injected, pairs: tuple[Floats, Booleans]) -> Reranked:
    """Order the pool by the general cross-encoder; a query where it failed keeps its order."""
    failed = pairs[1]
    pooled = Pooled.of(injected)
    logits = np.where(pooled.inside, pooled.take(pairs[0]), np.nan)
    audit = [AuditEvent("rerank_merged", "rerank_t2_general", np.any(pooled.inside, axis=1))]
    audit += _passed(injected)
    if failed.any():
        audit.append(AuditEvent("rerank_merged", "cross_encoder_fallback", failed))
    terms = PoolTerms(Features({}), {"ce_raw": logits}, pooled)
    return _ordered(injected, merged, pooled, logits, terms, {}, tuple(audit))


def pass_through(merged: Ranking, injected: Injected) -> Reranked:
    """Leave the order as it is."""
    everyone = np.ones(len(injected.count), dtype=np.bool_)
    audit = (AuditEvent("rerank_merged", "rerank_t2_passthrough", everyone),)
    return Reranked(
        order=injected.order,
        count=injected.count,
        scores=FinalScores(
            merged, injected.injected, injected.order[:, :0], np.zeros((len(injected.count), 0))
        ),
        node=injected.node,
        injected=injected.injected,
        pool=injected.pool,
        terms={},
        weights={},
        audit=audit,
    )


def _passed(injected: Injected) -> list[AuditEvent]:
    """Note the queries that tier 2 leaves alone, since they look for images."""
    if injected.stands is None or not injected.stands.any():
        return []
    return [AuditEvent("rerank_merged", "rerank_t2_passthrough", injected.stands)]


def _ordered(
    injected: Injected,
    merged: Ranking,
    pooled: Pooled,
    score: Floats,
    terms: PoolTerms,
    weights: Mapping[str, Floats],
    audit: tuple[AuditEvent, ...],
) -> Reranked:
    """Sort by `score` where it is a number, then by the order before; the rest follows.

    `score` are columns of the pool.
    """
    queries, places = score.shape
    width = pooled.shape[1]
    numbers = ~np.isnan(score)
    again = np.arange(queries, dtype=np.int64)[:, None] * width + by_score(score, numbers)
    order = pooled.order.copy()
    order[:, :places] = pooled.order.ravel().take(again)
    return Reranked(
        order=order,
        count=injected.count,
        scores=FinalScores(merged, injected.injected, pooled.order[:, :places], score),
        node=injected.node,
        injected=injected.injected,
        pool=injected.pool,
        terms=terms,
        weights=weights,
        audit=audit,
    )


def _merged_of_pool(merged: Ranking, injected: Injected, pooled: Pooled) -> Floats:
    """Return the merged scores of the pool, (queries, places), -inf where there is none.

    The pool is the head of the merged order behind what was put in front of it, which came from
    outside the pool and has no score to compare. Images stand between the texts: with them each
    chunk's score is looked up.
    """
    if injected.images is not None:
        return pooled.take(merged.score)
    queries, places = pooled.inside.shape
    width = merged.ranked.shape[1]
    before = np.arange(places) - np.count_nonzero(injected.injected, axis=1)[:, None]
    there = (before >= 0) & (before < width)
    row = np.arange(queries, dtype=np.int64)[:, None] * width
    if not there.any():
        return np.full(there.shape, -np.inf)
    return np.where(there, merged.ranked.ravel().take(row + before, mode="clip"), -np.inf)


def choose_policy(asked: Policy | None, offered: MergedFeatures | None) -> Policy:
    """Return the policy in force: unset, the domain's where a plugin has one, else general."""
    if asked is not None:
        return asked
    return "general" if offered is None else "domain"


def check_offer(
    offered: MergedFeatures, features: Mapping[str, Floats], shape: tuple[int, ...]
) -> None:
    """Refuse what a plugin offers for tier 2 when it does not fit the candidates."""
    check_shapes("rerank_merged", features, shape)
    check_shapes("rerank_merged", offered.weights, shape[:1])
    featureless = sorted(offered.weights.keys() - {"ce", "rank", *features})
    if featureless:
        raise ValueError(f"rerank_merged gave weights without a feature: {featureless}")
    weightless = sorted({"ce", "rank", *offered.floor_weights} - offered.weights.keys())
    if weightless:
        raise ValueError(f"rerank_merged gave no weights for: {weightless}")
    if offered.floor_collection is not None and "floor" not in features:
        raise ValueError("rerank_merged gave a floor_collection and no feature floor")


def check_shapes(hook: str, given: Mapping[str, Floats | Booleans], shape: tuple[int, ...]) -> None:
    """Refuse a plugin's matrix of another shape than the candidates'."""
    for name, values in given.items():
        if values.shape != shape:
            raise ValueError(f"{hook} gave {name} of shape {values.shape}, expected {shape}")
