"""From the trials of a sweep to one configuration, and to what may be said of it.

Tuned on train, chosen on validation, judged once on test. Among the best on train, none of them
worse there than the default, the choice falls on the simplest configuration, the one closest to the
default, whose figure on validation is within one standard error of the best there (the rule of
Breiman et al., Classification and Regression Trees, 1984); what gains no more than one on the
default is no reason to leave it. The verdict is a paired randomisation test against the default.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from experiments.comparison.power import smallest_p
from experiments.comparison.significance import paired_bootstrap, paired_randomisation
from experiments.counting import counted
from experiments.intervals import bootstrap_mean
from gold import GoldSet
from gold.splitting import CROSS_VALIDATION_BELOW, make_splits
from gold.splitting import folds as make_folds
from retriever import InputError
from retriever.types import Floats

__all__ = [
    "ALPHA",
    "Candidate",
    "Judgement",
    "Partition",
    "choose",
    "expectation",
    "folds",
    "gaps",
    "in_words",
    "judge",
    "needs_folds",
    "on_test",
    "overfit_gap",
    "partition",
    "smallest_difference",
    "undivided",
]

ALPHA, POWER = 0.05, 0.8
# Best trials on train that validation chooses among: few, or it would be tuned on as well.
CANDIDATES = 10
# Said where fewer than six queries are judged: 2 / 2^5 is over 0.05, whatever they show.
TOO_FEW = "so few cannot show any difference to be significant, however large"
SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}


@dataclass(frozen=True)
class Partition:
    """Queries to tune on, to choose on and to judge on; disjoint in relevant documents.

    `left_out` are queries of a test split that share a relevant document with those tuned on.
    """

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]
    left_out: int = 0


def partition(
    gold: GoldSet, query_ids: Sequence[str], seed: int, judged: GoldSet | None = None
) -> Partition:
    """Divide queries by hash, their types balanced, queries that share a document kept together.

    With `judged`, another split of the same set, that is the test, less its queries that share a
    relevant document with these. Raises InputError where a part would be empty.
    """
    shares = dict(SHARES)
    if judged is not None:
        shares = {"train": 0.75, "validation": 0.25}
    kept = {query_id: gold.queries[query_id] for query_id in query_ids}
    qrels = {query_id: gold.qrels[query_id] for query_id in query_ids}
    found = make_splits(
        kept, qrels, shares, seed=f"sweep {seed}", relevant_from=gold.relevant_from
    ).assignment
    parts = {
        name: tuple(q for q in query_ids if found[q] == name)
        for name in ("train", "validation", "test")
    }
    left_out = 0
    if judged is not None:
        seen = {
            document
            for query_id in query_ids
            for document, grade in gold.qrels[query_id].items()
            if grade >= gold.relevant_from
        }
        clean = tuple(
            query_id
            for query_id, grades in judged.qrels.items()
            if any(grade >= judged.relevant_from for grade in grades.values())
            and not seen & {d for d, g in grades.items() if g >= judged.relevant_from}
            and query_id not in kept
        )
        scored = [
            q for q, g in judged.qrels.items() if any(v >= judged.relevant_from for v in g.values())
        ]
        left_out = len(scored) - len(clean)
        parts["test"] = clean
    empty = [name for name, queries in parts.items() if not queries]
    if empty:
        raise InputError(
            f"{counted(len(query_ids), 'query')}, divided without breaking up those that share a "
            f"document, leave none for {empty[0]}",
            path=gold.path,
            fix="cross-validate with --cv 5",
        )
    return Partition(parts["train"], parts["validation"], parts["test"], left_out)


def folds(gold: GoldSet, query_ids: Sequence[str], k: int, seed: int) -> tuple[Partition, ...]:
    """Return k partitions for nested cross-validation, each fold the test of one.

    The rest of a fold is divided 3 to 1 into train and validation.
    """
    kept = {query_id: gold.queries[query_id] for query_id in query_ids}
    qrels = {query_id: gold.qrels[query_id] for query_id in query_ids}
    outer = make_folds(kept, qrels, k, seed=f"sweep {seed}", relevant_from=gold.relevant_from)
    found = []
    for test in outer:
        rest = {q: kept[q] for q in query_ids if q not in set(test)}
        inner = make_splits(
            rest,
            {q: qrels[q] for q in rest},
            {"train": 0.75, "validation": 0.25},
            seed=f"sweep {seed}",
            relevant_from=gold.relevant_from,
        ).assignment
        train = tuple(q for q in rest if inner[q] == "train")
        validation = tuple(q for q in rest if inner[q] == "validation")
        found.append(Partition(train, validation or train, tuple(test)))
    return tuple(found)


def undivided(gold: GoldSet, query_ids: Sequence[str], seed: int) -> Partition:
    """Return train and validation, 3 to 1, of all queries: nothing is left to judge on.

    Of the configuration that is given out after a nested cross-validation.
    """
    found = make_splits(
        {q: gold.queries[q] for q in query_ids},
        {q: gold.qrels[q] for q in query_ids},
        {"train": 0.75, "validation": 0.25},
        seed=f"sweep {seed}",
        relevant_from=gold.relevant_from,
    ).assignment
    train = tuple(q for q in query_ids if found[q] == "train")
    validation = tuple(q for q in query_ids if found[q] == "validation")
    return Partition(train or validation, validation or train, ())


def needs_folds(queries: int) -> bool:
    """Tell whether a set is too small to be split three ways."""
    return queries < CROSS_VALIDATION_BELOW


@dataclass(frozen=True, eq=False)
class Candidate:
    """A finished trial: its overrides, how many parameters it changes, its train figure.

    `form` says what was made of the trial, where the candidate is not the trial itself.
    """

    number: int
    overrides: Mapping[str, Any]
    changed: int
    train: float
    form: str = ""

    @property
    def name(self) -> str:
        """What to call it."""
        if not self.changed:
            return "the default"
        return f"trial {self.number}, {self.form}" if self.form else f"trial {self.number}"


def choose(
    candidates: Sequence[Candidate], validation: Sequence[Floats]
) -> tuple[Candidate, Floats]:
    """Return the candidate that validation chooses, and its values there.

    `validation` holds each candidate's values by query; the default, where it is among them, comes
    first. The simplest is chosen of those within one standard error of the best that gain more
    than one standard error on the default. Without such a one, and on a single query, which has no
    error, it is the default. Standard errors are those of paired differences.
    """
    default = 0 if candidates[0].changed == 0 else None
    if default is not None and len(validation[default]) < 2:
        return candidates[default], validation[default]
    found = gaps(validation)
    within = [i for i, (behind, error) in enumerate(found) if behind <= error]
    if default is not None:
        gains = [_lead(values, validation[default]) for values in validation]
        within = [i for i in within if gains[i][0] > gains[i][1]] if default not in within else []
    if not within:
        within = [0]
    chosen = min(within, key=lambda i: (candidates[i].changed, found[i][0], candidates[i].number))
    return candidates[chosen], validation[chosen]


def gaps(validation: Sequence[Floats]) -> list[tuple[float, float]]:
    """Return how far each candidate's mean is behind the best one, and the standard error of that.

    `validation` holds each candidate's values by query; the error is that of paired differences.
    """
    best = max(validation, key=lambda values: float(values.mean()))
    return [_lead(best, values) for values in validation]


def _lead(values: Floats, other: Floats) -> tuple[float, float]:
    """Return how far a mean is ahead of another one, and the standard error of that."""
    ahead = values - other
    error = float(ahead.std(ddof=1)) / math.sqrt(len(ahead)) if len(ahead) > 1 else 0.0
    return float(values.mean()) - float(other.mean()), error


@dataclass(frozen=True)
class Judgement:
    """What the queries held out say: figures with 95 % intervals, a paired test, words.

    `smallest` is the true difference that this many queries would find with probability 0.8, given
    how far the two differ from query to query.
    """

    queries: int
    default: dict[str, float | None]
    chosen: dict[str, float | None]
    difference: float
    low: float | None
    high: float | None
    p_value: float
    smallest: float | None
    verdict: str
    words: str

    def to_json(self) -> dict[str, Any]:
        """Return the figures as sweep.json keeps them."""
        return {
            "queries": self.queries,
            "default": self.default["value"],
            "chosen": self.chosen["value"],
            "default_interval": [self.default["low"], self.default["high"]],
            "chosen_interval": [self.chosen["low"], self.chosen["high"]],
            "difference": self.difference,
            "low": self.low,
            "high": self.high,
            "p_value": self.p_value,
            "smallest_detectable": self.smallest,
        }


def judge(default: Floats, chosen: Floats, deviation: float | None, seed: int = 0) -> Judgement:
    """Compare the chosen configuration with the default, query by query.

    `deviation` stands in for that of the differences where these are all nought.
    """
    differences = chosen - default
    interval = paired_bootstrap(differences, seed=seed)
    p_value = paired_randomisation(differences, seed=seed).p_value or 1.0
    mean = float(differences.mean())
    n = len(differences)
    spread = float(differences.std(ddof=1)) if n > 1 else 0.0
    smallest = smallest_difference(spread or deviation, n)
    many = counted(n, "query")
    if p_value < ALPHA:
        verdict = "better" if mean > 0 else "worse"
        words = f"{verdict} than the default by {abs(mean):.4f} on {many} (p {p_value:.3g})"
    elif not differences.any():
        verdict = "not distinguishable"
        words = f"no different from the default on any of {many}"
    else:
        verdict = "not distinguishable"
        words = f"not distinguishable from the default on {many} (p {p_value:.3g})"
        if smallest is not None:
            words += f"; a true difference of {smallest:.3f} would be likely to show"
        elif smallest_p(n) >= ALPHA:
            words += f"; {TOO_FEW}"
    return Judgement(
        n,
        _interval(default, seed),
        _interval(chosen, seed),
        mean,
        interval.low,
        interval.high,
        p_value,
        smallest,
        verdict,
        words,
    )


def on_test(tested: Mapping[str, tuple[Floats, Floats]]) -> dict[str, dict[str, float]]:
    """Return {objective: {default, chosen, difference}}, means over the queries judged on.

    `tested` holds the values by query of the default and of the chosen configuration. Figures
    alone: the choice, the test and the verdict are the first objective's.
    """
    found = {}
    for name, values in tested.items():
        default, chosen = (float(one.mean()) for one in values)
        found[name] = {"default": default, "chosen": chosen, "difference": chosen - default}
    return found


def overfit_gap(gains: Sequence[float], queries: Sequence[int], difference: float) -> float:
    """Return the gain on train less that on test: what tuning promised and did not keep.

    `gains` are those of the chosen over the default on the train queries of each fold, weighted by
    the `queries` that the fold judges; without folds there is one.
    """
    return float(np.average(gains, weights=queries)) - difference


def in_words(judgement: Judgement, *, varied: bool, changed: int, folds: int) -> str:
    """Return the verdict as a sentence.

    `varied`: whether trials scored differently; `changed`: how many parameters the chosen
    configuration changes. With folds the test judges the procedure, fold by fold, and not the
    configuration that is given out: what it says is then said of the procedure.
    """
    if not varied:
        return "no variation: every trial scored the same; the default is kept"
    kept = "the default is kept: on validation nothing was better by more than a standard error"
    if folds:
        verdict = f"what is chosen in this way, judged fold by fold, is {judgement.words}"
        return verdict if changed else f"{kept}; {verdict}"
    if changed:
        return judgement.words
    many = counted(judgement.queries, "query")
    if judgement.smallest is None:
        few = smallest_p(judgement.queries) >= ALPHA
        return f"{kept}; {many} to judge on: {TOO_FEW}" if few else kept
    noticed = f"a true difference of {judgement.smallest:.3f} would be likely to show"
    return f"{kept}; on {many} {noticed}"


def expectation(deviation: float, queries: int) -> str:
    """Say before any trial what so many queries may show, `deviation` being that of differences."""
    if smallest_p(queries) >= ALPHA:
        return TOO_FEW
    smallest = smallest_difference(deviation, queries)
    if smallest is None:
        return "its figures are all alike and tell nothing of what may be found"
    return (
        f"a true difference of about {smallest:.3f} is likely to be found, a smaller one less so "
        "(a first estimate: power 0.8, level 0.05)"
    )


def smallest_difference(deviation: float | None, queries: int) -> float | None:
    """Return the true mean difference found significant with probability 0.8.

    None if that is unknown, or where no outcome on so few queries can be significant.

    (z(0.975) + z(0.8)) * deviation / sqrt(queries), the normal approximation of the paired test.
    """
    if not deviation or smallest_p(queries) >= ALPHA:
        return None
    normal = NormalDist()
    factor = normal.inv_cdf(1 - ALPHA / 2) + normal.inv_cdf(POWER)
    return min(1.0, factor * deviation / math.sqrt(queries))


def _interval(values: Floats, seed: int) -> dict[str, float | None]:
    found = bootstrap_mean(values, seed=seed)
    return {"value": found.value, "low": found.low, "high": found.high}
