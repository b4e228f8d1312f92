"""An explanation suffices to work out every later number anew, in scalar Python of its own.

Nothing here is shared with the package: the formulas are those of the documentation, written out
once more over the plain data that `assay search --explain --json` prints. The preset `seed` names
models that have to be downloaded; here it runs with the embedded ones, so its parameters are what
is tested, not its models.
"""

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gold import load
from retriever import Retriever, build_index
from retriever.config import RetrieverConfig, load_config
from retriever.explain import explain

ROOT = Path(__file__).parents[2]
CLOSE = 1e-9
CROSS = ", cross-encoder"
CONFIGURATIONS = {
    "default": (),
    "default, lists alone": ("merge.minmax_over=list",),
    "seed": ("models=embedded",),
    # No cross-encoder is embedded, so a stand-in shows what one does.
    f"default{CROSS}": (),
    f"seed{CROSS}": ("models=embedded", "inject.rerank_pool=5"),
    # What neither preset turns on: words in the dense lists, a small pool and weighted lists.
    "default, small pool": (
        "inject.rerank_pool=7",
        "inject.min_new=3",
        "route.bm25_search=false",
        "rerank_plan.mode=blend",
        "rerank_plan.w=0.3",
        "merge.weights={eagle_chemical:dense: 0.25, dense: 3}",
    ),
    "seed, by source": (
        "models=embedded",
        "merge.rrf_key=source_chunk_id",
        "merge.weights={bm25: 0.5}",
        "route.bm25_search=true",
        "rerank_plan.mode=off",
        "inject.rerank_pool=10",
    ),
}

# The presets answer every query; of the others a third shows the formulas.
PRESETS = ("default", "seed")

Found = dict[str, Any]


class StandInCrossEncoder:
    """No model: a logit drawn from the two texts; it fails on queries of an even length."""

    name = "stand-in-cross-encoder"
    fingerprint = hashlib.sha256(name.encode()).hexdigest()

    def logits(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        if len(query) % 2 == 0:
            raise RuntimeError("out of memory")
        return np.array(
            [hashlib.sha256(f"{query}{text}".encode()).digest()[0] / 16 - 8 for text in texts]
        )


@pytest.fixture(scope="module")
def explained(
    tmp_path_factory: pytest.TempPathFactory, smoke_vectors: Path
) -> dict[str, list[Found]]:
    """Explanations of every smoke query by configuration, as JSON gives them back."""
    folder = tmp_path_factory.mktemp("explain")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("ASSAY_STORE", str(folder / "store"))
    cache = smoke_vectors
    build_index(ROOT / "gold" / "smoke", folder / "index", cache=cache)
    index, config = folder / "index", RetrieverConfig()
    bare = Retriever.open(index, config, cache=cache)
    crossed = Retriever.open(
        index, config, cache=cache, rerankers={"domain": StandInCrossEncoder()}
    )
    texts = [query.text for query in load(ROOT / "gold" / "smoke").queries.values()]
    found = {}
    for name, sets in CONFIGURATIONS.items():
        retriever = crossed if name.endswith(CROSS) else bare
        one = retriever.with_config(load_config(name.partition(",")[0], sets))
        trace = one.trace(texts)
        found[name] = [
            json.loads(json.dumps(explain(one, trace, row), allow_nan=False))
            for row in range(0, len(texts), 1 if name in PRESETS else 3)
        ]
    monkeypatch.undo()
    return found


@pytest.fixture(params=CONFIGURATIONS)
def answers(request: pytest.FixtureRequest, explained: dict[str, list[Found]]) -> list[Found]:
    return explained[request.param]


def close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=0, abs_tol=CLOSE)


def scaled(values: list[float], equal: float) -> list[float]:
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else equal for value in values]


def falling(score: float | None) -> float:
    return math.inf if score is None else -score


def test_list_scores_follow_from_their_parts(answers: list[Found]) -> None:
    hybrid = compared = appended = 0
    for answer in answers:
        alpha = answer["parameters"]["fuse.alpha"]
        mode, w = (answer["parameters"][f"rerank_plan.{name}"] for name in ("mode", "w"))
        for plan in answer["plans"]:
            for hit in plan["hits"]:
                if plan["search"] == "bm25":
                    assert hit["score"] == hit["bm25"]
                    # Scores are rounded to 6 decimals, the shares of their terms are not.
                    assert abs(sum(hit["bm25_terms"].values()) - hit["bm25"]) < 1e-5
                    continue
                if hit["dense"] is None:
                    appended += 1
                    assert hit["combined"] is None
                    base = min(h["combined"] for h in plan["hits"] if h["combined"] is not None)
                elif hit["sparse"] is None:
                    base = hit["dense"]
                else:
                    hybrid += 1
                    base = alpha * hit["dense"] + (1 - alpha) * hit["sparse"]
                    assert 0 <= hit["sparse"] <= 1
                if hit["dense"] is not None:
                    assert close(hit["combined"], base)
                score = base
                if hit["tier1"] is not None:
                    compared += 1
                    score = hit["tier1"] if mode == "replace" else w * hit["tier1"] + (1 - w) * base
                assert close(hit["score"], score)
    by_words = any(plan["search"] == "bm25" for answer in answers for plan in answer["plans"])
    mode = answers[0]["parameters"]["rerank_plan.mode"]
    rrf = answers[0]["parameters"]["merge.method"] == "rrf"
    assert (hybrid > 0, compared > 0, appended > 0) == (not by_words, mode != "off", rrf)


def order_of(hits: list[Found], search: str) -> list[str]:
    """Order of a list: by recall, then combined, then tier 1, each keeping the last at ties."""
    if search == "bm25":
        return [h["chunk_id"] for h in sorted(hits, key=lambda h: (-h["bm25"], h["chunk_id"]))]
    recalled = [h for h in hits if h["dense"] is not None]
    recalled.sort(key=lambda h: (-h["dense"], h["chunk_id"]))
    fused = sorted(recalled, key=lambda h: -h["combined"])
    appended = [h for h in hits if h["dense"] is None]
    if any(h["tier1"] is not None for h in hits):
        every = [*fused, *appended]
        return [h["chunk_id"] for h in sorted(every, key=lambda h: falling(h["score"]))]
    return [h["chunk_id"] for h in [*fused, *appended]]


def test_lists_are_ordered_by_their_scores(answers: list[Found]) -> None:
    for answer in answers:
        for plan in answer["plans"]:
            hits = plan["hits"]
            assert [hit["rank"] for hit in hits] == list(range(1, len(hits) + 1))
            assert [hit["chunk_id"] for hit in hits] == order_of(hits, plan["search"])
            assert len({hit["source_chunk_id"] for hit in hits}) == len(hits)
            for hit in hits:
                assert hit["chunk_id"] == f"{plan['collection']}:{hit['source_chunk_id']}"


def test_filtered_hits_are_shown_at_the_places_they_had(
    answers: list[Found], request: pytest.FixtureRequest
) -> None:
    filtered = 0
    for answer in answers:
        for plan in answer["plans"]:
            every = [hit for hit in (*plan["hits"], *plan["filtered"]) if hit["dense"] is not None]
            before = [hit["chunk_id"] for hit in sorted(every, key=before_tier_1)]
            for hit in plan["filtered"]:
                filtered += 1
                place = before.index(hit["chunk_id"]) + 1 if hit["dense"] is not None else None
                # What was appended stands behind all that was recalled.
                assert hit["rank"] == place or (place is None and hit["rank"] > len(before))
            # A filter that would leave nothing is not applied.
            assert plan["hits"] or not plan["filtered"]
    assert (filtered > 0) == request.node.callspec.params["answers"].startswith("seed")


def before_tier_1(hit: Found) -> tuple[float, float, str]:
    """Sort key of a dense list by combined, then recall's own order."""
    return -hit["combined"], -hit["dense"], hit["chunk_id"]


def groups_of(answer: Found) -> list[list[Found]]:
    """Plans that found something; under min-max over models, those of one model together."""
    parameters = answer["parameters"]
    joint = parameters["merge.method"] == "minmax" and parameters["merge.minmax_over"] == "model"
    groups: dict[str, list[Found]] = defaultdict(list)
    for plan in answer["plans"]:
        name = f"{plan['collection']}:{plan['search']}"
        alone = not joint or f"merge.weights.{name}" in parameters
        if plan["hits"]:
            groups[name if alone else plan["encoder"] or "bm25"].append(plan)
    return list(groups.values())


def group_weights(answer: Found) -> list[float]:
    """Weight of each group: of its list, else its share of its search's, else of 1."""
    given = {
        path.removeprefix("merge.weights."): value
        for path, value in answer["parameters"].items()
        if path.startswith("merge.weights.")
    }
    groups = groups_of(answer)
    searches = [group[0]["search"] for group in groups]
    named = [f"{group[0]['collection']}:{group[0]['search']}" in given for group in groups]
    weights = []
    for group, search, own in zip(groups, searches, named, strict=True):
        if own:
            weights.append(given[f"{group[0]['collection']}:{search}"])
            continue
        sharing = 1
        if answer["parameters"]["merge.method"] == "minmax":
            sharing = sum(s == search and not n for s, n in zip(searches, named, strict=True))
        weights.append(given.get(search, 1.0) / sharing)
    if answer["parameters"]["merge.method"] == "minmax" and sum(weights):
        weights = [weight / sum(weights) for weight in weights]
    return weights


def kept_hits(group: list[Found]) -> list[Found]:
    """Hits of plans that are read as one list, cut to the longest of them."""
    hits = [hit for plan in group for hit in plan["hits"]]
    if len(group) == 1:
        return hits
    best: dict[str, float] = {}
    for hit in hits:
        chunk = hit["source_chunk_id"]
        best[chunk] = max(hit["score"], best.get(chunk, -math.inf))
    length = min(max(len(plan["hits"]) for plan in group), len(best))
    least = sorted(best.values(), reverse=True)[length - 1]
    return [hit for hit in hits if hit["score"] >= least]


def merged_of(answer: Found) -> list[tuple[str, str, float]]:
    """(source chunk, collection, score) from the best, by the scores of the lists alone."""
    parameters = answer["parameters"]
    weights = group_weights(answer)
    by_node: dict[str, float] = defaultdict(float)
    by_source: dict[str, float] = defaultdict(float)
    best: dict[str, int] = {}
    for group, weight in zip(groups_of(answer), weights, strict=True):
        if not weight:
            continue
        hits = kept_hits(group)
        if parameters["merge.method"] == "minmax":
            parts = [weight * s for s in scaled([hit["score"] for hit in hits], 1.0)]
        elif sum(w > 0 for w in weights) == 1:
            parts = [hit["score"] for hit in hits]
        else:
            parts = [weight / (parameters["merge.rrf_k"] + hit["rank"]) for hit in hits]
        once: dict[str, float] = {}
        for hit, part in zip(hits, parts, strict=True):
            by_node[hit["chunk_id"]] += part
            best[hit["chunk_id"]] = min(hit["rank"], best.get(hit["chunk_id"], hit["rank"]))
            once[hit["source_chunk_id"]] = max(part, once.get(hit["source_chunk_id"], part))
        for source, part in once.items():
            by_source[source] += part
    nodes: dict[str, list[str]] = defaultdict(list)
    for node in by_node:
        nodes[node.partition(":")[2]].append(node)
    found = []
    for source, of_source in nodes.items():
        if parameters["merge.rrf_key"] == "source_chunk_id":
            node = min(of_source, key=lambda n: (best[n], n))
            score = by_source[source]
        else:
            node = min(of_source, key=lambda n: (-round(by_node[n], 12), best[n], n))
            score = by_node[node]
        rank = best[node]
        found.append(((-round(score, 12), rank, node), source, node.partition(":")[0], score))
    return [(source, collection, score) for _, source, collection, score in sorted(found)]


def test_weights_follow_from_the_configuration(answers: list[Found]) -> None:
    for answer in answers:
        for group, weight in zip(groups_of(answer), group_weights(answer), strict=True):
            assert all(close(plan["weight"], weight) for plan in group)
        assert all(plan["weight"] == 0 for plan in answer["plans"] if not plan["hits"])


def test_merged_follows_from_the_lists(answers: list[Found]) -> None:
    for answer in answers:
        expected = merged_of(answer)
        shown = [hit for hit in answer["merged"] if not hit["injected"]]
        held = {hit["chunk_id"] for hit in shown}
        rest = [hit for hit in expected if hit[0] in held]
        assert [(hit["chunk_id"], hit["collection"]) for hit in shown] == [h[:2] for h in rest]
        assert all(close(hit["score"], h[2]) for hit, h in zip(shown, rest, strict=True))
        # What is missing from the rest was moved to the front with the score it had.
        moved = {hit["chunk_id"]: hit["score"] for hit in answer["merged"] if hit["injected"]}
        missing = {source: score for source, _, score in expected if source not in held}
        assert missing.keys() <= moved.keys()
        assert all(close(moved[source], score) for source, score in missing.items())
        assert all(moved[source] is None for source in moved.keys() - missing.keys())


def test_injection_and_pool_follow_from_merged_and_supplement(
    answers: list[Found], request: pytest.FixtureRequest
) -> None:
    injections = 0
    for answer in answers:
        size = answer["parameters"]["inject.rerank_pool"]
        before = [source for source, _, _ in merged_of(answer)]
        new: list[str] = []
        if answer["intent"]["require_entity_match"]:
            fresh = [
                hit["chunk_id"]
                for hit in answer["supplement"]
                if hit["chunk_id"] not in before[:size]
            ]
            new = fresh[: answer["parameters"]["inject.min_new"]]
        injections += len(new)
        expected = [*new, *(source for source in before if source not in new)]
        assert [hit["chunk_id"] for hit in answer["merged"]] == expected
        assert [hit["injected"] for hit in answer["merged"]] == [s in new for s in expected]
        assert [hit["pool"] for hit in answer["merged"]] == [i < size for i in range(len(expected))]
    if answers[0]["parameters"]["inject.rerank_pool"] < 100:
        assert injections > 0, f"nothing was injected under {request.node.name}"


def test_supplement_scores_follow_from_their_parts(answers: list[Found]) -> None:
    for answer in answers:
        by_collection: dict[str, list[Found]] = defaultdict(list)
        for hit in answer["supplement"]:
            score = 2 * hit["entity"] + hit["lexical"] + 0.1 * hit["dense"]
            assert close(hit["score"], score)
            by_collection[hit["collection"]].append(hit)
        for hits in by_collection.values():
            ordered = sorted(hits, key=lambda hit: (-hit["score"], hit["chunk_id"]))
            assert [hit["chunk_id"] for hit in hits] == [hit["chunk_id"] for hit in ordered]
    assert any(answer["supplement"] for answer in answers)


def ce_norms(answer: Found, rank_norm: dict[str, float]) -> dict[str, float]:
    """Min-max of the logits; of the merged scores where the cross-encoder failed; 0 without one."""
    raw = {h["chunk_id"]: h["ce_raw"] for h in answer["reranked"] if h["chunk_id"] in rank_norm}
    if any(event["event"] == "cross_encoder_fallback" for event in answer["audit"]):
        assert set(raw.values()) <= {None}
        return rank_norm
    if None in raw.values():
        assert set(raw.values()) == {None}
        return dict.fromkeys(raw, 0.0)
    return dict(zip(raw, scaled(list(raw.values()), 0.0), strict=True))


def test_final_follows_from_terms_and_weights(
    answers: list[Found], request: pytest.FixtureRequest
) -> None:
    raised = penalised = failed = 0
    crossed = request.node.callspec.params["answers"].endswith(CROSS)
    for answer in answers:
        pool = [hit for hit in answer["merged"] if hit["pool"]]
        own = [hit for hit in pool if not hit["injected"]]
        rank_norm = {hit["chunk_id"]: 0.0 for hit in pool}
        if own:
            scores = scaled([hit["score"] for hit in own], 0.0)
            rank_norm |= dict(zip([hit["chunk_id"] for hit in own], scores, strict=True))
        terms = {hit["chunk_id"]: hit for hit in answer["reranked"]}
        weights = answer["weights"]
        floor = 1.0
        if answer["parameters"]["plugins.biomed.rerank_merged.chemical_floor"] == "weighted":
            floor = sum(weights[f"w_{name}"] for name in ("ce", "rank", "entity", "section"))
        assert (weights["w_ce"] > 0) == crossed
        ce_norm = ce_norms(answer, rank_norm)
        fell_back = "cross_encoder_fallback" in {event["event"] for event in answer["audit"]}
        assert fell_back == (crossed and len(answer["query"]) % 2 == 0)
        failed += fell_back
        for source, rank in rank_norm.items():
            hit = terms[source]
            assert close(hit["rank_norm"], rank)
            assert close(hit["ce_norm"], ce_norm[source])
            final = (
                weights["w_ce"] * hit["ce_norm"]
                + weights["w_rank"] * hit["rank_norm"]
                + weights["w_entity"] * hit["entity"]
                + weights["w_section"] * hit["section"]
                - weights["w_xdrug_penalty"] * hit["xdrug"]
            )
            penalised += hit["xdrug"] == 1
            if hit["structure"] is not None:
                assert answer["intent"]["workflow"] == "chemical"
                raised += hit["structure"] * floor > final
                final = max(final, hit["structure"] * floor)
            assert close(hit["final"], final)
            assert hit["score"] == hit["final"]
        outside = {hit["chunk_id"] for hit in answer["merged"]} - rank_norm.keys()
        assert all(terms[source]["final"] is None for source in outside)
    assert raised > 0
    assert (0 < failed < len(answers)) == crossed
    if answers[0]["parameters"]["inject.rerank_pool"] == 100:
        assert penalised > 0


def test_final_order_and_results_follow_from_final(answers: list[Found]) -> None:
    for answer in answers:
        merged = answer["merged"]
        final = {hit["chunk_id"]: hit["final"] for hit in answer["reranked"]}
        pool = [hit["chunk_id"] for hit in merged if hit["pool"]]
        outside = [hit["chunk_id"] for hit in merged if not hit["pool"]]
        # Python's sort is stable: the merged order stands at equal scores.
        expected = [*sorted(pool, key=lambda source: -final[source]), *outside]
        assert [hit["chunk_id"] for hit in answer["reranked"]] == expected
        assert [hit["rank"] for hit in answer["reranked"]] == list(range(1, len(expected) + 1))
        shown = answer["parameters"]["trim.final_top_k"]
        assert [hit["chunk_id"] for hit in answer["results"]] == expected[:shown]
        assert [hit["score"] for hit in answer["results"]] == [
            hit["score"] for hit in answer["reranked"][:shown]
        ]


def test_presets_differ_in_what_an_explanation_shows(explained: dict[str, list[Found]]) -> None:
    default, seed = explained["default"][0]["parameters"], explained["seed"][0]["parameters"]
    name = "plugins.biomed.rerank_merged.profiles.default.w_rank"
    assert (default["merge.method"], seed["merge.method"]) == ("minmax", "rrf")
    assert (default["merge.rrf_key"], seed["merge.rrf_key"]) == ("source_chunk_id", "node_id")
    assert (default["rerank_plan.mode"], seed["rerank_plan.mode"]) == ("off", "replace")
    assert default[name] > seed[name] == 0
