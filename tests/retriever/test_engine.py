"""One engine: a memo, no memo, one query at a time and shared slots all give the same."""

import dataclasses
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import HashedWords

from retriever import InputError, Query, Retriever, RetrieverConfig, build_index
from retriever.encoders.molecule import MorganStructures
from retriever.memo import BATCHES, Asked, Memo
from retriever.pipeline import Trace
from retriever.types import ListId

GENERAL = RetrieverConfig(namespace="general")
ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
WORDS = ["EGFR", "warnings", "dose", "label", "il-2", "tumour", "aspirin", "gefitinib", "Iressa"]
WORDS += ["x", "the", "compound", "combination", "osimertinib"]
SETTINGS = {
    "merge.method": ["rrf", "minmax"],
    "merge.rrf_k": [0, 1, 60],
    "merge.rrf_key": ["source_chunk_id", "node_id"],
    "merge.weights": [{}, {"dense": 0.7, "bm25": 0.3}, {"bm25": 0.0}, {"eagle_text:dense": 3.0}],
    "route.recall_top_k": [1, 3, 20],
    "route.bm25_search": [True, False],
    "recall.search_depth": [100, 150],
    "trim.final_top_k": [1, 5],
}
BIOMED_SETTINGS = {
    **SETTINGS,
    "route.parent_doc_retrieval": [True, False],
    "fuse.alpha": [0.0, 0.6, 1.0],
    "fuse.sparse_method": ["overlap", "bm25"],
    "fuse.fuse_with_bm25_plan": [True, False],
    "rerank_plan.mode": ["replace", "blend", "off"],
    "inject.min_new": [0, 2],
    "inject.rerank_pool": [2, 100],
    "rerank_merged.rerank_policy": [None, "none", "general"],
    "plugins.biomed.route.default_dual_text_search": ["auto", True, False],
    "plugins.biomed.route.chemical_searches_text": [True, False],
    "plugins.biomed.rerank_plan.entity_filter": [True, False],
    "plugins.biomed.supplement.enabled": [True, False],
    "plugins.biomed.rerank_merged.profiles.drug_entity.w_xdrug_penalty": [0, 3],
    "plugins.biomed.rerank_merged.chemical_floor": ["weighted", "bare"],
}
EVERY_LIST = tuple(
    ListId(name, search)
    for name in ("eagle_chemical", "eagle_text", "eagle_text_biomed")
    for search in ("bm25", "dense")
    if (name, search) != ("eagle_chemical", "bm25")
)

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
corpora = st.lists(texts, min_size=1, max_size=25)
batches = st.lists(st.one_of(texts, st.just("zzz"), st.just(ASPIRIN)), min_size=1, max_size=6)


def configurations(values: dict[str, list[object]]) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({}, optional={k: st.sampled_from(v) for k, v in values.items()})


def opened(corpus: list[str], folder: Path, config: RetrieverConfig = GENERAL) -> Retriever:
    """Every other document is general by its metadata, every third one has a structure."""
    (folder / "corpus").mkdir(parents=True)
    records = [
        {
            "_id": f"d{i:02}",
            "text": text,
            "metadata": {
                "domain": ["biomedical", "general"][i % 2],
                "name": text.split()[0],
                **({"smiles": ASPIRIN + "C" * (i % 4)} if i % 3 == 0 else {}),
            },
        }
        for i, text in enumerate(corpus)
    ]
    lines = "\n".join(json.dumps(record) for record in records)
    (folder / "corpus" / "corpus.jsonl").write_text(lines, "utf-8")
    encoders = {"eagle_text": HashedWords()}
    if config.namespace == "biomed":
        encoders |= {"eagle_text_biomed": HashedWords(seed=1), "eagle_chemical": MorganStructures()}
    build_index(folder / "corpus", folder / "index", config, encoders=encoders)
    return Retriever.open(folder / "index", config, encoders=encoders)


def content(trace: Trace, row: int) -> list[tuple[object, ...]]:
    """All that a trace says of one query, without the layout of its slots."""
    spread = {str(item): trace.by_slot(i) for i, item in enumerate(trace.slots.lists)}
    found: list[tuple[object, ...]] = []
    for slot in trace.final.order[row, : trace.final.count[row]]:
        per_list = [
            (name, int(rank[row, slot]), float(score[row, slot]))
            for name, (rank, score) in spread.items()
            if rank[row, slot]
        ]
        found.append(
            (
                int(trace.slots.chunk[row, slot]),
                float(trace.merged.score[row, slot]),
                float(trace.final.score[row, slot]),
                trace.collections[trace.final.node[row, slot]],
                bool(trace.final.injected[row, slot]),
                *(str(term[row, slot]) for term in trace.final.terms.values()),
                *per_list,
            )
        )
    shown = trace.shown[row]
    events = [(event.stage, event.event, str(event.detail)) for event in trace.audit_of(row)]
    return [*found, tuple(shown[shown >= 0].tolist()), *events]


@pytest.mark.parametrize(
    ("namespace", "values"), [("general", SETTINGS), ("biomed", BIOMED_SETTINGS)]
)
@settings(max_examples=25, deadline=None)
@given(corpus=corpora, batch=batches, data=st.data())
def test_memo_equals_from_nothing(
    namespace: str,
    values: dict[str, list[object]],
    corpus: list[str],
    batch: list[str],
    data: st.DataObject,
) -> None:
    trials = data.draw(st.lists(configurations(values), min_size=1, max_size=4))
    with tempfile.TemporaryDirectory() as folder:
        base = RetrieverConfig(namespace=namespace)
        kept = opened(corpus, Path(folder), base)
        for overrides in trials:
            config = base.with_overrides(overrides)
            remembered = kept.with_config(config).trace(batch)
            fresh = kept.without_memory().with_config(config)
            from_nothing = fresh.trace(batch)
            shared = fresh.trace(batch, also=EVERY_LIST)
            for row, text in enumerate(batch):
                expected = content(from_nothing, row)
                assert content(remembered, row) == expected
                assert content(shared, row) == expected
                assert content(fresh.trace([text]), 0) == expected


def test_memo_is_used_when_only_a_late_stage_changes(tmp_path: Path) -> None:
    retriever = opened(["egfr dose", "met label"], tmp_path)
    retriever.trace(["egfr"])
    misses = retriever.memo.misses
    changed = retriever.config.with_overrides({"merge.method": "rrf"})
    retriever.with_config(changed).trace(["egfr"])
    # gather, merge, inject, the pass-through of tier 2 and trim; nothing before them
    assert retriever.memo.misses - misses == 5
    retriever.with_config(changed).trace(["egfr"])
    assert retriever.memo.misses - misses == 5


def test_lists_are_not_gathered_again_when_only_weights_change(tmp_path: Path) -> None:
    retriever = opened(["egfr dose", "met label"], tmp_path)
    retriever.trace(["egfr"])
    misses = retriever.memo.misses
    for weight in (0.2, 0.9):
        changed = retriever.config.with_overrides({"merge.weights": {"dense": weight}})
        retriever.with_config(changed).trace(["egfr"])
    # The first names a weight, which gathers anew; the second is merge, inject, tier 2 and trim.
    assert retriever.memo.misses - misses == 5 + 4


def test_what_the_memo_keeps_cannot_be_changed(tmp_path: Path) -> None:
    trace = opened(["egfr dose"], tmp_path).trace(["egfr"])
    with pytest.raises(ValueError, match="read-only"):
        trace.merged.score[:] = 7


def test_batches_of_other_sizes_share_a_memo_when_nothing_can_be_searched(tmp_path: Path) -> None:
    retriever = opened(["egfr dose"], tmp_path)
    retriever.index.__dict__["collections"] = {}
    retriever.trace(["a", "b", "c"])
    trace = retriever.trace(["d", "e"])
    assert trace.merged.count.tolist() == [0, 0]
    assert [event.event for event in trace.audit_of(1)] == [
        "route_skipped_collection",
        "rerank_t2_passthrough",
    ]


def test_copied_configuration_is_not_mistaken_for_its_original() -> None:
    config = RetrieverConfig()
    before = config.merge.fingerprint
    assert config.merge.model_copy(update={"method": "rrf"}).fingerprint != before
    with pytest.raises(TypeError):
        config.merge.weights["dense"] = 2.0  # type: ignore[index]


class Clock:
    """A clock that goes as far as each computation says."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def taking(self, seconds: float) -> Callable[[], np.ndarray]:
        def compute() -> np.ndarray:
            self.now += seconds
            return np.zeros(125)  # 1,000 bytes

        return compute


def test_memo_forgets_the_oldest_of_those_that_cost_alike_when_its_budget_is_spent() -> None:
    clock = Clock()
    memo = Memo(budget=2200, clock=clock)
    for name in ("a", "b", "a", "c"):
        memo.get(name, clock.taking(1.0))
    assert memo.size == 2000
    memo.get("c", lambda: pytest.fail("c came last and must still be there"))
    misses = memo.misses
    memo.get("d", clock.taking(1.0))
    memo.get("c", lambda: pytest.fail("c was asked for again after the others"))
    assert (memo.misses, memo.size) == (misses + 1, 2000)


def test_memo_keeps_what_is_dear_through_a_pass_larger_than_its_budget() -> None:
    clock = Clock()
    memo = Memo(budget=3000, clock=clock)
    for trial in range(5):
        for block in range(2):
            memo.get(f"recall {block}", clock.taking(10.0))
            for stage in range(3):
                memo.get(f"late {trial} {block} {stage}", clock.taking(0.1))
    # Of 8 results a trial 3 fit: the two of recall were computed once, the 30 others each time.
    assert (memo.misses, memo.hits) == (2 + 30, 8)


def test_memo_forgets_what_was_dear_once_when_nobody_asks_for_it_any_more() -> None:
    clock = Clock()
    memo = Memo(budget=2000, clock=clock)
    memo.get("dear", clock.taking(1.0))
    for i in range(12):  # each lifts the level by 0.1 s a thousand bytes
        memo.get(f"cheap {i}", clock.taking(0.1))
    misses = memo.misses
    memo.get("dear", clock.taking(1.0))
    assert memo.misses == misses + 1


def test_query_id_never_reaches_the_result(tmp_path: Path) -> None:
    retriever = opened(["egfr dose", "met label"], tmp_path)
    one, other = retriever.search_many([Query("egfr", "q1"), Query("egfr", "gold: d01")])
    assert one.hits == other.hits


def test_search_gives_text_and_ids(tmp_path: Path) -> None:
    hits = opened(["egfr dose", "met label"], tmp_path).search("met").hits
    assert (hits[0].document_id, hits[0].chunk_id, hits[0].rank) == ("d01", "d01#0000", 1)
    assert (hits[0].collection, hits[0].text) == ("eagle_text", "met label")


@pytest.mark.parametrize("query", ["", "   ", "zzzz", "\u0000", "🧬" * 50, "a" * 20_000])
def test_any_text_is_a_query(tmp_path: Path, query: str) -> None:
    result = opened(["egfr dose", "met label"], tmp_path).search(query)
    assert [hit.rank for hit in result.hits] == list(range(1, len(result.hits) + 1))


@pytest.mark.parametrize("query", ["", " \t"])
def test_query_without_text_finds_nothing(tmp_path: Path, query: str) -> None:
    assert opened(["egfr dose"], tmp_path).search(query).hits == ()


def test_lone_surrogate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="surrogate"):
        opened(["egfr dose"], tmp_path).search("\ud800")


def test_no_query_gives_no_result(tmp_path: Path) -> None:
    retriever = opened(["egfr dose"], tmp_path)
    assert retriever.search_many([]) == []
    with pytest.raises(InputError, match="no query"):
        retriever.trace([])


@pytest.mark.parametrize("query", [None, 7, b"egfr", Query(None)])  # type: ignore[arg-type]
def test_query_is_refused_when_it_is_no_text(tmp_path: Path, query: object) -> None:
    retriever = opened(["egfr dose"], tmp_path)
    with pytest.raises(InputError, match=r"a query is (NoneType|int|bytes), not text"):
        retriever.search(query)  # type: ignore[arg-type]


def test_configuration_in_force_has_the_mode_of_tier_1(tmp_path: Path) -> None:
    retriever = opened(["egfr dose"], tmp_path)
    assert retriever.config == GENERAL.with_overrides({"rerank_plan.mode": "off"})
    assert retriever.with_config(GENERAL).config.rerank_plan.mode == "off"


def test_configuration_is_refused_when_the_index_was_built_otherwise(tmp_path: Path) -> None:
    retriever = opened(["egfr dose"], tmp_path)
    other = GENERAL.with_overrides({"index.bm25.k1": 1.2})
    with pytest.raises(InputError, match=r"index\.bm25\.k1: 1\.5, not 1\.2"):
        retriever.with_config(other)


def test_encoder_is_refused_when_the_index_was_built_with_another(tmp_path: Path) -> None:
    opened(["egfr dose"], tmp_path)
    with pytest.raises(InputError, match="another model"):
        Retriever.open(tmp_path / "index", GENERAL, encoders={"eagle_text": HashedWords(seed=1)})


def test_collection_is_refused_when_nothing_knows_it(tmp_path: Path) -> None:
    retriever = opened(["egfr dose"], tmp_path)
    config = GENERAL.with_overrides({"merge.weights": {"eagle_txt:dense": 2.0}})
    with pytest.raises(InputError, match="eagle_txt"):
        retriever.with_config(config)


def test_memo_lets_go_at_once_when_nobody_ever_asks_for_a_kind_again() -> None:
    memo, kind = Memo(), Asked()
    for trial in range(100):
        memo.get(f"late {trial}", lambda: np.zeros(100), kind)
    # The first 15, and one each time the count is halved: at 32 to 16, which is not below.
    assert (memo.misses, memo.passed) == (100, 85)
    assert memo.size == 15 * 800
    kept = memo.get("late 3", lambda: pytest.fail("the first ones are kept"), kind)
    assert kept.value.shape == (100,)


def test_memo_keeps_a_kind_anew_when_what_it_let_go_is_asked_for() -> None:
    memo, kind = Memo(), Asked()
    for trial in range(40):
        memo.get(f"late {trial}", lambda: np.zeros(100), kind)
    assert memo.passed == 25
    # 24 computed since the halving; two asked for again are one in twelve.
    for _ in range(2):
        memo.get("late 30", lambda: np.zeros(100), kind)
    memo.get("late 31", lambda: np.zeros(100), kind)
    memo.get("late 30", lambda: pytest.fail("kept by now"), kind)


def test_memo_keeps_all_that_a_trial_reads_when_others_ask_for_it() -> None:
    memo, kind = Memo(), Asked()
    for trial in range(200):
        memo.get("shared", lambda: np.zeros(100), kind)
        memo.get(f"own {trial}", lambda: np.zeros(100), kind)
    assert (memo.misses, memo.hits, memo.passed) == (201, 199, 0)


def test_memo_forgets_what_it_knew_of_kinds_when_batches_are_many() -> None:
    memo = Memo()
    first = memo.asked("batch 0")["search"]
    assert memo.asked("batch 0")["search"] is first
    for number in range(1, BATCHES + 1):
        memo.asked(f"batch {number}")
    assert memo.asked("batch 0")["search"] is not first


def test_memo_does_not_walk_what_results_only_point_to() -> None:
    @dataclasses.dataclass(frozen=True)
    class Knowledge:
        is_shared: ClassVar[bool] = True
        words: tuple[str, ...]

    known = Knowledge(tuple(f"word {i}" for i in range(1000)))
    memo = Memo()
    memo.get("a", lambda: (known, np.zeros(10)))
    memo.get("b", lambda: (known, np.zeros(10)))
    assert memo.size < 1000
