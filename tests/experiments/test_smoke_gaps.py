"""The bundled set under the defaults, and its six known gaps: taken away, and mended one by one."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.metrics import term_coverage
from experiments.rankings import run_blocks
from gold import GoldSet, load, read_corpus
from retriever import Query, Retriever, RetrieverConfig, build_index, load_config
from retriever.biomed.lexicon import load_lexicon
from retriever.pipeline import Trace

SMOKE = Path(__file__).parents[2] / "gold" / "smoke"
OVERLAYS = "plugins.biomed.lexicon.overlays"
K = 5


@dataclass(frozen=True)
class World:
    """The set, its texts, and a retriever under the defaults and under gaps.yaml."""

    gold: GoldSet
    texts: Mapping[str, str]
    cache: Path
    default: Retriever
    gaps: Retriever

    def rankings(self, retriever: Retriever, only: str = "") -> dict[str, list[str]]:
        """Documents of each query, best first."""
        asked = [
            Query(query.text, query_id)
            for query_id, query in self.gold.queries.items()
            if query_id.startswith(only)
        ]
        ids, found = retriever.index.chunks.document_ids, {}
        for block in run_blocks(retriever, asked, "document", 100):
            for query, units in zip(asked[block.start :], block.ranked.units, strict=False):
                found[query.query_id] = [ids[unit] for unit in units[units >= 0]]
        return found

    def passing(self, retriever: Retriever) -> set[str]:
        """Gap queries with a relevant document and all expected terms in the top 5."""
        passed = set()
        for query_id, ranking in self.rankings(retriever, only="gap-").items():
            top = ranking[:K]
            terms = self.gold.queries[query_id].expected_terms
            covered = term_coverage(terms, [self.texts[document_id] for document_id in top])
            if covered == 1 and set(top) & set(self.gold.qrels[query_id]):
                passed.add(query_id)
        return passed


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, smoke_vectors: Path) -> World:
    folder = tmp_path_factory.mktemp("smoke")
    cache, opened = smoke_vectors, {}
    for name, config in (
        ("default", RetrieverConfig()),
        ("gaps", load_config(SMOKE / "gaps.yaml")),
    ):
        index = build_index(SMOKE, folder / name, config, cache=cache).index
        opened[name] = Retriever.open(index, config, cache=cache)
    texts = {d.document_id: f"{d.title}\n{d.text}" for d in read_corpus(SMOKE)}
    return World(load(SMOKE), texts, cache, **opened)


@pytest.fixture(scope="module")
def gap_queries(world: World) -> dict[str, Mapping[str, Any]]:
    return {
        query_id: query.metadata["gap"]
        for query_id, query in world.gold.queries.items()
        if "gap" in query.metadata
    }


@pytest.mark.parametrize("source", ["default", str(SMOKE / "all-stages.yaml")])
def test_set_is_answered_when_asked_under_the_shipped_configurations(
    world: World, source: str
) -> None:
    ranks = []
    for query_id, ranking in world.rankings(world.default.with_config(load_config(source))).items():
        relevant = world.gold.qrels[query_id]
        ranks.append(next((r for r, d in enumerate(ranking, 1) if d in relevant), 1000))
    assert np.mean([rank <= K for rank in ranks]) >= 0.85
    assert np.mean([1 / rank if rank <= 10 else 0 for rank in ranks]) >= 0.75


def test_no_stage_is_off_when_all_are_meant_to_be_on() -> None:
    config = load_config(SMOKE / "all-stages.yaml")
    on = (
        config.route.bm25_search,
        config.route.parent_doc_retrieval,
        config.rerank_plan.mode != "off",
        config.inject.min_new,
        config.plugins["biomed"].expand.expand_collections,
        config.plugins["biomed"].rerank_plan.entity_filter,
        config.plugins["biomed"].supplement.enabled,
        config.rerank_merged.rerank_policy is None,
    )
    assert all(on)


def test_gap_queries_pass_when_nothing_is_taken_away(world: World, gap_queries) -> None:
    assert world.passing(world.default) == set(gap_queries)


def test_gap_queries_fail_when_the_data_are_taken_away(world: World, gap_queries) -> None:
    assert len(gap_queries) == 6
    assert world.passing(world.gaps) == set()


def test_one_gap_query_passes_when_its_datum_is_mended(
    world: World, gap_queries, tmp_path: Path
) -> None:
    for query_id, gap in gap_queries.items():
        mended = mend(world, gap["mend"], tmp_path / query_id)
        assert world.passing(mended) == {query_id}, query_id


def mend(world: World, datum: Mapping[str, Any], folder: Path) -> Retriever:
    """Give back one datum, as a gap query's metadata names it, and leave all others away."""
    if "switch" in datum:
        config = world.gaps.config.with_overrides({datum["switch"]: datum["value"]})
        return world.gaps.with_config(config)
    folder.mkdir()
    if "document" in datum:
        return with_structure(world, datum["document"], folder)
    overlay = json.loads((SMOKE / "gaps-lexicon.json").read_text("utf-8"))
    left = {
        "remove": [entity for entity in overlay["remove"] if entity != datum["id"]],
        "change": [change for change in overlay["change"] if change["id"] != datum["id"]],
    }
    assert sum(map(len, left.values())) == sum(map(len, overlay.values())) - 1
    (folder / "overlay.json").write_text(json.dumps(left))
    config = world.gaps.config.with_overrides({OVERLAYS: [str(folder / "overlay.json")]})
    return world.gaps.with_config(config)


def with_structure(world: World, document_id: str, folder: Path) -> Retriever:
    """Index the set anew with the SMILES that the shipped lexicon has for a card's drug."""
    drug = load_lexicon().entity("drug:" + document_id.removeprefix("compound-"))
    lines = []
    for line in (SMOKE / "corpus.jsonl").read_text("utf-8").splitlines():
        document = json.loads(line)
        if document["_id"] == document_id:
            assert "smiles" not in document["metadata"]
            document["metadata"]["smiles"] = drug.smiles[0]
        lines.append(json.dumps(document, ensure_ascii=False))
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    shutil.copytree(SMOKE / "images", folder / "images")
    config = world.gaps.config
    index = build_index(folder, folder / "index", config, cache=world.cache).index
    return Retriever.open(index, config, cache=world.cache)


# --- the reason why each fails ---------------------------------------------------------------


def test_gap_query_fails_for_the_stated_reason_when_its_trace_is_read(
    world: World, gap_queries
) -> None:
    reasons: dict[tuple[str, str | None], Callable[[Trace, Sequence[int]], bool]] = {
        ("query_route_gap", None): lambda trace, rows: not searched(world, trace, rows),
        ("ranking_gap", "not_recalled"): lambda trace, rows: (
            searched(world, trace, rows) and not listed(trace, rows)
        ),
        ("ranking_gap", "lost_in_rerank"): lambda trace, rows: (
            best_rank(trace, trace.merged, rows) <= K < best_rank(trace, trace.final, rows)
        ),
    }
    for query_id, gap in gap_queries.items():
        trace = world.gaps.trace([world.gold.queries[query_id].text])
        chunks = world.gaps.index.chunks
        rows = chunks.rows_of_documents(list(world.gold.qrels[query_id])).tolist()
        assert reasons[gap["class"], gap["subclass"]](trace, rows), query_id


def searched(world: World, trace: Trace, rows: Sequence[int]) -> bool:
    """Tell whether a collection that was searched holds any of some chunks."""
    collections = world.gaps.index.collections
    names = {one.item.collection for one in trace.lists}
    return any((collections[name].places_of(np.array(rows)) >= 0).any() for name in names)


def listed(trace: Trace, rows: Sequence[int]) -> bool:
    """Tell whether any list holds any of some chunks down to its depth, before any filter."""
    depth = 20
    return any(np.isin(found.rows[0, :depth], rows).any() for found in trace.found)


def best_rank(trace: Trace, ranking: Any, rows: Sequence[int]) -> int:
    """Return the best rank of some chunks."""
    order = trace.slots.chunk[0, ranking.order[0, : ranking.count[0]]]
    return int(np.flatnonzero(np.isin(order, rows))[0]) + 1
