"""Spaces: what a file may say, and how every fault of it is named with its line."""

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.space import load_space, space_from
from retriever import InputError, RetrieverConfig
from retriever.encoders.models import resolved

BASE = resolved(RetrieverConfig())


def test_default_space_covers_what_it_says(assay) -> None:
    space = load_space("default")
    space.check(BASE)
    paths = {p.path for p in space.parameters}
    rows = "plugins.biomed.rerank_merged.profiles"
    weights = ("w_ce", "w_rank", "w_entity", "w_section", "w_xdrug_penalty")
    profiles = ("default", "regulatory", "drug_entity", "chemical", "combination")
    assert {f"{rows}.{p}.{w}" for p in profiles for w in weights} <= paths
    assert paths >= {
        "fuse.alpha",
        "merge.rrf_k",
        "merge.weights.dense",
        "route.recall_top_k",
        "inject.rerank_pool",
        "inject.min_new",
        "plugins.biomed.route.default_dual_text_search",
    }
    assert space.outside(BASE) == {}
    assert assay("space", "validate", "default").code == 0


def test_space_is_the_same_when_written_and_read_again(assay) -> None:
    shown = assay("space", "show", "default").out
    assert space_from(shown, "shown").digest == load_space("default").digest


def test_default_configuration_stays_itself_under_its_own_values() -> None:
    space = load_space("default")
    config = BASE.with_overrides(space.overrides(space.at(BASE)))
    changed = {path: value for path, value in config.flattened().items() if "weights" in path}
    assert changed == {"merge.weights.dense": 0.5, "merge.weights.bm25": 0.5}


def test_complement_gets_the_rest() -> None:
    text = (
        "parameters: {merge.weights.dense: {low: 0.0, high: 1.0, complement: merge.weights.bm25}}"
    )
    found = space_from(text, "x").overrides({"merge.weights.dense": 0.25})
    assert found == {"merge.weights.dense": 0.25, "merge.weights.bm25": 0.75}


def test_parameter_is_read_only_under_its_condition() -> None:
    space = load_space("default")
    k = space["merge.rrf_k"]
    assert not space.is_active(k, space.active_values(BASE))
    assert space.is_active(k, {**space.active_values(BASE), "merge.method": "rrf"})
    assert "merge.rrf_k" not in space.at(BASE)


def test_parameters_stand_after_what_they_depend_on() -> None:
    text = "parameters: {merge.rrf_k: {low: 1, high: 9, when: {merge.method: rrf}}, "
    text += "merge.method: {choices: [rrf, minmax]}}"
    paths = [p.path for p in space_from(text, "x").parameters]
    assert paths == ["merge.method", "merge.rrf_k"]


def test_value_outside_the_range_is_brought_to_its_end_and_named() -> None:
    space = space_from("parameters: {merge.rrf_k: {low: 1.0, high: 10.0}}", "x")
    assert space.at(BASE) == {"merge.rrf_k": 10.0}
    assert space.outside(BASE) == {"merge.rrf_k": 60.0}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("merge.rrf: {low: 1.0, high: 2.0}", r"merge\.rrf is no parameter .*merge\.rrf_k"),
        ("fuse.alpha: {low: 0.0, high: 2.0}", r"fuse\.alpha.*less than or equal to 1"),
        ("fuse.alpha: {low: .9, high: 0.1}", "low 0.9 is not below high 0.1"),
        ("fuse.alpha: {low: 0.0, high: nan}", "high is no number"),
        ("fuse.alpha: {low: 0.0, high: " + "1" * 400 + "}", "high is out of range"),
        ("fuse.alpha: {low: -" + "1" * 400 + ", high: 1.0}", "low is out of range"),
        ("fuse.alpha: {low: 0, high: 1, step: " + "1" * 400 + "}", "step is out of range"),
        ("fuse.alpha: {low: 0.0, hi: 1.0}", "'hi' is unknown"),
        ("fuse.alpha: 3", "expected a range"),
        ("fuse.alpha: {low: 0.0, high: 1.0, log: true}", "a log range starts above 0"),
        ("merge.method: {choices: [rrf]}", "at least two"),
        ("merge.method: {choices: [rrf, rrf]}", "stands twice"),
        ("merge.method: {choices: [rrf, sum]}", r"merge\.method"),
        ("merge: {choices: [1, 2]}", "merge"),
        ("fuse.alpha: {low: 0.0, high: 1.0, when: {merge.metod: rrf}}", "merge.metod"),
        ("fuse.alpha: {low: 0.0, high: 1.0, when: 3}", "when is no condition"),
        ("models: {choices: [embedded, biomed]}", r"no sweep moves models \(the models are loaded"),
        ("namespace: {choices: [biomed, general]}", "no sweep moves namespace"),
        ("index.bm25.k1: {low: 0.5, high: 2.0}", r"no sweep moves index\.bm25\.k1"),
        ("evaluation.cutoff: {low: 1, high: 9}", r"no sweep moves evaluation\.cutoff"),
        ("plugins.biomed.ingest.x: switch", r"no sweep moves plugins\.biomed\.ingest\.x"),
        ("route.recall_top_k: {low: 1, high: 6, step: 2.5}", "takes whole numbers, not 3.5"),
        ("route.recall_top_k: {low: 1.0, high: 9.0}", "takes whole numbers"),
        ("fuse.alpha: {low: 0.0, high: 1.0, step: 0.3}", r"do not end at 1\.0 \(high: 0\.9\)"),
        ('fuse.alpha: {low: 0.1, high: 1.0, log: "no"}', "log is 'no', not true or false"),
        ('fuse.fuse_with_bm25_plan: {switch: "yes"}', "switch is 'yes', not true or false"),
        ("fuse.fuse_with_bm25_plan: {switch: false}", "moves nothing"),
        ("fuse.alpha: {low: 0.1, high: 1.0, log: true, step: 0.3}", "a log range has no step"),
        ("fuse.alpha: {choices: [1, 1.0]}", r"the choice 1\.0 stands twice"),
        ("fuse.alpha: {choices: [0.1, 0.2], high: 1.0}", "only a range has high"),
        ("fuse.alpha: {low: 0.0, high: 1.0, when: {fuse.alpha: 1.0}}", "depends on itself"),
        ("fuse.alpha: {low: 0.0, high: 1.0, when: {fuse.alfa: 1}}", r"did you mean fuse\.alpha"),
        ("fuse.alpha: switch", r"fuse\.alpha is no switch"),
        ('"' + "{a,b}" * 25 + '": switch', "stand for 33554432 paths .*at most 1000"),
    ],
)
def test_fault_is_named_with_file_and_line(line: str, message: str, tmp_path: Path, assay) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"name: s\nparameters:\n  {line}\n")
    done = assay("space", "validate", file)
    assert done.code == 2, done
    assert f"{file}:3: " in done.err
    import re

    assert re.search(message, done.err), done.err


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "merge.weights.dense: {low: 0.0, high: 1.0, complement: merge.weights.bm25}\n"
            "  merge.weights.bm25: {low: 0.0, high: 1.0}",
            "merge.weights.bm25 stands twice: line 3 moves it already",
        ),
        (
            "merge.method: {choices: [rrf, minmax]}\n"
            "  merge.rrf_k: {low: 1.0, high: 3.0, when: {merge.method: [rrf, sum]}}",
            "merge.rrf_k: merge.method is never 'sum'",
        ),
    ],
)
def test_second_parameter_is_refused_when_it_contradicts_the_first(
    lines: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"name: s\nparameters:\n  {lines}\n")
    with pytest.raises(InputError) as refused:
        load_space(file).check(BASE, file)
    assert f"{file}:4: {message}" in str(refused.value)


MANY_FAULTS = """\
name: 3
speed: 1
per_workflow: nope
parameters:
  fuse.alpha: {low: 0.9, high: 0.1, step: 2.0, log: "no"}
  merge.rrf: {low: 1.0, high: 2.0}
  merge.rrf_k: {low: 1.0, hi: 9.0, lo: 1.0}
  merge.method: {choices: [rrf, sum, mean], when: {route.bm25: true}}
  route.recall_top_k: {low: 10, high: 20}
  plugins.biomed.rerank_merged.profiles.{default,chemical}.w_ce: {low: 2.0, high: 1.0}
  models: {choices: [embedded, biomed]}
  inject.min_new: {choices: [1, 2], when: {inject.rerank_pool: 10}}
  inject.rerank_pool: {choices: [10, 20], when: {inject.min_new: 1}}
"""


def test_every_fault_is_listed_with_its_line_in_one_run(tmp_path: Path, assay) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(MANY_FAULTS)
    done = assay("space", "validate", file)
    assert (done.code, done.out) == (2, "")
    *faults, verdict = done.err.splitlines()
    said = [(int(line.split(":")[1]), line) for line in faults]
    expected = [
        (1, "name is no text: 3"),
        (2, "'speed' is no part of a space"),
        (3, "per_workflow names 'nope'"),
        (5, "log is 'no'"),
        (5, "low 0.9 is not below high 0.1"),
        (6, "merge.rrf is no parameter"),
        (7, "'hi' is unknown"),
        (7, "'lo' is unknown"),
        (8, "when names route.bm25, which is no parameter"),
        (8, "merge.method: Input should be 'minmax' or 'rrf', not 'sum'"),
        (8, "merge.method: Input should be 'minmax' or 'rrf', not 'mean'"),
        (10, "default.w_ce: low 2.0 is not below high 1.0"),
        (11, "no sweep moves models"),
        (12, "inject.min_new depends on itself"),
    ]
    assert [number for number, _ in said] == [number for number, _ in expected]
    for (_, line), (_, message) in zip(said, expected, strict=True):
        assert message in line
    assert verdict == f"assay: {file}: not valid, 14 faults"


def test_every_fault_is_an_object_when_json_is_asked_for(tmp_path: Path, assay) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("parameters:\n  fuse.alpha: 3\n  merge.rrf: {low: 1.0, high: 2.0}\n")
    done = assay("space", "validate", file, "--json")
    assert (done.code, done.err) == (2, "")
    found = json.loads(done.out)
    assert found["ok"] is False
    first, second = found["problems"]
    assert first == {
        "file": str(file),
        "line": 2,
        "message": "fuse.alpha: expected a range, not 3",
        "fix": "{low: 0.0, high: 1.0}, {choices: [...]}",
    }
    assert (second["line"], second["fix"]) == (3, "did you mean merge.rrf_k?")
    assert json.loads(assay("space", "validate", "default", "--json").out)["problems"] == []


def test_file_that_is_no_yaml_is_one_fault(tmp_path: Path, assay) -> None:
    (tmp_path / "s.yaml").write_text("parameters: [")
    done = assay("space", "validate", tmp_path / "s.yaml")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1


def test_circle_of_conditions_is_refused() -> None:
    text = "parameters:\n  a: {choices: [1, 2], when: {b: 1}}\n  b: {choices: [1, 2], when: {a: 1}}"
    with pytest.raises(InputError, match="depends on itself"):
        space_from(text, "x")


@pytest.mark.parametrize("text", ["", "parameters: {}", "parameters: 3", "speed: 1", "- a"])
def test_file_without_parameters_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        space_from(text, "x")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("speed: 1", "'speed' is no part of a space"),
        ("per_workflow: 0", "per_workflow is no text: 0"),
        ("per_workflow: nope", "per_workflow names 'nope'"),
        ("name: 3", "name is no text: 3"),
    ],
)
def test_fault_at_the_top_is_named_with_its_line(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"parameters:\n  fuse.alpha: {{low: 0.0, high: 1.0}}\n{line}\n")
    with pytest.raises(InputError) as refused:
        load_space(file).check(BASE, file)
    assert f"{file}:3: {message}" in str(refused.value)


@pytest.mark.parametrize("text", ["", "# nothing\n", "null\n", "---\n"])
def test_space_without_anything_is_refused_by_name(text: str, assay: Any, tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text(text)
    found = assay("space", "validate", tmp_path / "empty.yaml")
    assert (found.code, found.out) == (2, "")
    assert "empty.yaml" in found.err
    assert "parameters" in found.err
