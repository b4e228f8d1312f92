"""Scoring: names of measures, figures per query, means by group."""

import math
import random
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from experiments.metrics import Measure, mlflow_name, parse_measure, per_query, summarise, warm_up
from retriever import InputError


def score(ranking, judged, measure, **options):
    """The figure of one query for one measure."""
    scores = per_query({"q": ranking}, {"q": judged}, [parse_measure(measure)], **options)
    return float(scores.values[str(parse_measure(measure))][0])


# Names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spelling", "key"),
    [
        ("Hit@5", "hit@5"),
        ("hit_rate@5", "hit@5"),
        ("Success@1", "hit@1"),
        ("success_10", "hit@10"),
        ("MRR", "mrr"),
        ("RR@10", "mrr@10"),
        ("recip_rank", "mrr"),
        ("nDCG@10", "ndcg@10"),
        ("ndcg_cut_10", "ndcg@10"),
        ("ndcg_cut.10", "ndcg@10"),
        ("nDCG-Burges@10", "ndcg_burges@10"),
        ("R@100", "recall@100"),
        ("Recall@100", "recall@100"),
        ("P@5", "precision@5"),
        ("P_5", "precision@5"),
        ("AP@100", "map@100"),
        ("MAP", "map"),
        ("judged@10", "judged@10"),
        ("coverage@5", "coverage@5"),
        (" ndcg_at_10 ", "ndcg@10"),
    ],
)
def test_measure_is_read_when_spelt_the_usual_ways(spelling, key):
    assert str(parse_measure(spelling)) == key


@pytest.mark.parametrize("name", ["map", "mrr", "ndcg", "ndcg_burges"])
def test_key_reads_back_to_the_same_measure_when_it_has_no_cutoff(name):
    assert parse_measure(str(Measure(name))) == Measure(name)


def test_count_of_hits_is_refused_when_the_rate_may_be_meant():
    with pytest.raises(InputError, match=re.escape("hit@5")):
        parse_measure("hits@5")


@pytest.mark.parametrize(
    ("spelling", "nearest"),
    [("recal@100", "recall@10"), ("nddcg@10", "ndcg@10"), ("mrrr", "mrr@10"), ("hist@5", "hit@10")],
)
def test_unknown_measure_is_refused_when_a_known_one_is_near(spelling, nearest):
    with pytest.raises(InputError, match=f"nearest known: {nearest}"):
        parse_measure(spelling)


@pytest.mark.parametrize("spelling", ["", "@5", "ndcg@1e3", "ndcg@-1", "ndcg@5.5", "ndcg@", "42"])
def test_text_is_refused_when_it_is_no_measure(spelling):
    with pytest.raises(InputError, match="unknown measure"):
        parse_measure(spelling)


@pytest.mark.parametrize("spelling", ["hit", "recall", "precision", "judged", "coverage", "mrr@0"])
def test_measure_is_refused_when_its_cutoff_is_missing_or_zero(spelling):
    with pytest.raises(InputError, match="cutoff"):
        parse_measure(spelling)


def test_mlflow_name_has_no_at_sign_when_the_measure_has_a_cutoff():
    assert mlflow_name(Measure("hit", 5)) == "hit_at_5"
    assert mlflow_name(Measure("mrr")) == "mrr"


# Figures worked out by hand ---------------------------------------------------------------------

# Ranking b, x, a, c; a has grade 3, b 1, c -2, d 2 is not retrieved; x is not judged.
RANKING = ["b", "x", "a", "c"]
JUDGED = {"a": 3, "b": 1, "c": -2, "d": 2}


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("hit@1", 1.0),
        ("mrr", 1.0),
        ("precision@2", 1 / 2),
        ("precision@10", 2 / 10),  # the cutoff divides, not the four returned
        ("recall@2", 1 / 3),
        ("recall@100", 2 / 3),
        ("map", (1 / 1 + 2 / 3) / 3),  # relevant at ranks 1 and 3 of three relevant
        ("map@2", 1 / 3),
        ("judged@3", 2 / 3),
        ("judged@10", 3 / 4),  # four returned, three of them judged
        # Gains 1, 0, 3, 0: 1 + 3/log2(4) = 2.5. Ideal 3, 2, 1: 3 + 2/log2(3) + 1/2 = 4.761860.
        ("ndcg@10", 2.5 / 4.761860),
        # At 1: 1 of an ideal 3.
        ("ndcg@1", 1 / 3),
        # Gains 2^g - 1 = 1, 0, 7, 0: 1 + 7/2 = 4.5. Ideal 7 + 3/log2(3) + 1/2 = 9.392789.
        ("ndcg_burges", 4.5 / 9.392789),
    ],
)
def test_figure_equals_the_hand_worked_one_when_relevant_from_is_1(measure, expected):
    assert score(RANKING, JUDGED, measure) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("hit@1", 0.0),  # b has grade 1 and no longer counts
        ("mrr", 1 / 3),
        ("mrr@2", 0.0),
        ("precision@3", 1 / 3),
        ("recall@100", 1 / 2),
        ("map", (1 / 3) / 2),
        ("judged@3", 2 / 3),
        ("ndcg@10", 2.5 / 4.761860),  # the gains stay: grade 1 is still worth 1
    ],
)
def test_figure_equals_the_hand_worked_one_when_relevant_from_is_2(measure, expected):
    assert score(RANKING, JUDGED, measure, relevant_from=2) == pytest.approx(expected, abs=1e-6)


def test_linear_and_exponential_gain_differ_when_grades_do():
    # {a: 3, b: 1} ranked b, a. Linear: (1 + 3/log2(3)) / (3 + 1/log2(3)) = 2.892789 / 3.630930.
    # Exponential: (1 + 7/log2(3)) / (7 + 1/log2(3)) = 5.416508 / 7.630930.
    assert score(["b", "a"], {"a": 3, "b": 1}, "ndcg@5") == pytest.approx(0.7967, abs=5e-5)
    assert score(["b", "a"], {"a": 3, "b": 1}, "ndcg_burges@5") == pytest.approx(0.7098, abs=5e-5)


def test_ndcg_is_below_1_when_relevant_documents_are_missing():
    # One of three at rank 1: 1 / (1 + 1/log2(3) + 1/2) = 1 / 2.130930 = .469279
    figure = score(["a"], {"a": 1, "b": 1, "c": 1}, "ndcg@10")
    assert figure == pytest.approx(0.469279, abs=1e-6)


def test_negative_grade_is_no_negative_gain_when_it_is_retrieved_first():
    # x has gain 0, a is at rank 2: 1 / log2(3) = .630930
    assert score(["x", "a"], {"x": -2, "a": 1}, "ndcg@10") == pytest.approx(0.630930, abs=1e-6)


# The query grid ---------------------------------------------------------------------------------

ALL_MEASURES = [
    *[Measure(name, 5) for name in ("hit", "recall", "precision", "judged")],
    *[
        Measure(name, cutoff)
        for name in ("mrr", "map", "ndcg", "ndcg_burges")
        for cutoff in (3, None)
    ],
]


def test_query_counts_zero_when_the_run_does_not_answer_it():
    scores = per_query({"q1": ["a"]}, {"q1": {"a": 1}, "q2": {"a": 1}}, ALL_MEASURES)
    assert scores.query_ids == ("q1", "q2")
    assert scores.unanswered == ("q2",)
    assert {float(column[1]) for column in scores.values.values()} == {0.0}


def test_query_is_left_out_and_named_when_nothing_relevant_is_judged():
    qrels = {"q1": {"a": 1}, "q2": {"a": 0, "b": -1}, "q3": {}, "q4": {"a": 1}}
    scores = per_query({"q1": ["a"], "q2": ["a"], "q4": ["a"]}, qrels, ALL_MEASURES)
    assert scores.query_ids == ("q1", "q4")
    assert scores.unscorable == ("q2", "q3")
    assert scores.unanswered == ()
    assert scores.values["hit@5"].tolist() == [1.0, 1.0]


def test_query_is_unscorable_when_its_grades_stay_below_the_level():
    scores = per_query({}, {"q1": {"a": 1}, "q2": {"a": 2}}, ALL_MEASURES, relevant_from=2)
    assert (scores.query_ids, scores.unscorable) == (("q2",), ("q1",))


def test_query_is_named_and_ignored_when_the_run_alone_has_it():
    scores = per_query({"q1": ["a"], "q9": ["a", "a"]}, {"q1": {"a": 1}}, ALL_MEASURES)
    assert scores.extra == ("q9",)
    assert scores.query_ids == ("q1",)


@pytest.mark.parametrize("rankings", [{}, {"q1": [], "q2": []}])
def test_everything_is_zero_when_nothing_was_retrieved_at_all(rankings):
    scores = per_query(rankings, {"q1": {"a": 1}, "q2": {"b": 2}}, ALL_MEASURES)
    assert scores.unanswered == ("q1", "q2")
    assert all(column.tolist() == [0.0, 0.0] for column in scores.values.values())


def test_columns_are_empty_when_no_query_is_scorable():
    scores = per_query({"q": ["a"]}, {"q": {"a": 0}}, ALL_MEASURES)
    assert {len(column) for column in scores.values.values()} == {0}


def test_scores_are_the_same_bits_when_the_queries_come_in_another_order():
    draw = random.Random(5)
    rankings = {f"q{i}": draw.sample("abcdefghij", 7) for i in range(60)}
    qrels = {q: {d: draw.choice([-1, 0, 1, 2, 3]) for d in "abcdefghij"} for q in rankings}
    order = list(rankings)
    draw.shuffle(order)
    straight = per_query(rankings, qrels, ALL_MEASURES)
    shuffled = per_query(
        {q: rankings[q] for q in order},
        {q: dict(reversed(qrels[q].items())) for q in reversed(order)},
        ALL_MEASURES,
    )
    assert straight.query_ids == shuffled.query_ids
    for key, column in straight.values.items():
        assert column.tobytes() == shuffled.values[key].tobytes()
    assert summarise(straight, resamples=50) == summarise(shuffled, resamples=50)


def test_figures_of_a_query_stay_the_same_when_others_are_scored_beside_it():
    qrels = {"q1": JUDGED, "q2": {f"d{i}": 3 for i in range(40)}}
    alone = per_query({"q1": RANKING}, {"q1": JUDGED}, ALL_MEASURES)
    beside = per_query({"q1": RANKING, "q2": [f"d{i}" for i in range(300)]}, qrels, ALL_MEASURES)
    for key, column in alone.values.items():
        assert column[0] == beside.values[key][0]


def test_measures_are_the_same_when_threads_score_at_once():
    # numba ends the whole process when two threads enter its kernels together.
    qrels = {f"q{i}": JUDGED for i in range(50)}
    rankings = dict.fromkeys(qrels, RANKING)
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(per_query, rankings, qrels, ALL_MEASURES) for _ in range(12)]
        figures = {job.result().values["map"].tobytes() for job in jobs}
    assert len(figures) == 1


def test_values_cannot_be_written_when_they_are_handed_out():
    scores = per_query({"q": ["a"]}, {"q": {"a": 1}}, [Measure("mrr"), Measure("judged", 5)])
    with pytest.raises(ValueError, match="read-only"):
        scores.values["judged@5"][0] = 0.0


def test_columns_stand_in_the_order_asked_when_kinds_of_measure_mix():
    asked = [Measure("judged", 5), Measure("mrr"), Measure("coverage", 5), Measure("hit", 5)]
    scores = per_query({"q": ["a"]}, {"q": {"a": 1}}, asked, coverage={})
    assert list(scores.values) == ["judged@5", "mrr", "coverage@5", "hit@5"]


def test_warm_up_returns_when_ranx_is_there():
    assert warm_up() is None


# Refusals ---------------------------------------------------------------------------------------


def test_ranking_is_refused_when_a_document_stands_twice():
    with pytest.raises(ValueError, match="'q' ranks 'b' twice"):
        score(["a", "b", "c", "b"], {"a": 1}, "mrr")


@pytest.mark.parametrize("grade", [0.9, 1.0, "1", None, math.nan])
def test_grade_is_refused_when_it_is_no_integer(grade):
    with pytest.raises(ValueError, match="integer grades"):
        score(["a"], {"a": grade}, "mrr")


@pytest.mark.parametrize("level", [0, -1])
def test_level_is_refused_when_it_makes_the_irrelevant_relevant(level):
    with pytest.raises(ValueError, match="relevant_from"):
        score(["a"], {"a": 1}, "mrr", relevant_from=level)


def test_exponential_gain_is_refused_when_a_grade_overflows_it():
    with pytest.raises(InputError, match=r"query 'q', document 'a': the grade 2000: .*overflow"):
        score(["a"], {"a": 2000}, "ndcg_burges@5")
    assert score(["a"], {"a": 1000}, "ndcg_burges@5") == 1.0


@pytest.mark.parametrize("grade", [10**400, -(10**400), 10**5000], ids=["big", "negative", "huge"])
def test_grade_is_refused_when_no_float_holds_it(grade):
    with pytest.raises(InputError, match=r"query 'q', document 'a': the grade of .* bits"):
        score(["a"], {"a": grade}, "ndcg@5")


def test_measure_is_refused_when_its_name_is_none_of_ours():
    with pytest.raises(ValueError, match="unknown measure"):
        Measure("bpref")


# Coverage of terms ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by_rank", "expected"),
    [([0.0, 0.5, 0.5, 0.75], 0.5), ([0.25], 0.25), ([], 0.0), (None, math.nan)],
)
def test_coverage_reads_the_rank_of_the_cutoff_when_there_is_one(by_rank, expected):
    figure = score(["a", "b", "c"], {"a": 1}, "coverage@3", coverage={"q": by_rank})
    assert figure == pytest.approx(expected, nan_ok=True)


def test_coverage_is_undefined_when_the_query_has_none_given():
    assert math.isnan(score(["a"], {"a": 1}, "coverage@5", coverage={}))


def test_coverage_is_refused_when_it_was_never_computed():
    with pytest.raises(ValueError, match="coverage@5"):
        score(["a"], {"a": 1}, "coverage@5")


@pytest.mark.parametrize("bad", [1.5, -0.1, math.nan])
def test_coverage_is_refused_when_it_is_no_share(bad):
    with pytest.raises(ValueError, match="not a share"):
        score(["a"], {"a": 1}, "coverage@5", coverage={"q": [bad]})


# Means ------------------------------------------------------------------------------------------


def test_summary_gives_wilson_bounds_when_the_measure_is_a_rate():
    qrels = {f"q{i:02}": {"a": 1} for i in range(46)}
    rankings = {q: ["a"] if i < 40 else ["b"] for i, q in enumerate(qrels)}
    scores = per_query(rankings, qrels, [Measure("hit", 5), Measure("precision", 1)])
    for row in summarise(scores):
        assert (row.group, row.n, row.undefined) == (None, 46, 0)
        assert (round(row.low, 3), round(row.high, 3)) == (0.743, 0.939)


def test_summary_counts_queries_beside_the_mean_when_they_have_no_figure():
    qrels = {"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 1}}
    coverage = {"q1": [1.0], "q2": [0.5], "q3": None}
    scores = per_query(
        {q: ["a"] for q in qrels},
        qrels,
        [Measure("coverage", 5), Measure("mrr")],
        coverage=coverage,
    )
    covered, reciprocal = summarise(scores)
    assert (covered.value, covered.n, covered.undefined) == (0.75, 2, 1)
    assert (reciprocal.value, reciprocal.n, reciprocal.undefined) == (1.0, 3, 0)


def test_summary_goes_by_group_when_groups_are_given():
    qrels = {"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 1}}
    scores = per_query({"q1": ["a"], "q2": ["b", "a"]}, qrels, [Measure("mrr")])
    rows = summarise(scores, {"q1": "label", "q2": "label", "q3": "article"})
    assert [(row.group, row.value, row.n) for row in rows] == [
        (None, 0.5, 3),  # (1 + 1/2 + 0) / 3
        ("article", 0.0, 1),
        ("label", 0.75, 2),
    ]


def test_summary_is_undefined_when_no_query_is_scorable():
    scores = per_query({}, {"q": {}}, [Measure("hit", 5), Measure("mrr")])
    assert [(row.value, row.low, row.high, row.n) for row in summarise(scores)] == [
        (None, None, None, 0)
    ] * 2


def test_summary_is_refused_when_a_query_has_no_group():
    scores = per_query({"q": ["a"]}, {"q": {"a": 1}}, [Measure("mrr")])
    with pytest.raises(ValueError, match="'q' belongs to no group"):
        summarise(scores, {})


def test_inputs_stay_as_they_were_when_they_are_scored():
    rankings, qrels = {"q1": RANKING.copy(), "x": ["a"]}, {"q1": dict(JUDGED), "q2": {"a": 1}}
    per_query(rankings, qrels, ALL_MEASURES)
    assert rankings == {"q1": ["b", "x", "a", "c"], "x": ["a"]}
    assert qrels == {"q1": {"a": 3, "b": 1, "c": -2, "d": 2}, "q2": {"a": 1}}
    assert np.all(per_query(rankings, qrels, [Measure("mrr")]).values["mrr"] == [1.0, 0.0])
