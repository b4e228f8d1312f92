"""What may be the cause of a failure, drawn from the trace; each with the one change that tries it.

A cause is a hypothesis until a replay under its change has let the query pass. One that no change
can try has none, and stays a hypothesis.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from experiments.diagnosis.judging import Judge, Judged
from experiments.failures import Verdict
from experiments.rankings import Block
from gold import GoldQuery
from retriever.config import RetrieverConfig
from retriever.retriever import Retriever
from retriever.stages.understand import intent_of
from retriever.types import Floats, Integers

__all__ = ["Case", "Cause", "Change", "config_causes"]

Status = Literal["hypothesis", "verified"]

# How deep a list is searched to see whether depth is what a query lacks.
DEEP = 1000
# A pool that holds every candidate of any list searched so deep.
WIDE = 100_000
# Numbers of injected chunks to try, so that queries share replays.
INJECTED = (5, 10, 20, 50, 100, 1000)


@dataclass(frozen=True)
class Change:
    """One thing to do differently.

    `overrides` of the configuration by dotted path; `lexicon`, the parts of an overlay; `smiles` of
    documents by id; `sections` of chunks by id; `lift_scope` asks without the query's scope.
    """

    overrides: Mapping[str, Any] = field(default_factory=dict)
    lexicon: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    smiles: Mapping[str, str] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)
    lift_scope: bool = False

    @property
    def key(self) -> str:
        """Canonical JSON: equal changes have equal keys."""
        return json.dumps(self.to_json(), sort_keys=True, ensure_ascii=False)

    @property
    def is_configuration(self) -> bool:
        """Whether it leaves all data as it is."""
        return not (self.lexicon or self.smiles or self.sections or self.lift_scope)

    def to_json(self) -> dict[str, Any]:
        """Return the parts that say something."""
        parts = {
            "overrides": dict(self.overrides),
            "lexicon": {part: [dict(record) for record in v] for part, v in self.lexicon.items()},
            "smiles": dict(self.smiles),
            "sections": dict(self.sections),
            "lift_scope": self.lift_scope,
        }
        return {name: part for name, part in parts.items() if part}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Change":
        """Read what `to_json` gave."""
        return cls(**values)


@dataclass(frozen=True)
class Cause:
    """What may be why a query fails. `about` is the thing to mend, by which advice is grouped."""

    name: str
    advice: str
    evidence: Mapping[str, Any]
    change: Change | None = None
    about: str = ""
    status: Status = "hypothesis"

    def to_json(self) -> dict[str, Any]:
        """Return the cause as it stands in a run directory."""
        return {
            "cause": self.name,
            "status": self.status,
            "evidence": dict(self.evidence),
            "advice": self.advice,
            "change": self.change.to_json() if self.change else None,
            "about": self.about,
        }


@dataclass(frozen=True, eq=False)
class Case:
    """One failing query of a block, with everything that hypotheses are drawn from.

    `parts` are the contributions to the final score, (queries, slots) each.
    """

    query: GoldQuery
    row: int
    verdict: Verdict
    judge: Judge
    judged: Judged
    block: Block
    retriever: Retriever
    parts: Mapping[str, Floats]

    @property
    def config(self) -> RetrieverConfig:
        """The configuration of the run."""
        return self.retriever.config

    @property
    def k(self) -> int:
        """How many results the query is judged by."""
        return int(self.judged.cutoffs[self.row])

    @cached_property
    def pairs(self) -> Integers:
        """Places of this query's relevant units among the pairs of the block."""
        query = self.judged.waterfall.pairs.query
        first, last = np.searchsorted(query, [self.row, self.row + 1])
        return np.arange(first, last, dtype=np.int32)

    @cached_property
    def missing(self) -> Integers:
        """Those of `pairs` that the index holds and the top k lacks."""
        pairs, own = self.judged.waterfall.pairs, self.pairs
        return own[(pairs.unit[own] >= 0) & ~pairs.in_top[own]]

    def best(self, stage: str) -> int:
        """Return the best rank of a missing unit after a stage, 0 for none."""
        ranks = self.judged.waterfall.ranks[stage][self.missing]
        return min((int(rank) for rank in ranks if rank > 0), default=0)

    @cached_property
    def top_slots(self) -> Integers:
        """Slots of the chunks that stand for the first k units."""
        order = self.block.trace.final.order[self.row]
        place = self.block.ranked.place[self.row]
        inside = np.flatnonzero((place > 0) & (place <= self.k))
        _, first = np.unique(place[inside], return_index=True)
        found: Integers = order[inside[first]]
        return found

    @cached_property
    def gold_slot(self) -> int:
        """The slot of the missing unit's chunk that came furthest, -1 where none was retrieved."""
        ranks, slots = (
            self.judged.waterfall.ranks["reranked"][self.missing],
            self.judged.waterfall.slot[self.missing],
        )
        if not (slots >= 0).any():
            return -1
        return int(slots[np.argmin(np.where(slots >= 0, ranks, np.iinfo(np.int32).max))])


def config_causes(case: Case) -> Iterator[Cause]:
    """Yield what the configuration may have done to the query."""
    rules: Mapping[str | None, Sequence[Callable[[Case], Iterator[Cause]]]] = {
        "query_route_gap": (_not_searched,),
        "ranking_gap": (_depth, _searches, _filters, _injection, _merge, _tier_1, _tier_2),
    }
    for rule in rules.get(case.verdict.failure, ()):
        yield from rule(case)


def _not_searched(case: Case) -> Iterator[Cause]:
    held = list(case.judge.index.collections)
    units = case.judged.waterfall.pairs.unit[case.missing]
    lives = [n for n, of in zip(held, case.judge.units.held, strict=True) if of[units].any()]
    suppressed = intent_of(case.block.trace.assemblies[case.row]).suppress_collections
    found = {"gold_collections": lives, "suppressed": [n for n in lives if n in suppressed]}
    if set(lives) <= set(suppressed):
        yield Cause(
            "collection_suppressed",
            f"the intent keeps {', '.join(lives)} out: give the document to a text collection, or "
            "put it in the query's scope",
            found,
            about=", ".join(lives),
        )
        return
    yield Cause(
        "collection_not_routed",
        f"route this kind of query to {', '.join(lives)}",
        found,
        Change({"route.exploratory_search_collections": held}),
        about=", ".join(lives),
    )


def _depth(case: Case) -> Iterator[Cause]:
    if case.verdict.lost_at != "recall":
        return
    config = case.config
    deep = max(DEEP, config.recall.search_depth)
    if config.route.recall_top_k >= deep:
        return
    yield Cause(
        "recall_depth",
        "raise route.recall_top_k",
        {"recall_top_k": config.route.recall_top_k, "tried": deep},
        Change(
            {
                "route.recall_top_k": deep,
                "route.recall_top_k_by_collection": {},
                "recall.search_depth": deep,
            }
        ),
    )


def _searches(case: Case) -> Iterator[Cause]:
    route = case.config.route
    if not route.bm25_search:
        yield Cause(
            "no_bm25_search",
            "search by words, too: route.bm25_search",
            {},
            Change({"route.bm25_search": True}),
        )
    if not route.dense_search:
        yield Cause(
            "no_dense_search",
            "search by meaning, too: route.dense_search",
            {},
            Change({"route.dense_search": True}),
        )


def _filters(case: Case) -> Iterator[Cause]:
    lost = case.verdict.lost_at
    if case.verdict.subclass != "filtered":
        return
    if lost == "scope":
        yield Cause(
            "scope",
            "the query's scope leaves its relevant document out: mend the scope or the "
            "document's kb_name and tags",
            {"scope": {name: list(values) for name, values in case.query.scope.items()}},
            Change(lift_scope=True),
        )
    elif lost == "rerank_plan" and _biomed(case) is not None:
        yield Cause(
            "entity_filter",
            "tier 1 kept only chunks that name the query's drug: "
            "plugins.biomed.rerank_plan.entity_filter=false, or name the drug in the document",
            {},
            Change({"plugins.biomed.rerank_plan.entity_filter": False}),
        )
    elif lost == "merge":
        yield Cause(
            "lists_cut_as_one",
            "the merge read the lists of one model as one and cut them: merge.minmax_over=list, "
            "or a larger recall_top_k",
            {"weights": dict(case.config.merge.weights)},
            Change({"merge.minmax_over": "list", "merge.weights": {}}),
        )


def _injection(case: Case) -> Iterator[Cause]:
    trace, row = case.block.trace, case.row
    place, section = case.best("supplement"), case.config.inject
    if case.verdict.subclass == "not_injected" and place:
        wanted = next(n for n in INJECTED if n >= min(place, INJECTED[-1]))
        yield Cause(
            "too_few_injected",
            f"it is place {place} of the supplement: raise inject.min_new",
            {"supplement_rank": place, "min_new": section.min_new},
            Change({"inject.min_new": max(wanted, section.min_new)}),
        )
    top = case.top_slots
    if len(top) and trace.final.injected[row, top].any():
        yield Cause(
            "displaced_by_injection",
            "injected chunks stand above it: lower inject.min_new",
            {"injected_above": int(trace.final.injected[row, top].sum())},
            Change({"inject.min_new": 0}),
        )
    biomed = _biomed(case)
    if biomed is not None and not biomed.supplement.enabled and trace.assemblies[row].drugs:
        yield Cause(
            "no_supplement",
            "search the documents that the query's drugs name: plugins.biomed.supplement.enabled",
            {"drugs": [drug.name for drug in trace.assemblies[row].drugs]},
            Change({"plugins.biomed.supplement.enabled": True}),
        )


def _merge(case: Case) -> Iterator[Cause]:
    merge = case.config.merge
    if case.verdict.subclass == "lost_in_merge":
        yield Cause(
            "pool_too_small",
            "tier 2 never saw it: raise inject.rerank_pool",
            {"merged_rank": case.best("merged"), "rerank_pool": case.config.inject.rerank_pool},
            Change({"inject.rerank_pool": WIDE}),
        )
    if case.verdict.subclass not in ("lost_in_merge", "lost_in_rerank"):
        return
    ranks = {str(item): case.best(str(item)) for item in case.block.trace.slots.lists}
    for search, other in (("dense", "bm25"), ("bm25", "dense")):
        high = {n: r for n, r in ranks.items() if n.endswith(f":{search}") and 0 < r <= case.k}
        used = any(name.endswith(f":{other}") for name in ranks)
        if high and used:
            yield Cause(
                f"outvoted_by_{other}",
                f"the {search} list has it at rank {min(high.values())}: weigh {other} less "
                "(merge.weights)",
                {"ranks": ranks},
                Change({"merge.weights": {other: 0}}),
            )
    method = "rrf" if merge.method == "minmax" else "minmax"
    yield Cause(
        f"merged_by_{merge.method}",
        f"try merge.method={method}",
        {"merged_rank": case.best("merged")},
        Change({"merge.method": method}),
    )


def _tier_1(case: Case) -> Iterator[Cause]:
    if any("tier1" in one.parts for one in case.block.trace.lists):
        yield Cause(
            "tier_1_order",
            "tier 1 ordered its list anew: try rerank_plan.mode=off",
            {},
            Change({"rerank_plan.mode": "off"}),
        )


def _tier_2(case: Case) -> Iterator[Cause]:
    final, row = case.block.trace.final, case.row
    if case.verdict.subclass != "lost_in_rerank":
        return
    before = case.best("injected")
    if 0 < before <= case.k and final.terms:
        yield Cause(
            "tier_2_order",
            f"it stood at rank {before} before tier 2: look at the weights",
            {"injected_rank": before},
            Change({"rerank_merged.rerank_policy": "none"}),
        )
    slot, top = case.gold_slot, case.top_slots
    if slot < 0 or not len(top) or not final.weights or _biomed(case) is None:
        return
    ahead = {t: np.nan_to_num(part[row, top] - part[row, slot]) for t, part in case.parts.items()}
    total = np.sum(list(ahead.values()), axis=0)
    before = case.judged.ranks["injected"][row]
    for term, by_term in ahead.items():
        gap = float(by_term.max(initial=0.0))
        # What stays ahead without the term keeps the query failing: no use to try.
        rest = np.round(total - by_term, 12)
        stays = (rest > 0) | ((rest == 0) & (before[top] < before[slot]))
        if term in WEIGHTS and gap > 0 and stays.sum() < case.k:
            name = "cross_drug_penalty" if term == "xdrug" else f"out_scored_by_{term}"
            yield Cause(
                name,
                ADVICE[term],
                {"ahead_by": round(gap, 6), "weight": WEIGHTS[term]},
                Change(_all_profiles(case, WEIGHTS[term], 0.0)),
            )


WEIGHTS = {
    "ce_norm": "w_ce",
    "rank_norm": "w_rank",
    "entity": "w_entity",
    "section": "w_section",
    "xdrug": "w_xdrug_penalty",
}
ADVICE = {
    "ce_norm": "the cross-encoder prefers what is above: lower w_ce, or look at the texts",
    "rank_norm": "the merged score decides: lower w_rank, or mend the lists before it",
    "entity": "what is above names the drug and this does not: lower w_entity, or name the drug in "
    "the document",
    "section": "what is above is in the section asked for: lower w_section, or name the section",
    "xdrug": "it is about another drug than the query's, by its stamp: lower w_xdrug_penalty, or "
    "mend the document's name or the lexicon",
}


def _all_profiles(case: Case, weight: str, value: float) -> dict[str, Any]:
    profiles = type(_biomed(case).rerank_merged.profiles).model_fields
    return {f"plugins.biomed.rerank_merged.profiles.{name}.{weight}": value for name in profiles}


def _biomed(case: Case) -> Any:
    """Return the biomedical plugin's settings where it had a say in this query, else None."""
    facts = case.block.trace.assemblies[case.row].facts
    return case.config.plugins["biomed"] if "biomed" in facts else None
