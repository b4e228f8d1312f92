"""gate.yaml is taken as it stands or refused, in one line with place, rule and remedy."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.comparison.gate_file import (
    AtLeast,
    CriticalStayOk,
    Gate,
    MaxDropByType,
    NoFallbacks,
    NoSignificantDrop,
    load_gate,
)
from retriever.files import InputError


def max_drop(value: str) -> str:
    return f"alpha: 0.05\nrules:\n  - rule: max_drop\n    metric: ndcg@10\n    at_most: {value}\n"


def test_every_rule_is_read_with_its_defaults(tmp_path: Path) -> None:
    file = tmp_path / "gate.yaml"
    file.write_bytes(
        b"\xef\xbb\xbfrules:\r\n- {rule: no_significant_drop, metric: NDCG@10}\r\n"
        b"- {rule: max_drop_by_type, metric: mrr@10, at_most: 0}\r\n- {rule: critical_stay_ok}\r\n"
        b"- {rule: at_least, metric: hit@5, value: 1}\r\n- {rule: no_fallbacks}\r\n"
    )
    assert load_gate(file) == Gate(
        (
            NoSignificantDrop("ndcg@10"),
            MaxDropByType("mrr@10", 0.0, 1),
            CriticalStayOk(),
            AtLeast("hit@5", 1.0),
            NoFallbacks(None),
        ),
        0.05,
    )


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (max_drop('"0.1"'), 5, "rule 1 (max_drop): at_most: expected a number from 0 to 1, found "
         "the text '0.1' (such as 0.1, without quotes)"),
        (max_drop("1e-2"), 5, "found the text '1e-2' (such as 0.01, without quotes)"),
        (max_drop(".nan"), 5, "at_most: expected a number from 0 to 1, found NaN"),
        (max_drop(".inf"), 5, "found Infinity"),
        (max_drop("-0.1"), 5, "found -0.1"),
        (max_drop("1.5"), 5, "found 1.5"),
        (max_drop("true"), 5, "found true"),
        (max_drop(""), 5, "found nothing"),
        (max_drop("[0.1]"), 5, "found a list"),
        (max_drop("0.1") + "    at_most: 0.2\n", 6, "key 'at_most' stands twice"),
        (max_drop("0.1") + "    when: now\n", 6, "rule 1 (max_drop): unknown key 'when' "
         "(it takes rule, metric, at_most)"),
        (max_drop("0.1") + "alpha: 0.1\n", 6, "key 'alpha' stands twice"),
        (max_drop("0.1") + "level: 0.1\n", 6, "unknown key 'level' (it takes alpha, rules)"),
        ("alpha: 0\nrules: [{rule: critical_stay_ok}]", 1, "alpha: expected a number between 0"),
        ("alpha: 0.05", 1, "rules: expected a list of rules, found nothing"),
        ("\nrules: []", 2, "rules: expected a list of rules, found nothing"),
        ("rules: {rule: max_drop}", 1, "rules: expected a list of rules, found keys and values"),
        ("- rule: no_fallbacks", 1, "expected the keys alpha and rules, found a list"),
        ("just words", 1, "expected the keys alpha and rules, found the text 'just words'"),
        ("", None, "the file says nothing (rules: [{rule: "),
        ("# a remark\n", None, "the file says nothing"),
        ("rules:\n- no_fallbacks\n", 2, "rule 1: expected keys and values, found the text "
         "'no_fallbacks' (- rule: no_fallbacks)"),
        ("rules:\n- {rule: no_fallbacks}\n- {metric: mrr}\n", 3, "rule 2 does not say which rule"),
        ("rules:\n- rule: max_drob\n", 2, "rule 1: there is no rule 'max_drob', perhaps max_drop"),
        ("rules:\n- {rule: at_least, metric: mrr}\n", 2, "rule 1 (at_least) needs value "
         "(add value: 0.8)"),
        ("rules:\n- {rule: at_least,\n   metric: ndgc@10, value: 1}\n", 3, "nearest known: ndcg"),
        ("rules:\n- {rule: at_least, metric: 5, value: 1}\n", 2, "expected a metric, found 5"),
        ("rules:\n- rule: no_fallbacks\n  events: scope_empty\n", 3, "expected a list of events"),
        ("rules:\n- rule: no_fallbacks\n  events: [scope_emty]\n", 3, "perhaps scope_empty"),
        ("rules:\n- rule: no_fallbacks\n  events: []\n", 3, "found an empty list"),
        ("rules:\n- {rule: max_drop_by_type, metric: mrr, at_most: 0, min_queries: 2.5}\n", 2,
         "min_queries: expected a whole number from 1 to 1000000000, found 2.5"),
        ("rules:\n- {rule: no_fallbacks}\n- {rule: no_fallbacks}\n", 3,
         "rule 2: no_fallbacks is given twice, first as rule 1 (keep one)"),
        (max_drop("0.1") + "  - {rule: max_drop, metric: NDCG@10, at_most: 0.2}\n", 6,
         "rule 2: max_drop for ndcg@10 is given twice, first as rule 1"),
        ("rules:\n- {rule: no_fallbacks, events: [scope_empty, scope_empty]}\n", 2,
         "events: scope_empty stands twice (keep one)"),
        (max_drop("1" * 500), 5, "found a number of over 40 digits"),
        ("rules:\n- {rule: max_drop_by_type, metric: map, at_most: 0, min_queries: "
         + "1" * 500 + "}\n", 2, "found a number of over 40 digits"),
        ("rules: &a []\nalpha: *a\n", 2, "aliases"),
        ("rules: [", 1, "not YAML"),
        ("rules: !!python/name:os.system ''", 1, "not YAML"),
    ],
)  # fmt: skip
def test_fault_names_file_line_rule_and_remedy(
    tmp_path: Path, text: str, line: int | None, message: str
) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as raised:
        load_gate(file)
    said = str(raised.value)
    assert said.startswith(f"{file}:{line}: " if line else f"{file}: ")
    assert message in said
    assert "\n" not in said
    for foreign in ("Input", "Field", "extra", "pydantic", "validation", "__main__"):
        assert foreign not in said


def test_file_that_is_no_text_is_one_error(tmp_path: Path) -> None:
    file = tmp_path / "gate.yaml"
    file.write_bytes(b"rules: \xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        load_gate(file)
    with pytest.raises(InputError, match="cannot be read"):
        load_gate(tmp_path)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.sampled_from(["max_drop", "at_least", "ndcg@10", "no_fallbacks", "0.1", "x y"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["rule", "rules", "alpha", "metric", "at_most", "value", "events", "odd"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(VALUES)
def test_whatever_the_file_says_it_is_a_gate_or_one_error(tmp_path: Path, value: object) -> None:
    import yaml

    file = tmp_path / "gate.yaml"
    file.write_text(yaml.safe_dump(value))
    found: Gate | InputError
    try:
        found = load_gate(file)
    except InputError as error:
        found = error
    if isinstance(found, InputError):
        assert found.path == file
        assert found.fix or "not YAML" in str(found)
        return
    assert found.rules
    assert 0 < found.alpha < 1
