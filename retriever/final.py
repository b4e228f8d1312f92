"""After the merge: what is injected, and tier 2.

Each function gives a node of the graph: a result and the key it is remembered by.
"""

import numpy as np

from retriever.batch_run import BatchRun
from retriever.files import InputError
from retriever.hooks import (
    Assembly,
    Candidates,
    MergedFeatures,
)
from retriever.lists import vectors_of
from retriever.memo import Node, key_of
from retriever.stages.inject import Injected, inject
from retriever.stages.rerank_merged import (
    check_offer,
    choose_policy,
    pass_through,
    read_pairs,
    rerank_domain,
    rerank_general,
)
from retriever.stages.rerank_plan import compare
from retriever.types import (
    Booleans,
    Floats,
    Ranking,
    Reranked,
    Routing,
    Slots,
    Supplement,
)

__all__ = ["inject_supplement", "rerank_pool"]


def inject_supplement(
    run: BatchRun,
    known: Node[tuple[Assembly, ...]],
    slots: Node[Slots],
    merged: Node[Ranking],
    extra: Node[Supplement],
    names: tuple[str, ...],
    routing: Node[Routing],
) -> Node[Injected]:
    """Put supplement chunks in front of the merged order, where the plugin asks for it."""

    def wanted(known: tuple[Assembly, ...], extra: Supplement) -> Booleans:
        there = (extra.rows >= 0).any(axis=1)
        answers = run.subscribers.first(
            "rrf_post_merge", len(known), assemblies=known, supplemented=there
        )
        return np.array([bool(answer) for answer in answers], dtype=np.bool_)

    asked = run.hooked("post_merge", "inject", wanted, known, extra)
    section, is_image = run.config.inject, run.index.is_image

    def put(
        slots: Slots, merged: Ranking, extra: Supplement, wanted: Booleans, routing: Routing
    ) -> Injected:
        images = None
        if is_image is not None:
            images = (slots.chunk >= 0) & is_image[slots.chunk]
        return inject(section, slots, merged, extra, names, wanted, images, routing.visual)

    return run.stage(
        "inject", key_of(section.fingerprint, *names), put, slots, merged, extra, asked, routing
    )


def rerank_pool(
    run: BatchRun,
    known: Node[tuple[Assembly, ...]],
    slots: Node[Slots],
    merged: Node[Ranking],
    injected: Node[Injected],
) -> Node[Reranked]:
    """Order the pool by the policy in force: the domain's, the general one, or none."""
    section = run.config.rerank_merged
    offered: Node[MergedFeatures | None] = run.hooked(
        "rerank_merged",
        "rerank_merged",
        lambda texts, slots, known: run.subscribers.one(
            "rerank_merged",
            "rerank_merged",
            candidates=Candidates(run.index, texts, known, slots.chunk),
        ),
        run.root,
        slots,
        known,
    )
    policy = choose_policy(section.rerank_policy, offered.value)
    if policy == "domain" and offered.value is None:
        raise InputError(
            f"rerank_policy is domain, and no plugin of the namespace {run.config.namespace} "
            "reranks",
            fix="--set rerank_merged.rerank_policy=general",
        )
    if policy == "none" or (policy == "general" and "general" not in run.rerankers):
        return run.stage("pass_through", "", pass_through, merged, injected)
    pairs = read_logits(run, policy, slots, injected)
    if policy == "general":
        return run.stage("rerank_general", "", rerank_general, merged, injected, pairs)
    return rerank_by_domain(run, known, slots, merged, injected, offered, pairs)


def rerank_by_domain(
    run: BatchRun,
    known: Node[tuple[Assembly, ...]],
    slots: Node[Slots],
    merged: Node[Ranking],
    injected: Node[Injected],
    offered: Node[MergedFeatures | None],
    pairs: Node[tuple[Floats, Booleans] | None],
) -> Node[Reranked]:
    bound = offered.value
    assert bound is not None  # noqa: S101 - the caller has looked
    # Features depend on the candidates alone, so they outlive a change of weights.
    features = run.hooked("features", "", lambda *_: dict(bound.features()), slots, known)
    check_offer(bound, features.value, slots.value.chunk.shape)
    structure: Node[Floats | None] = Node("no structure", None)
    name = bound.floor_collection
    if name and name in run.index.collections and name in run.encoders:
        collection, encoder = run.index.collections[name], run.encoder(name)
        structure = run.stage(
            "compare",
            f"{name} slots",
            lambda slots, raw: compare(run.index, collection, encoder, raw, slots.chunk),
            slots,
            vectors_of(run, name, known, raw=True),
        )
    return run.stage(
        "rerank_domain",
        "",
        rerank_domain,
        merged,
        injected,
        offered,
        features,
        pairs,
        structure,
    )


def read_logits(
    run: BatchRun, policy: str, slots: Node[Slots], injected: Node[Injected]
) -> Node[tuple[Floats, Booleans] | None]:
    """Logits of the pool by the policy's cross-encoder; None where there is none."""
    cross = run.rerankers.get(policy)
    if cross is None:
        return Node("no cross-encoder", None)
    return run.stage(
        "cross_encode",
        cross.fingerprint,
        lambda texts, slots, injected: read_pairs(run.index, cross, texts, slots, injected.pool),
        run.root,
        slots,
        injected,
    )
