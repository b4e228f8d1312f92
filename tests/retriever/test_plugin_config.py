"""Configuration below `plugins.<name>`, and the presets that set it: one clear line for a fault."""

from pathlib import Path

import pytest

from retriever.config import RetrieverConfig, load_config
from retriever.files import InputError


@pytest.mark.parametrize(
    ("assignment", "line"),
    [
        (
            "plugins.biomed.route.foo=1",
            "plugins.biomed.route.foo is no parameter (known here: default_dual_text_search, ",
        ),
        (
            "plugins.biomed.route.mod=text",
            "plugins.biomed.route.mod is no parameter (did you mean plugins.biomed.route.mode?)",
        ),
        ("plugins.biomd.route.mode=text", "plugins.biomd is no parameter (did you mean plugins.bi"),
        ("plugins.biomed.route={mod: text}", "plugins.biomed.route.mod is no parameter (did you"),
        ("plugins.biomed.route.mode=zz", "plugins.biomed.route.mode: Input should be 'text', 'hyb"),
        ("plugins.biomed.route=3", "plugins.biomed.route: Input should be a valid dictionary"),
        ("plugins.biomed=3", "plugins.biomed: Input should be a valid dictionary"),
        ("plugins={biomd: {}}", "plugins: no plugin 'biomd' is installed; known: biomed"),
        (
            "plugins.biomed.ingest.arbiter={url: http://localhost:1}",
            "plugins.biomed.ingest.arbiter: an arbiter with a url needs a model",
        ),
    ],
)
def test_one_line_names_place_and_remedy_when_a_plugins_parameter_is_wrong(
    assay, assignment: str, line: str
) -> None:
    outcome = assay("config", "show", "--set", assignment)
    assert outcome.code == 2
    assert outcome.out == ""
    assert len(outcome.err.strip().splitlines()) == 1
    assert line in outcome.err


def test_file_is_named_when_a_plugins_parameter_in_it_is_misspelt(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("plugins: {biomed: {supplement: {enable: false}}}", "utf-8")
    with pytest.raises(InputError) as caught:
        load_config(file)
    assert str(caught.value) == (
        f"{file}: plugins.biomed.supplement.enable is no parameter "
        "(did you mean plugins.biomed.supplement.enabled?)"
    )


def test_preset_seed_has_the_source_systems_values() -> None:
    found = load_config("seed").flattened()
    route, scoring = "plugins.biomed.route", "plugins.biomed.rerank_merged"
    expected = {
        "models": "biomed",
        "route.recall_top_k": 20,
        "recall.search_depth": 200,
        "route.bm25_search": False,
        f"{route}.default_dual_text_search": False,
        f"{route}.medcpt_dual_search": False,
        f"{route}.chemical_searches_text": False,
        f"{route}.drug_hits_search_chemical": True,
        "route.parent_doc_retrieval": True,
        "rerank_plan.mode": "replace",
        "merge.method": "rrf",
        "merge.rrf_k": 60,
        "merge.rrf_key": "node_id",
        "inject.min_new": 2,
        "inject.rerank_pool": 100,
        "trim.final_top_k": 5,
        "rerank_merged.rerank_policy": "domain",
        f"{scoring}.chemical_floor": "bare",
        # The other weights of a row are not touched by the preset's w_rank.
        f"{scoring}.profiles.regulatory.w_rank": 0,
        f"{scoring}.profiles.regulatory.w_section": 0.35,
        f"{scoring}.profiles.combination.w_xdrug_penalty": 2.5,
    }
    assert {path: found[path] for path in expected} == expected


def test_preset_is_the_base_when_a_file_names_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("preset: seed\nmodels: embedded\n", "utf-8")
    assert load_config(file) == load_config("seed", ["models=embedded"])
    assert load_config("default") == RetrieverConfig()


def test_bare_off_is_the_word_when_yaml_reads_it_as_false() -> None:
    config = load_config("seed", ["rerank_plan.mode=off"])
    assert config.rerank_plan.mode == "off"
    with pytest.raises(InputError, match=r"rerank_plan\.mode"):
        load_config("seed", ["rerank_plan.mode=on"])


def test_path_is_beside_the_file_when_a_file_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lexicon.json").write_text("[]")
    (tmp_path / "my.yaml").write_text("plugins: {biomed: {lexicon: {path: lexicon.json}}}")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    config = load_config(tmp_path / "my.yaml")
    assert config.plugins["biomed"].lexicon.path == tmp_path / "lexicon.json"
    (tmp_path / "elsewhere" / "saved.yaml").write_text(config.to_yaml())
    assert load_config("saved.yaml") == config


def test_path_is_in_the_current_folder_when_the_command_line_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_config(None, ["plugins.biomed.lexicon.overlays=[a.json]"])
    assert config.plugins["biomed"].lexicon.overlays == (tmp_path / "a.json",)
