"""Rules over a comparison."""

from pathlib import Path

import numpy as np
import pytest
from run_worlds import write_run

from experiments.comparison.compare import compare_runs
from experiments.comparison.figures import Settings
from experiments.comparison.gate import GateResult, judge
from experiments.comparison.gate_file import load_gate
from experiments.comparison.pairing import pair
from experiments.recorded import RecordedRun
from retriever.files import InputError


def judged(folder: Path, text: str, one: RecordedRun, other: RecordedRun) -> GateResult:
    file = folder / "gate.yaml"
    file.write_text(text)
    made = compare_runs(one, [other], settings=Settings(permutations=2000, resamples=200))
    return judge(load_gate(file), pair(one, other), made["comparisons"][0], "gate.yaml")


def test_drop_is_tested_on_one_side(tmp_path: Path) -> None:
    # Five losses, no win: two-sided 2/32 = .0625, one-sided 1/32 = .03125 <= .05.
    one = write_run(tmp_path / "a", {"hit@5": [1] * 10})
    worse = write_run(tmp_path / "b", {"hit@5": [0] * 5 + [1] * 5})
    rule = "rules: [{rule: no_significant_drop, metric: Hit@5}]"
    broken = judged(tmp_path, rule, one, worse)
    assert not broken.passed
    assert broken.rules[0].numbers["p_one_sided"] == pytest.approx(1 / 32)
    assert judged(tmp_path, rule, worse, one).passed


def test_rules_of_one_kind_share_the_level(tmp_path: Path) -> None:
    # Holm over two: 1/32 doubles to .0625, which is above .05.
    one = write_run(tmp_path / "a", {"hit@5": [1] * 10, "ndcg@10": [0.5] * 10})
    worse = write_run(tmp_path / "b", {"hit@5": [0] * 5 + [1] * 5, "ndcg@10": [0.5] * 10})
    both = (
        "rules:\n- {rule: no_significant_drop, metric: hit@5}\n"
        "- {rule: no_significant_drop, metric: ndcg@10}\n"
    )
    found = judged(tmp_path, both, one, worse)
    assert found.passed
    assert found.rules[0].numbers["p_one_sided"] == pytest.approx(2 / 32)


def test_type_may_not_lose_more_than_allowed(tmp_path: Path) -> None:
    # "odd" queries lose .04 each, "even" ones nothing.
    one = write_run(tmp_path / "a", {"ndcg@10": [0.5, 0.5, 0.5, 0.5]})
    worse = write_run(tmp_path / "b", {"ndcg@10": [0.5, 0.46, 0.5, 0.46]})
    text = "rules: [{rule: max_drop_by_type, metric: ndcg@10, at_most: %s}]"
    broken = judged(tmp_path, text % 0.03, one, worse)
    assert not broken.passed
    assert broken.rules[0].detail.startswith("odd (2)")
    assert judged(tmp_path, text % 0.04, one, worse).passed
    small = text.replace("}]", ", min_queries: 3}]")
    with pytest.raises(InputError, match="no query type has 3"):
        judged(tmp_path, small % 0.03, one, worse)


def test_mean_and_floor_rules_use_the_plain_numbers(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", {"ndcg@10": [0.5, 0.7], "judged@10": [0.5, 0.7]})
    other = write_run(tmp_path / "b", {"ndcg@10": [0.5, 0.6], "judged@10": [0.5, 0.6]})
    passed = []
    for drop, floor in ((0.05, 0.55), (0.04, 0.56)):
        text = (
            f"rules:\n- {{rule: max_drop, metric: ndcg@10, at_most: {drop}}}\n"
            f"- {{rule: at_least, metric: judged@10, value: {floor}}}\n"
        )
        passed += [verdict.passed for verdict in judged(tmp_path, text, one, other).rules]
    assert passed == [True, True, False, False]


def test_critical_query_may_not_leave_ok(tmp_path: Path) -> None:
    critical = {"critical": [True, False, True]}
    one = write_run(
        tmp_path / "a", {"hit@5": [1, 1, 0]}, {**critical, "class": ["ok", "ok", "ranking_gap"]}
    )
    other = write_run(
        tmp_path / "b", {"hit@5": [0, 0, 0]}, {**critical, "class": ["ranking_gap"] * 3}
    )
    rule = "rules: [{rule: critical_stay_ok}]"
    broken = judged(tmp_path, rule, one, other)
    assert not broken.passed
    assert broken.rules[0].detail == "1 of 1 left: q0000 (ranking_gap)"
    assert judged(tmp_path, rule, one, one).passed
    plain = write_run(tmp_path / "c", {"hit@5": [0, 0, 0]}, critical)
    with pytest.raises(InputError, match="failure classes"):
        judged(tmp_path, rule, one, plain)
    nobody = {"class": ["ok"] * 3}
    calm = write_run(tmp_path / "d", {"hit@5": [1, 1, 1]}, nobody)
    idle = judged(tmp_path, rule, calm, calm)
    assert "nothing was watched" in idle.rules[0].detail
    assert idle.rules[0].passed is None
    assert idle.passed
    assert judged(tmp_path, rule, other, one).rules[0].passed is None  # none was ok before


def test_fallbacks_break_the_gate_when_named_or_all(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", {"hit@5": [1]})
    other = write_run(tmp_path / "b", {"hit@5": [1]}, fallbacks={"cross_encoder_fallback": 2})
    named = "rules: [{rule: no_fallbacks, events: [cross_encoder_fallback]}]"
    assert judged(tmp_path, named, one, other).rules[0].detail == "cross_encoder_fallback: 2"
    assert not judged(tmp_path, "rules: [{rule: no_fallbacks}]", one, other).passed
    assert judged(
        tmp_path, "rules: [{rule: no_fallbacks, events: [scope_empty]}]", one, other
    ).passed


def test_metric_that_no_run_has_is_bad_input(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", {"hit@5": [1]})
    with pytest.raises(InputError, match=r"asks for judged@5.*they share hit@5"):
        judged(tmp_path, "rules: [{rule: at_least, metric: judged@5, value: 0.6}]", one, one)


def test_harmless_changes_break_the_gate_at_its_level(tmp_path: Path) -> None:
    # 120 comparisons by noise alone at 5 %: 6 expected, standard deviation 2.4. The long run is
    # benchmarks/gate_calibration.py.
    from experiments.comparison.significance import paired_randomisations

    rng = np.random.default_rng(3)
    columns = [rng.choice([0, 0, 0.3, -0.3, 0.5, -0.5], size=46) for _ in range(120)]
    tests = paired_randomisations(columns, permutations=1000)
    broken = sum(t.p_value / 2 <= 0.05 and c.sum() < 0 for t, c in zip(tests, columns, strict=True))
    assert 1 <= broken <= 13
