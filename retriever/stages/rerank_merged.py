"""rerank_merged, tier 2: a linear score over the pool.

    final = sum over features of weight * feature

Core brings `ce_norm` (the cross-encoder's logits, min-max over the pool) and `rank_norm` (the
merged score, alike; 0 for an injected chunk); the plugin brings the other features and the weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from retriever.encoders.cache import CrossEncoder
from retriever.files import InputError
from retriever.hooks import MergedFeatures
from retriever.index.store import Index
from retriever.stages.inject import Injected
from retriever.stages.merge import minmax
from retriever.types import AuditEvent, Booleans, Floats, Ranking, Reranked, Slots

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

Policy = Literal["domain", "general", "none"]
DECIMALS = 12


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
    slots: Slots,
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
    pool = injected.pool
    own = pool & ~injected.injected
    merged_score = np.where(np.isfinite(merged.score), merged.score, 0.0)
    rank_norm = np.where(injected.injected, 0.0, minmax(merged_score, own, equal=0.0))
    audit = [AuditEvent("rerank_merged", "rerank_t2_domain", np.any(pool, axis=1))]
    audit += _passed(injected)
    raw = np.full(pool.shape, np.nan)
    weights = dict(offered.weights)
    if pairs is None:
        weights["ce"] = np.zeros_like(weights["ce"])
        ce_norm = np.zeros(pool.shape)
    else:
        raw, failed = pairs
        ce_norm = np.where(
            failed[:, None], rank_norm, minmax(raw, pool & ~failed[:, None], equal=0.0)
        )
        if failed.any():
            audit.append(AuditEvent("rerank_merged", "cross_encoder_fallback", failed))
    terms = {"ce_norm": ce_norm, "rank_norm": rank_norm, **features}
    final = np.zeros(pool.shape)
    for name, weight in weights.items():
        term = terms[f"{name}_norm"] if name in ("ce", "rank") else terms[name]
        final = final + weight[:, None] * np.where(pool, term, 0.0)
    if structure is not None:
        scale: Floats = np.ones(len(pool))
        if offered.floor_weights:
            scale = np.sum([weights[name] for name in offered.floor_weights], axis=0)
        held = (features["floor"] > 0) & ~np.isnan(structure)
        least = np.where(held, structure * scale[:, None], -np.inf)
        final = np.maximum(final, least)
        terms["structure"] = np.where(held, structure, np.nan)
    final = np.round(final, DECIMALS)
    terms = {name: np.where(pool, term, np.nan) for name, term in terms.items()}
    terms |= {"ce_raw": raw, "final": np.where(pool, final, np.nan)}
    score = np.where(pool, final, np.nan)
    found = _ordered(injected, merged, score, terms, weights, tuple(audit))
    return found if structure is None else replace(found, floor_weights=offered.floor_weights)


def rerank_general(merged: Ranking, injected: Injected, pairs: tuple[Floats, Booleans]) -> Reranked:
    """Order the pool by the general cross-encoder; a query where it failed keeps its order."""
    logits, failed = pairs
    audit = [AuditEvent("rerank_merged", "rerank_t2_general", np.any(injected.pool, axis=1))]
    audit += _passed(injected)
    if failed.any():
        audit.append(AuditEvent("rerank_merged", "cross_encoder_fallback", failed))
    return _ordered(injected, merged, logits, {"ce_raw": logits}, {}, tuple(audit))


def pass_through(merged: Ranking, injected: Injected) -> Reranked:
    """Leave the order as it is."""
    everyone = np.ones(len(injected.count), dtype=np.bool_)
    audit = (AuditEvent("rerank_merged", "rerank_t2_passthrough", everyone),)
    nothing = np.full(injected.pool.shape, np.nan)
    return _ordered(injected, merged, nothing, {}, {}, audit)


def _passed(injected: Injected) -> list[AuditEvent]:
    """Note the queries that tier 2 leaves alone, since they look for images."""
    if injected.stands is None or not injected.stands.any():
        return []
    return [AuditEvent("rerank_merged", "rerank_t2_passthrough", injected.stands)]


def _ordered(
    injected: Injected,
    merged: Ranking,
    score: Floats,
    terms: Mapping[str, Floats],
    weights: Mapping[str, Floats],
    audit: tuple[AuditEvent, ...],
) -> Reranked:
    """Sort by `score` where it is a number, then by the order before; the rest follows."""
    before = injected.order.astype(np.int64)
    falling = np.take_along_axis(-score, before, axis=1)
    falling = np.where(np.isnan(falling), np.inf, falling)
    again = np.argsort(falling, axis=1, kind="stable")
    # What the supplement alone brought has no merged score: it counts 0, as in `rank_norm`.
    alone = injected.injected & ~np.isfinite(merged.score)
    shown = np.where(np.isnan(score), np.where(alone, 0.0, merged.score), score)
    return Reranked(
        order=np.take_along_axis(before, again, axis=1).astype(np.int32),
        count=injected.count,
        score=shown,
        node=injected.node,
        injected=injected.injected,
        pool=injected.pool,
        terms=terms,
        weights=weights,
        audit=audit,
    )


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
