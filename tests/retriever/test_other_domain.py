"""Another domain on the same engine: a plugin for cooking, and not a word of medicine runs.

Encoders are stand-ins. The figures follow from final = w_rank rank_norm + w_pantry pantry.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worlds import HashedWords

from retriever import Query, Retriever, RetrieverConfig, build_index
from retriever.config import Section
from retriever.explain import explain
from retriever.files import InputError
from retriever.hooks import (
    Assembly,
    Candidates,
    Classification,
    Expansion,
    MergedFeatures,
    PlanRerank,
    Profile,
    hookimpl,
)
from retriever.plugins import register, unregister
from retriever.types import Intent, Named

DISHES = {"carbonara": ("guanciale", "egg"), "ragu": ("beef", "wine")}
CORPUS = {
    "carbonara": ("recipe", "carbonara wants guanciale egg pecorino and black pepper"),
    "ragu": ("recipe", "ragu wants beef wine milk and three hours"),
    "omelette": ("recipe", "omelette wants egg butter and a hot pan"),
    "pans": ("", "pans of steel keep a hot surface"),
    "knives": ("", "knives are sharpened on a wet stone"),
}


class PantryScoring(Section):
    w_pantry: float = 2.0
    w_rank: float = 1.0


class PantryRoute(Section):
    recipe_collection: str = "recipes"


class CookingConfig(Section):
    route: PantryRoute = PantryRoute()
    rerank_merged: PantryScoring = PantryScoring()


class Cooking:
    """What a cook knows: a dish by its name, its ingredients, and where recipes are kept."""

    name = "cooking"
    version = "1"
    namespace = "cooking"
    config_model: type[Section] = CookingConfig

    def knowledge(self, settings: Any) -> str:
        return json.dumps(DISHES)

    @hookimpl
    def query_assemble(self, texts: Sequence[str]) -> list[Assembly | None]:
        found: list[Assembly | None] = []
        for text in texts:
            dish = next((d for d in DISHES if d in text.lower().split()), None)
            intent = Intent("recipe")
            known = dish and Assembly(intent, (Named(f"dish:{dish}", dish),), (), DISHES[dish])
            found.append(known or None)
        return found

    @hookimpl
    def classify_query(
        self, assemblies: Sequence[Assembly], part: Any
    ) -> list[Classification | None]:
        there = Classification((part.recipe_collection, "eagle_text"), ("asked_for_a_dish",))
        return [there if assembly.entities else None for assembly in assemblies]

    @hookimpl
    def query_dense_expand(
        self, texts: Sequence[str], assemblies: Sequence[Assembly], collection: str
    ) -> list[Expansion | None]:
        return [
            Expansion((f"{text} {' '.join(a.suffix)}",), {}, (text,))
            if a.suffix and collection == "recipes"
            else None
            for text, a in zip(texts, assemblies, strict=True)
        ]

    @hookimpl
    def rerank_merged(self, candidates: Candidates, part: Any) -> MergedFeatures:
        def features() -> dict[str, Any]:
            pantry = np.zeros(candidates.rows.shape)
            for q, assembly in enumerate(candidates.assemblies):
                for place in np.flatnonzero(candidates.rows[q] >= 0):
                    text = candidates.index.chunks.value("text", candidates.rows[q, place])
                    hits = sum(word in text.split() for word in assembly.suffix)
                    pantry[q, place] = hits / max(len(assembly.suffix), 1)
            return {"pantry": pantry}

        weights = {"ce": 0.0, "rank": part.w_rank, "pantry": part.w_pantry}
        rows = {name: np.full(len(candidates.texts), value) for name, value in weights.items()}
        return MergedFeatures(features, rows)

    @hookimpl
    def profile_document(self, documents: Sequence[Any]) -> list[Profile | None]:
        return [
            Profile(("recipes",), domain="cooking", rule="declared")
            if document.metadata.get("kind") == "recipe"
            else None
            for document in documents
        ]


def encoders() -> dict[str, Any]:
    return {"eagle_text": HashedWords(), "recipes": HashedWords(seed=1)}


def opened(folder: Path, **overrides: Any) -> Retriever:
    """An index of the corpus above in the namespace of the cooks, and a retriever on it."""
    (folder / "corpus").mkdir(parents=True)
    lines = [
        json.dumps({"_id": i, "title": "", "text": text, "metadata": {"kind": kind}})
        for i, (kind, text) in CORPUS.items()
    ]
    (folder / "corpus" / "corpus.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    config = RetrieverConfig(namespace="cooking").with_overrides(overrides)
    build_index(folder / "corpus", folder / "index", config, encoders=encoders())
    return Retriever.open(folder / "index", config, encoders=encoders(), rerankers={})


Kitchen = Callable[..., None]


@pytest.fixture
def kitchen() -> Iterator[Kitchen]:
    """Register plugins for one test."""
    names: list[str] = []

    def add(*plugins: Any) -> None:
        for plugin in plugins:
            register(plugin)
            names.append(plugin.name)

    yield add
    for name in names:
        unregister(name)


def test_collections_and_registry_are_the_plugins_when_it_profiles(
    tmp_path: Path, kitchen: Kitchen
) -> None:
    kitchen(Cooking())
    index = opened(tmp_path).index
    assert {n: r.chunks for n, r in index.manifest.collections.items()} == {
        "eagle_text": 2,
        "recipes": 3,
    }
    assert index.manifest.namespace == "cooking"
    assert list(index.manifest.plugins) == ["cooking"]


def test_engine_follows_the_plugin_when_a_query_names_a_dish(
    tmp_path: Path, kitchen: Kitchen
) -> None:
    kitchen(Cooking())
    retriever = opened(tmp_path)
    found = explain(retriever, retriever.trace(["how long does ragu take"]))
    assert found["intent"]["workflow"] == "recipe"
    assert found["entities"] == [{"id": "dish:ragu", "name": "ragu"}]
    plans = {f"{plan['collection']}:{plan['search']}": plan for plan in found["plans"]}
    assert set(plans) == {"eagle_text:bm25", "eagle_text:dense", "recipes:bm25", "recipes:dense"}
    assert plans["recipes:dense"]["dense_query"] == "how long does ragu take beef wine"
    assert plans["eagle_text:dense"]["dense_query"] == "how long does ragu take"
    assert found["weights"] == {"w_ce": 0.0, "w_rank": 1.0, "w_pantry": 2.0}
    first = found["reranked"][0]
    assert (first["chunk_id"], first["pantry"]) == ("ragu#0000", 1.0)
    # First of the merged list, so rank_norm 1; both ingredients, so pantry 2 / 2: 1 + 2 * 1 = 3.
    assert (first["rank_norm"], first["final"]) == (1.0, 3.0)
    assert [event["event"] for event in found["audit"]] == ["asked_for_a_dish", "rerank_t2_domain"]


def test_core_defaults_stand_when_the_plugin_abstains(tmp_path: Path, kitchen: Kitchen) -> None:
    kitchen(Cooking())
    retriever = opened(tmp_path)
    found = explain(retriever, retriever.trace(["which stone for knives", "ragu"]))
    assert {plan["collection"] for plan in found["plans"]} == {"eagle_text"}
    assert found["intent"]["workflow"] == "general"
    assert found["results"][0]["document_id"] == "knives"


def test_order_changes_when_the_plugins_own_weight_does(tmp_path: Path, kitchen: Kitchen) -> None:
    kitchen(Cooking())
    # The omelette holds egg, one of two ingredients: -4 * 1/2 = -2; the carbonara both: -4.
    text = "carbonara"
    path = "plugins.cooking.rerank_merged.w_pantry"
    retriever = opened(tmp_path)
    against = retriever.config.with_overrides({path: -4.0})
    shown = {hit.document_id: hit.score for hit in retriever.with_config(against).search(text).hits}
    assert list(shown)[-1] == "carbonara"
    # First of the merged list: 1 - 4; under the default, from the same memo: 1 + 2.
    assert shown["carbonara"] == -3.0
    assert retriever.search(text).hits[0].score == 3.0


def test_biomedical_hooks_never_ran_when_the_namespace_is_another(tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        f"sys.path[:0] = [{str(tests)!r}, {str(tests / 'retriever')!r}]\n"
        "from test_other_domain import Cooking, opened, register\n"
        "register(Cooking())\n"
        f"hits = opened(Path({str(tmp_path)!r})).search('carbonara').hits\n"
        "print(hits[0].document_id)\n"
        "print(sorted(m for m in sys.modules if m.startswith('retriever.biomed.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found, modules = done.stdout.splitlines()
    assert found == "carbonara"
    # The settings of every installed plugin are checked, so its configuration is imported.
    expected = ["arbiter", "config", "domain", "plugin"]
    assert json.loads(modules.replace("'", '"')) == [f"retriever.biomed.{m}" for m in expected]


class SecondCook(Cooking):
    """Answers everything, but comes second by name."""

    name = "cooking_second"

    @hookimpl
    def classify_query(self, texts: Sequence[str]) -> list[Classification]:
        return [Classification(("recipes",)) for _ in texts]

    @hookimpl
    def query_assemble(self, texts: Sequence[str]) -> list[Assembly]:
        return [Assembly(suffix=("salt",)) for _ in texts]


def test_second_plugin_answers_only_where_the_first_abstains(
    tmp_path: Path, kitchen: Kitchen
) -> None:
    kitchen(SecondCook(), Cooking())
    retriever = opened(tmp_path)
    trace = retriever.trace(["ragu", "knives", "carbonara"])
    lists = trace.routing.lists
    searched = [
        {item.collection for i, item in enumerate(lists) if trace.routing.active[i, q]}
        for q in range(3)
    ]
    assert searched == [{"recipes", "eagle_text"}, {"recipes"}, {"recipes", "eagle_text"}]
    # query_assemble is for all: what the plugins know is joined, in order of their names.
    assert [assembly.suffix for assembly in trace.assemblies] == [
        ("beef", "wine", "salt"),
        ("salt",),
        ("guanciale", "egg", "salt"),
    ]


class _Faulty(Cooking):
    """A cook who answers with one item too many, or a matrix one place too wide."""


class FaultyAssemble(_Faulty):
    @hookimpl
    def query_assemble(self, texts: Sequence[str]) -> list[Any]:
        return [None] * (len(texts) + 1)


class FaultyClassify(_Faulty):
    @hookimpl
    def classify_query(self, texts: Sequence[str]) -> list[Any]:
        return [None] * (len(texts) + 1)


class FaultyExpand(_Faulty):
    @hookimpl
    def query_dense_expand(self, texts: Sequence[str]) -> list[Any]:
        return [None] * (len(texts) + 1)


class FaultySupplement(_Faulty):
    @hookimpl
    def retrieve_supplement(self, texts: Sequence[str]) -> list[Any]:
        return [None] * (len(texts) + 1)


class FaultyPostMerge(_Faulty):
    @hookimpl
    def rrf_post_merge(self, assemblies: Sequence[Assembly]) -> list[Any]:
        return [None] * (len(assemblies) + 1)


class FaultyRerank(_Faulty):
    @hookimpl
    def rerank(self, candidates: Candidates) -> PlanRerank:
        rows, places = candidates.rows.shape
        return PlanRerank(False, np.ones((rows, places + 1), dtype=np.bool_))


class FaultyFeatures(_Faulty):
    @hookimpl
    def rerank_merged(self, candidates: Candidates) -> MergedFeatures:
        one = np.ones(len(candidates.texts))
        wide = np.ones((len(candidates.texts), candidates.rows.shape[1] + 1))
        return MergedFeatures(lambda: {"pantry": wide}, {"ce": one, "rank": one, "pantry": one})


class FaultyWeights(_Faulty):
    @hookimpl
    def rerank_merged(self, candidates: Candidates) -> MergedFeatures:
        one = np.ones(len(candidates.texts))
        return MergedFeatures(dict, {"ce": one, "rank": one, "pantry": one})


class FaultyProfile(_Faulty):
    @hookimpl
    def profile_document(self, documents: Sequence[Any]) -> list[Any]:
        return [None] * (len(documents) - 1)


class FaultyEnrich(_Faulty):
    @hookimpl
    def enrich_chunks(self, chunks: Sequence[Any]) -> dict[str, Any]:
        return {"spice": [["salt"]] * (len(chunks) + 1)}


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (FaultyAssemble, "plugin cooking: query_assemble gave 3 answers, expected 2"),
        (FaultyClassify, "plugin cooking: classify_query gave 3 answers, expected 2"),
        (FaultyExpand, "plugin cooking: query_dense_expand gave 3 answers, expected 2"),
        (FaultySupplement, "plugin cooking: retrieve_supplement gave 3 answers, expected 2"),
        (FaultyPostMerge, "plugin cooking: rrf_post_merge gave 3 answers, expected 2"),
        (FaultyRerank, r"rerank gave keep of shape \(2, \d+\), expected \(2, \d+\)"),
        (FaultyFeatures, r"rerank_merged gave pantry of shape \(2, \d+\), expected \(2, \d+\)"),
        (FaultyWeights, r"rerank_merged gave weights without a feature: \['pantry'\]"),
        (FaultyProfile, "plugin cooking: profile_document gave 4 answers, expected 5"),
        (FaultyEnrich, "plugin cooking: enrich_chunks gave 6 answers in the column spice, exp"),
    ],
)
def test_error_says_who_answered_what_when_a_plugin_miscounts(
    tmp_path: Path, kitchen: Kitchen, plugin: type[Any], message: str
) -> None:
    kitchen(plugin())
    with pytest.raises(ValueError, match=message):
        opened(tmp_path).trace([Query("ragu"), Query("knives")])


def test_nearest_parameter_is_named_when_a_plugins_key_is_misspelt(kitchen: Kitchen) -> None:
    kitchen(Cooking())
    with pytest.raises(InputError) as caught:
        RetrieverConfig().with_overrides({"plugins.cooking.rerank_merged.w_pantri": 1})
    assert str(caught.value) == (
        "plugins.cooking.rerank_merged.w_pantri is no parameter "
        "(did you mean plugins.cooking.rerank_merged.w_pantry?)"
    )


def test_name_is_refused_when_a_plugin_has_it_already(kitchen: Kitchen) -> None:
    kitchen(Cooking())
    with pytest.raises(ValueError, match="cooking"):
        register(Cooking())


def test_namespace_is_unknown_when_its_plugin_is_gone() -> None:
    with pytest.raises(InputError, match=r"no plugin serves it; known: general, biomed"):
        RetrieverConfig().with_overrides({"namespace": "cooking"})
