"""Scoring: measures as values, per-query figures over rankings, means with intervals.

ranx computes every measure it knows. It is called at its kernels (`ranx.metrics`) with arrays built
here: the way in through its `Qrels` and `Run` hashes document ids to 53 bits, has no rule for ties,
refuses a query that one side lacks and takes three times as long.
"""

import difflib
import re
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.intervals import bootstrap_means, wilson
from gold.terms import comparable, term_pattern
from reports.measure_names import LINKING, NAMES, WITHOUT_CUTOFF, is_rate
from retriever import InputError

__all__ = [
    "LINKING",
    "Measure",
    "Scores",
    "Summary",
    "by_metric",
    "coverage_by_rank",
    "mlflow_name",
    "parse_measure",
    "per_query",
    "summarise",
    "term_coverage",
    "warm_up",
]

Floats = npt.NDArray[np.float64]
Qrels = Mapping[str, Mapping[str, int]]

_RANX_FUNCTION = {
    "hit": "hit_rate",
    "map": "average_precision",
    "mrr": "reciprocal_rank",
    "ndcg": "ndcg",
    "ndcg_burges": "ndcg_burges",
    "precision": "precision",
    "recall": "recall",
}
_GRADED = {"ndcg", "ndcg_burges"}
_SPELLINGS = {
    "ap": "map",
    "average_precision": "map",
    "hit_rate": "hit",
    "hitrate": "hit",
    "map_cut": "map",
    "ndcg_cut": "ndcg",
    "p": "precision",
    "r": "recall",
    "recip_rank": "mrr",
    "reciprocal_rank": "mrr",
    "rr": "mrr",
    "success": "hit",
    "term_coverage": "coverage",
} | {name: name for name in NAMES}

# Beyond it the exponential gains of one query could add up to more than a float holds.
_LARGEST_EXPONENT = 1000
_LARGEST_GRADE = 2**53  # the largest that a float holds exactly

# numba's default threading layer ends the process when two threads enter a kernel at once.
_KERNELS = threading.Lock()


@dataclass(frozen=True)
class Measure:
    """One measure at one cutoff; `str` gives its key in every file: `ndcg@10`, `mrr`.

    hit, precision and recall count grades from `relevant_from` on; mrr is the reciprocal rank of
    the first such document, map the average precision. ndcg takes the grade itself as gain
    (Järvelin and Kekäläinen 2002), ndcg_burges 2^grade - 1 (Burges et al. 2005). judged is the
    judged share of what was returned, coverage the share of the expected terms found. accuracy and
    its two halves are of entity linking.

    Raises ValueError for an unknown name, a cutoff below 1, or none where one is needed.
    """

    name: str
    cutoff: int | None = None

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ValueError(f"unknown measure {self.name!r}: expected one of {', '.join(NAMES)}")
        if self.cutoff is None and self.name not in WITHOUT_CUTOFF:
            raise ValueError(f"{self.name} needs a cutoff: {self.name}@10")
        if self.cutoff is not None and self.cutoff < 1:
            raise ValueError(f"{self.name}: expected a cutoff of at least 1, got {self.cutoff}")

    def __str__(self) -> str:
        return self.name if self.cutoff is None else f"{self.name}@{self.cutoff}"

    @property
    def is_rate(self) -> bool:
        """Whether every query scores 0 or 1, so that the mean is a rate of successes."""
        return is_rate(str(self))


def parse_measure(text: str) -> Measure:
    """Read a measure in any case and in the spellings of trec_eval, ranx and ir_measures.

    Raises InputError naming the nearest known measure when it is unknown. `hits@5`, in ranx the
    number of relevant documents found, is refused rather than taken for the rate `hit@5`.
    """
    spelt = re.sub(r"[\s-]+", "_", text.strip().lower())
    parts = re.fullmatch(r"([a-z_]*?[a-z])(?:(?:[@._]|_at_)([0-9]+))?", spelt)
    name, cutoff = parts.groups() if parts else (spelt, None)
    if name == "hits":
        rate = f"hit@{cutoff or 5}"
        raise InputError(
            f"measure {text!r} is a count of documents", fix=f"for the hit rate ask {rate}"
        )
    if name not in _SPELLINGS:
        letters = re.split(r"[^a-z_]", name)[0]
        nearest = _SPELLINGS[difflib.get_close_matches(letters, _SPELLINGS, 1, 0.0)[0]]
        raise InputError(f"unknown measure {text!r}", fix=f"nearest known: {nearest}@10")
    try:
        return Measure(_SPELLINGS[name], int(cutoff) if cutoff else None)
    except ValueError as error:
        raise InputError(f"measure {text!r}: {error}") from error


def mlflow_name(measure: Measure) -> str:
    """Return the key MLflow accepts, which has no `@`: `hit_at_5`."""
    return str(measure).replace("@", "_at_")


@dataclass(frozen=True, eq=False)
class Scores:
    """Per-query figures of one run, every array aligned to `query_ids` and read-only.

    `values` maps the key of a measure to float64 values of shape (queries,); NaN is a figure that
    is undefined for that query (coverage without expected terms). `query_ids` are the scorable
    queries, sorted, so that no order of the input reaches a sum. `unanswered` are those of them
    for which nothing was returned: they score 0. `unscorable` queries are judged but have no
    relevant document; `extra` ones are in the run alone. Neither counts anywhere.
    """

    query_ids: tuple[str, ...]
    values: Mapping[str, Floats]
    unanswered: tuple[str, ...]
    unscorable: tuple[str, ...]
    extra: tuple[str, ...]


def per_query(
    rankings: Mapping[str, Sequence[str]],
    qrels: Qrels,
    measures: Sequence[Measure],
    *,
    relevant_from: int = 1,
    coverage: Mapping[str, Sequence[float] | None] | None = None,
) -> Scores:
    """Score rankings (document ids, best first) against graded judgements, query by query.

    The figures equal those of trec_eval on a run file that carries these orders, `-l
    relevant_from`: a grade counts as relevant from there on, except that nDCG takes every grade
    above 0 as its gain whatever that level is, and a negative grade is neither relevant nor a
    negative gain. `judged@k` divides by what was returned, at most k; nothing returned: 0.

    `coverage` holds for a query the coverage of its expected terms by the texts of the first 1,
    2, ... ranks, as `coverage_by_rank` gives it; coverage@k reads place k, or the last one of a
    shorter ranking (an empty one: 0). None or no entry means no expected terms: undefined, NaN.

    Raises InputError, naming query and grade, for a grade beyond 2**53 or, with ndcg_burges, 1000:
    its gain is too large to add up. Raises ValueError for a document twice in one ranking, a grade
    that is no integer, a `relevant_from` below 1, or coverage asked for and not given.
    """
    if relevant_from < 1:
        raise ValueError(f"expected relevant_from of at least 1, got {relevant_from}")
    _check(rankings, qrels)
    _check_sizes(qrels, measures)
    scorable = [
        query_id
        for query_id in sorted(qrels)
        if any(grade >= relevant_from for grade in qrels[query_id].values())
    ]
    answers = [rankings.get(query_id, ()) for query_id in scorable]
    judgements = [qrels[query_id] for query_id in scorable]
    values = _ranx_values(answers, judgements, measures, relevant_from)
    for measure in measures:
        if measure.name == "judged":
            values[str(measure)] = _judged_shares(answers, judgements, measure)
        elif measure.name == "coverage":
            values[str(measure)] = _coverage_values(scorable, coverage, measure)
    for column in values.values():
        column.flags.writeable = False
    return Scores(
        query_ids=tuple(scorable),
        values={str(measure): values[str(measure)] for measure in measures},
        unanswered=tuple(q for q, answer in zip(scorable, answers, strict=True) if not answer),
        unscorable=tuple(sorted(qrels.keys() - set(scorable))),
        extra=tuple(sorted(rankings.keys() - qrels.keys())),
    )


def _check(rankings: Mapping[str, Sequence[str]], qrels: Qrels) -> None:
    for query_id, judged in qrels.items():
        odd = [pair for pair in judged.items() if not isinstance(pair[1], int)]
        if odd:
            raise ValueError(f"query {query_id!r}: expected integer grades, got {odd[0]}")
        answer = rankings.get(query_id, ())
        if len(set(answer)) < len(answer):
            twice = Counter(answer).most_common(1)[0][0]
            raise ValueError(f"query {query_id!r} ranks {twice!r} twice: keep its best rank")


def _check_sizes(qrels: Qrels, measures: Sequence[Measure]) -> None:
    exponential = any(measure.name == "ndcg_burges" for measure in measures)
    largest = _LARGEST_EXPONENT if exponential else _LARGEST_GRADE
    for query_id, judged in qrels.items():
        for document_id, grade in judged.items():
            if grade > largest or grade < -_LARGEST_GRADE:
                # Python writes no integer of more than 4300 digits.
                shown = grade if abs(grade) < 10**20 else f"of {grade.bit_length()} bits"
                what = "2^grade overflows ndcg_burges" if exponential else "too large for a gain"
                raise InputError(
                    f"query {query_id!r}, document {document_id!r}: the grade {shown}: {what}",
                    fix=f"grade at most {largest}",
                )


def _ranx_values(
    answers: Sequence[Sequence[str]],
    judgements: Sequence[Mapping[str, int]],
    measures: Sequence[Measure],
    relevant_from: int,
) -> dict[str, Floats]:
    wanted = [measure for measure in measures if measure.name in _RANX_FUNCTION]
    if not wanted or not answers:
        return {str(measure): np.zeros(len(answers)) for measure in wanted}
    with _KERNELS, warnings.catch_warnings():
        # Python warns of the escapes in ranx's LaTeX strings when it first compiles them.
        warnings.simplefilter("ignore")
        from ranx import metrics
    gold, run = _arrays(answers, judgements)
    values = {}
    for measure in wanted:
        kernel = getattr(metrics, _RANX_FUNCTION[measure.name])
        # ranx drops the gains below the level; trec_eval's level does not touch nDCG.
        level = 1 if measure.name in _GRADED else relevant_from
        with _KERNELS:
            column = np.asarray(kernel(gold, run, measure.cutoff or 0, level), dtype=np.float64)
        values[str(measure)] = column
    return values


def _arrays(
    answers: Sequence[Sequence[str]], judgements: Sequence[Mapping[str, int]]
) -> tuple[Floats, Floats]:
    """Return gold of shape (queries, positives, 2) and run of (queries, depth, 2): (id, value).

    Within a query the id of a document with a positive grade is its place by falling grade, the
    order in which ranx reads the ideal ranking; all others are -1 and match nothing. Rows are
    filled up with grade 0, which ranx leaves out at every level from 1, and with id -1.
    """
    positives = [
        sorted(((d, g) for d, g in judged.items() if g > 0), key=lambda pair: -pair[1])
        for judged in judgements
    ]
    depth = max(len(answer) for answer in answers)
    gold = np.zeros((len(answers), max(len(pairs) for pairs in positives), 2))
    gold[:, :, 0] = -2.0
    run = np.full((len(answers), depth, 2), -1.0)
    run[:, :, 1] = np.arange(depth, 0, -1)
    for row, (answer, pairs) in enumerate(zip(answers, positives, strict=True)):
        gold[row, : len(pairs), 0] = np.arange(len(pairs))
        gold[row, : len(pairs), 1] = [grade for _, grade in pairs]
        places = {document_id: place for place, (document_id, _) in enumerate(pairs)}
        run[row, : len(answer), 0] = [places.get(document_id, -1) for document_id in answer]
    return gold, run


def _judged_shares(
    answers: Sequence[Sequence[str]], judgements: Sequence[Mapping[str, int]], measure: Measure
) -> Floats:
    shares = np.zeros(len(answers))
    for row, (answer, judged) in enumerate(zip(answers, judgements, strict=True)):
        top = answer[: measure.cutoff]
        if top:
            shares[row] = sum(document_id in judged for document_id in top) / len(top)
    return shares


def _coverage_values(
    query_ids: Sequence[str],
    coverage: Mapping[str, Sequence[float] | None] | None,
    measure: Measure,
) -> Floats:
    if coverage is None:
        raise ValueError(f"{measure} needs the coverage of each query by rank")
    values = np.full(len(query_ids), np.nan)
    for row, query_id in enumerate(query_ids):
        by_rank = coverage.get(query_id)
        if by_rank is not None:
            top = by_rank[: measure.cutoff]
            values[row] = top[-1] if len(top) else 0.0
            if not 0 <= values[row] <= 1:
                raise ValueError(f"query {query_id!r}: coverage {values[row]} is not a share")
    return values


def term_coverage(terms: Iterable[str], texts: Iterable[str]) -> float | None:
    """Share of the distinct expected terms that occur in at least one of the texts, 0 to 1.

    A term occurs where no letter or digit touches a letter or digit at its ends (`MET` is not in
    `metastatic`, `IL-1` not in `IL-17`), in any case, after Unicode NFC, any white space being one
    space. None when there are no terms: the share is undefined. Raises ValueError for a blank term.
    """
    by_rank = coverage_by_rank(terms, [list(texts)])
    return None if by_rank is None else by_rank[0]


def coverage_by_rank(
    terms: Iterable[str], texts_by_rank: Iterable[Iterable[str]]
) -> list[float] | None:
    """Coverage of the terms by the texts of the first 1, 2, ... ranks; see `term_coverage`.

    Each item of `texts_by_rank` holds the texts found at that rank: one for a chunk, the retrieved
    chunks for a document. None when there are no terms.
    """
    distinct = {comparable(term) for term in terms}
    if "" in distinct:
        raise ValueError("an expected term is blank: it would be found everywhere")
    if not distinct:
        return None
    missing = {term_pattern(term) for term in distinct}
    shares = []
    for texts in texts_by_rank:
        for text in map(comparable, texts) if missing else ():
            missing = {pattern for pattern in missing if not pattern.search(text)}
        shares.append((len(distinct) - len(missing)) / len(distinct))
    return shares


@dataclass(frozen=True)
class Summary:
    """The mean of one measure over one group of queries, with its interval.

    `group` is None over all queries. `n` queries have a figure; `undefined` more have none and
    are not in the mean. `value` is None when n is 0, the bounds also when n is too small for any.
    """

    group: str | None
    measure: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    undefined: int


def summarise(
    scores: Scores,
    groups: Mapping[str, str] | None = None,
    *,
    resamples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> list[Summary]:
    """Means with confidence intervals: over all queries, then by group in the order of their names.

    Rates (hit@k, and what else is 0 or 1 by definition) get Wilson's interval, all else the
    percentile bootstrap; see `experiments.intervals`. `groups` names the group of every scorable
    query, its type or its workflow; a query without one raises ValueError.
    """
    members: dict[str | None, list[int]] = {None: list(range(len(scores.query_ids)))}
    if groups is not None:
        by_group: dict[str, list[int]] = {}
        for row, query_id in enumerate(scores.query_ids):
            if query_id not in groups:
                raise ValueError(f"query {query_id!r} belongs to no group")
            by_group.setdefault(groups[query_id], []).append(row)
        members |= dict(sorted(by_group.items()))
    summaries = []
    for group, rows in members.items():
        columns = [column[rows] for column in scores.values.values()]
        defined = [column[~np.isnan(column)] for column in columns]
        resampled = bootstrap_means(defined, resamples, seed, level)
        for key, column, interval in zip(scores.values, defined, resampled, strict=True):
            if parse_measure(key).is_rate:
                interval = wilson(int(column.sum()), len(column), level)
            mean, low, high, n = interval.value, interval.low, interval.high, interval.n
            summaries.append(Summary(group, key, mean, low, high, n, len(rows) - n))
    return summaries


def warm_up() -> None:
    """Import ranx and have numba load or compile its kernels, so that scoring starts at once.

    On a fresh machine compiling takes 20 to 100 s; afterwards the import takes 2 to 3 s and the
    kernels a third of a second. numba keeps the compiled code in `__pycache__` beside ranx, in
    the user's cache folder when that is not writable, or in `NUMBA_CACHE_DIR` when that is set.
    """
    per_query({"q": ["d"]}, {"q": {"d": 1}}, [Measure(name, 1) for name in _RANX_FUNCTION])


def by_metric(summaries: Iterable[Summary]) -> dict[str, dict[str, Any]]:
    """Return the figures of one group as run.json holds them, by name."""
    return {
        s.measure: {
            "value": s.value,
            "low": s.low,
            "high": s.high,
            "queries": s.n,
            "undefined": s.undefined,
        }
        for s in summaries
    }
