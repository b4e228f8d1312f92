"""gold.yaml: texts as written, strict values, lines, safe against hostile files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gold import InputError, load, validate

MakeSet = Callable[..., Path]


def test_every_setting_is_read_when_stated(make_set: MakeSet) -> None:
    gold = load(
        make_set(
            settings="""\
name: smoke
version: 1.10
level: chunk
success: all
coverage_threshold: 0.5
relevant_from: 2
cutoffs: [100, 5]
grades: {2: answers it, 0: off topic}
licence: CC0-1.0
"""
        )
    )
    # 1.10 as a number would be 1.1, another version.
    assert (gold.name, gold.version, gold.licence) == ("smoke", "1.10", "CC0-1.0")
    assert (gold.level, gold.success, gold.coverage_threshold) == ("chunk", "all", 0.5)
    assert (gold.relevant_from, gold.cutoffs) == (2, (5, 100))
    assert gold.grades == {0: "off topic", 2: "answers it"}


@pytest.mark.parametrize(
    "settings", ["", "# nothing yet\n", "name:\nversion: null\n", "\ufeff---\n"]
)
def test_defaults_stand_when_nothing_is_said(make_set: MakeSet, settings: str) -> None:
    gold = load(make_set(settings=settings))
    assert (gold.name, gold.version, gold.relevant_from) == ("set", "", 1)


@pytest.mark.parametrize("text", ["007", "no", "2024-13-45", "1e3", "0x1F"])
def test_text_stays_as_written_when_yaml_would_read_another_type(
    make_set: MakeSet, text: str
) -> None:
    assert load(make_set(settings=f"version: {text}\n")).version == text


@pytest.mark.parametrize(
    "line",
    [
        "level: Chunk", "level: [chunk]", "success: most", "coverage_threshold: 1.2",
        "coverage_threshold: .nan", "coverage_threshold: '1'", "coverage_threshold: true",
        "relevant_from: 0", "relevant_from: 1.0", "relevant_from: true", "cutoffs: 5",
        "cutoffs: []", "cutoffs: [5, 5]", "cutoffs: [0]", "cutoffs: [5.0]", "grades: [a, b]",
        "grades: {one: a}", "grades: {1: [a]}", "grades: {1: a, 1: b}", "version: [1]",
        "relevant_from: !!python/object/apply:os.getcwd []", "name: !!python/name:os.getcwd x",
        r'name: "\ud800"', r'licence: "a\udfff"', r'version: "\ud83d\ude00"',
        r'grades: {1: "\ud800"}', r'level: "\ud800"', "relevant_from: 2024-13-45",
        "coverage_threshold: !!float x",
    ],
)  # fmt: skip
def test_line_and_expectation_are_named_when_a_value_is_wrong(make_set: MakeSet, line: str) -> None:
    name = line.split(":")[0]
    with pytest.raises(InputError, match=rf"gold\.yaml:2: {name} is wrong \(expected "):
        load(make_set(settings=f"# note\n{line}\n"))


def test_half_a_surrogate_pair_is_told_when_validated(make_set: MakeSet) -> None:
    report = validate(make_set(settings='name: "\\ud800"\n'))
    assert [(problem.line, problem.code) for problem in report.problems] == [(1, "bad-setting")]


def test_nearest_name_is_given_when_a_setting_is_unknown(make_set: MakeSet) -> None:
    with pytest.raises(
        InputError, match=r"gold\.yaml:2: unknown setting 'relevent-from'.*relevant"
    ):
        load(make_set(settings="name: a\nrelevent-from: 2\n"))


def test_both_lines_are_named_when_a_setting_stands_twice(make_set: MakeSet) -> None:
    with pytest.raises(InputError, match=r"gold\.yaml:3: name stands in line 1 already"):
        load(make_set(settings="name: a\nversion: 1\nname: b\n"))


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (BOMB, "anchors expand to too many"),
        ("name: &a [*a]\n", "an anchor holds itself"),
        ("name: " + "[" * 900, "invalid YAML"),
        ("name: [a\n", r"gold\.yaml:\d: invalid YAML"),
        ("- a\n", "expected settings as key: value"),
        ("name: a\n---\nname: b\n", "invalid YAML"),
        ("name: \x07\n", "invalid YAML"),
        (b"name: a\nlicence: \xe9\n", r"gold\.yaml:2: the line is not UTF-8"),
        ("#" * 1_000_001, "too many for settings"),
    ],
)
def test_file_is_refused_at_once_when_it_is_broken_or_hostile(
    make_set: MakeSet, settings: str | bytes, message: str
) -> None:
    path = make_set(settings=settings)
    with pytest.raises(InputError, match=message):
        load(path)
    assert [p.file for p in validate(path).problems if p.severity == "error"] == ["gold.yaml"]


def test_file_is_refused_when_it_bears_a_name_that_is_not_read(make_set: MakeSet) -> None:
    path = make_set(settings="relevant_from: 2\n")
    (path / "gold.yaml").rename(path / "gold.yml")
    with pytest.raises(
        InputError, match=r"gold\.yml: gold\.yml is not read \(name it gold\.yaml\)"
    ):
        load(path)


def test_every_fault_is_reported_when_settings_have_several(make_set: MakeSet) -> None:
    path = make_set(settings="nmae: a\nsuccess: most\ncutoffs: 5\n")
    problems = validate(path).problems
    assert [(p.line, p.code) for p in problems] == [
        (1, "unknown-setting"),
        (2, "bad-setting"),
        (3, "bad-setting"),
    ]
