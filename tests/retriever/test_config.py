"""The configuration: checked, round-tripping, fingerprinted."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever.config import RetrieverConfig, difference, load_config
from retriever.encoders.models import resolved
from retriever.files import InputError


def test_defaults_are_the_specified_ones() -> None:
    config = load_config("default").flattened()
    expected = {
        "route.recall_top_k": 100,
        "recall.search_depth": 200,
        "route.bm25_search": True,
        "index.bm25.k1": 1.5,
        "index.bm25.b": 0.75,
        "index.chunk.max_tokens": 256,
        "index.chunk.overlap": 32,
        "merge.method": "minmax",
        "merge.rrf_k": 60.0,
        "merge.rrf_key": "source_chunk_id",
        "trim.final_top_k": 5,
        "evaluation.depth": 100,
        "evaluation.split": "test",
        "evaluation.resamples": 10_000,
        "evaluation.seed": 0,
        "models": "embedded",
    }
    assert {path: config[path] for path in expected} == expected


@settings(deadline=None)
@given(
    overrides=st.fixed_dictionaries(
        {},
        optional={
            "merge.rrf_k": st.floats(0, 1000),
            "merge.weights": st.dictionaries(
                st.sampled_from(["bm25", "eagle_text:dense", "a.b-c:bm25"]), st.floats(0.1, 10)
            ),
            "route.recall_top_k_by_collection": st.dictionaries(
                st.from_regex(r"[A-Za-z0-9_.-]{1,6}", fullmatch=True), st.integers(1, 200)
            ),
            "index.chunk.max_tokens": st.none() | st.integers(64, 512),
            "evaluation.split": st.sampled_from(["dev", "null", "1", "no"]),
        },
    )
)
def test_yaml_reads_back_to_the_same_configuration(
    tmp_path_factory: pytest.TempPathFactory, overrides: dict[str, object]
) -> None:
    config = RetrieverConfig().with_overrides(overrides)
    file = tmp_path_factory.mktemp("config") / "config.yaml"
    file.write_text(config.to_yaml(), "utf-8")
    again = load_config(file)
    assert again == config
    assert again.fingerprint == config.fingerprint


def test_file_says_only_what_differs(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("merge: {rrf_k: 20, weights: {dense: 2}}\n")
    changed = difference(RetrieverConfig(), load_config(file))
    assert changed == {
        "merge.rrf_k": (60.0, 20.0),
        "merge.weights.dense": (None, 2.0),
    }


def test_fingerprint_changes_with_any_leaf() -> None:
    one = RetrieverConfig()
    other = one.with_overrides({"merge.rrf_k": 61})
    assert one.fingerprint != other.fingerprint
    assert one.merge.fingerprint != other.merge.fingerprint
    assert one.route.fingerprint == other.route.fingerprint


def test_set_reads_values_as_yaml() -> None:
    config = load_config(sets=["index.chunk.max_tokens=null", "merge.weights={bm25: 0.3}"])
    assert config.index.chunk.max_tokens is None
    assert config.merge.weights == {"bm25": 0.3}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("merge.rrf_j=1", r"merge\.rrf_j is no parameter \(did you mean merge\.rrf_k\?\)"),
        ("rrf_k=1", r"did you mean merge\.rrf_k\?"),
        ("merge.rrf_k=-1", r"merge\.rrf_k: .*greater than or equal to 0, not -1"),
        ("merge.rrf_k=.nan", r"merge\.rrf_k"),
        ("merge.weights={dense: -1}", r"merge\.weights\.dense"),
        ("merge.weights={dense: 0, bm25: 0}", "nothing would be ranked"),
        ("route.bm25_search=false,x", "bm25_search"),
        ("merge.weights={sparse: 1}", "is no name"),
        ("route={dense_search: false, bm25_search: false}", "nothing would be searched"),
        ("index.bm25.b=1.2", r"index\.bm25\.b"),
        ("recall.search_depth=50", "search_depth is 50, less than"),
        ("index.chunk.overlap=200", "at most half"),
        ("merge.rrf_k.x=1", "is a value"),
        ("merge.rrf_k", "not key=value"),
        ("merge.rrf_k=[", "not YAML"),
    ],
)
def test_set_is_refused_when_it_is_wrong(item: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_config(sets=[item])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("merge:\n  rrf_k: 1\n  rrf_k: 2\n", r"c\.yaml:3: .*stands twice"),
        ("merge: !!python/object/apply:os.system ['true']\n", r"c\.yaml:1: not YAML"),
        ("a: &x [1]\nb: *x\n", r"c\.yaml:2: .*aliases"),
        ("- 1\n", "expected keys and values"),
        ("merge: 3\n", r"c\.yaml: merge: "),
        ("mergee: {}\n", "did you mean merge"),
        ("preset: tomorrow\n", "preset 'tomorrow' is unknown"),
        ("merge: {rrf_k: 1\n", r"c\.yaml:\d: not YAML"),
        ("1: 2\n", "not text"),
    ],
)
def test_file_is_refused_with_its_line_when_it_is_wrong(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        load_config(file)


def test_missing_file_names_the_presets(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="default"):
        load_config(tmp_path / "no.yaml")


def test_shipped_yaml_is_plain_data() -> None:
    assert yaml.safe_load(load_config("default").to_yaml())["models"] == "embedded"


def test_mode_of_tier_1_is_the_model_sets_when_it_is_unset() -> None:
    unset = RetrieverConfig()
    assert unset.rerank_plan.mode is None
    assert resolved(unset).rerank_plan.mode == "off"
    assert resolved(RetrieverConfig(models="biomed")).rerank_plan.mode == "replace"
    given = unset.with_overrides({"models": "biomed", "rerank_plan.mode": "blend"})
    assert resolved(given) is given


def test_show_says_what_holds_where_the_model_set_decides(assay) -> None:
    shown = assay("config", "show", "--set", "models=biomed")
    assert "# rerank_plan.mode: null is replace with the models biomed" in shown.out.splitlines()
    assert yaml.safe_load(shown.out)["rerank_plan"]["mode"] is None
    as_json = json.loads(assay("config", "show", "--json").out)
    assert as_json["in_force"] == {"rerank_plan.mode": "off"}
    given = assay("config", "show", "--json", "--set", "rerank_plan.mode=blend")
    assert json.loads(given.out)["in_force"] == {}


def test_difference_has_no_line_for_a_mapping_that_is_filled(assay, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("merge: {weights: {dense: 2}}\n")
    line = "merge.weights.dense: 1.0 (default) -> 2.0\n"
    assert assay("config", "diff", "default", file).out == line
    line = "merge.weights.dense: 2.0 -> 1.0 (default)\n"
    assert assay("config", "diff", file, "default").out == line
    found = json.loads(assay("config", "diff", "default", file, "--json").out)
    assert found == {"merge.weights.dense": {"one": 1.0, "other": 2.0, "defaults": ["one"]}}


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("{}", "merge: {weights: {dense: 1}}", "no difference"),
        ("{}", "rerank_plan: {mode: 'off'}", "no difference"),
        ("{}", "rerank_plan: {mode: blend}", 'rerank_plan.mode: "off" (default) -> "blend"'),
        (
            "route: {recall_top_k: 30}",
            "route: {recall_top_k: 30, recall_top_k_by_collection: {eagle_text: 40}}",
            "route.recall_top_k_by_collection.eagle_text: 30 (default) -> 40",
        ),
        (
            "merge: {weights: {dense: 2}}",
            "merge: {weights: {dense: 2, 'eagle_text:dense': 3}}",
            "merge.weights.eagle_text:dense: 2.0 (default) -> 3.0",
        ),
    ],
)
def test_difference_is_of_the_values_in_force_when_one_side_names_none(
    assay, tmp_path: Path, one: str, other: str, said: str
) -> None:
    (tmp_path / "one.yaml").write_text(one)
    (tmp_path / "other.yaml").write_text(other)
    done = assay("config", "diff", tmp_path / "one.yaml", tmp_path / "other.yaml")
    assert done.out == f"{said}\n"


def test_fingerprint_is_worked_out_once_and_not_copied() -> None:
    one = RetrieverConfig()
    assert one.fingerprint is one.fingerprint
    for deep in (False, True):
        changed = one.trim.model_copy(update={"final_top_k": 7}, deep=deep)
        assert changed.fingerprint == RetrieverConfig(trim={"final_top_k": 7}).trim.fingerprint
    assert one == RetrieverConfig()
