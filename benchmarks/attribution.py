"""How often a planted change of one parameter among five is named for the queries that it moved.

    python benchmarks/attribution.py [GOLD]

A query counts where the planted change alone moves it from the baseline and it is moved in the
candidate, too, which has four more changes. With mild company every companion moves a query or more
by itself, a tenth of them at most; with strong company one of the four is as large as the planted
change. `put back`: the candidate without the planted change undoes the move. `made alone only`: it
does not, but the baseline with the planted change makes the whole move. `named`: either. `or in a
pair`: also where putting it back with one more undoes it. `turned`: the planted change moved the
query one way and the five together the other, so that nothing could be named rightly.
"""

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.commands.opening import vector_cache
from experiments.comparison.attribution import attribute
from experiments.comparison.pairing import pair
from experiments.comparison.significance import TIE
from experiments.evaluate import evaluate
from experiments.metrics import Measure
from experiments.recorded import RecordedRun
from gold import GoldSet, load
from retriever import Retriever, RetrieverConfig, build_index

DATA = Path(os.environ.get("ASSAY_DATA", "../shared/data"))
NDCG = Measure("ndcg", 10)
PROFILES = "plugins.biomed.rerank_merged.profiles"

# By the name under which a comparison shows it; one change of one parameter each.
STRONG: Mapping[str, Any] = {
    "merge.method": "rrf",
    "merge.weights": {"dense": 0.9, "bm25": 0.1},
    "route.bm25_search": False,
    "route.dense_search": False,
    "route.recall_top_k": 5,
}
MILD: Mapping[str, Any] = {
    "merge.weights": {"dense": 0.52, "bm25": 0.48},
    "route.recall_top_k": 80,
    f"{PROFILES}.default.w_rank": 0.2,
    "index.bm25.k1": 1.4,
    f"{PROFILES}.drug_entity.w_entity": 0.4,
    "rerank_merged.rerank_policy": "none",
}
PLANTED = ("merge.method", "merge.weights", "route.bm25_search", "route.dense_search")
COMPANY = {
    "merge.method": "merge.weights",
    "merge.weights": "route.recall_top_k",
    "route.bm25_search": "merge.method",
    "route.dense_search": "merge.weights",
}
HEAD = (
    "company",
    "planted",
    "queries",
    "put back",
    "made alone only",
    "named",
    "or in a pair",
    "turned",
)


@dataclass(frozen=True)
class Bench:
    """A gold set with the runs that were made on it, by what they change."""

    gold: GoldSet
    folder: Path
    made: dict[str, RecordedRun]

    def run(self, changes: Mapping[str, Any]) -> RecordedRun:
        """Evaluate the defaults with some changes, once."""
        config = RetrieverConfig().with_overrides(changes)
        if config.fingerprint not in self.made:
            index = build_index(
                self.gold.path,
                self.folder / "index" / config.index.fingerprint[:16],
                config,
                cache=vector_cache(),
            ).index
            retriever = Retriever.open(index, config, cache=vector_cache())
            done = evaluate(self.gold, retriever, self.folder / config.fingerprint[:16])
            self.made[config.fingerprint] = RecordedRun.open(done.path)
        return self.made[config.fingerprint]

    def moved(self, changes: Mapping[str, Any]) -> "np.ndarray[Any, Any]":
        """How far some changes move each query from the defaults."""
        pairing = pair(self.run({}), self.run(changes))
        one, other = pairing.values(NDCG)
        return other - one


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gold", nargs="?", type=Path, default=DATA / "scifact")
    given = parser.parse_args().gold
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(load(given), Path(folder), {})
        most = len(bench.moved({})) // 10
        mild = {n: value for n, value in MILD.items() if 0 < _count(bench, {n: value}) <= most}
        print(f"{given.name}: queries that each companion moves alone:")
        for name, value in mild.items():
            print(f"  {name} {value}: {_count(bench, {name: value})}")
        print(f"\n{_line(HEAD)}\n{_line(['---', '---', *['---:'] * (len(HEAD) - 2)])}")
        for kind in ("mild", "strong"):
            totals = np.zeros(6, dtype=int)
            for planted in PLANTED:
                rest = [name for name in mild if name != planted]
                company = {name: mild[name] for name in rest[:4]}
                if kind == "strong":
                    other = COMPANY[planted]
                    rest = [name for name in rest if name != other]
                    company = {other: STRONG[other], **{name: mild[name] for name in rest[:3]}}
                counts = _named(bench, planted, company)
                totals += counts
                alone = _count(bench, {planted: STRONG[planted]})
                print(_row([kind, f"{planted}, {alone} moved"], counts))
            print(_row([kind, "all"], totals))


def _count(bench: Bench, changes: Mapping[str, Any]) -> int:
    return int((np.abs(bench.moved(changes)) > TIE).sum())


def _named(bench: Bench, planted: str, company: Mapping[str, Any]) -> "np.ndarray[Any, Any]":
    """Count queries: that count, put back, made alone, named, or in a pair, turned."""
    baseline = bench.run({})
    candidate = bench.run({planted: STRONG[planted], **company})
    pairing = pair(baseline, candidate)
    found = attribute(pairing, NDCG)
    if len(found["differences"]) != 1 + len(company):
        raise SystemExit(f"expected five differences, got {found['differences']}")
    alone, together = (
        bench.moved({planted: STRONG[planted]}),
        bench.moved({planted: STRONG[planted], **company}),
    )
    counted = (np.abs(alone) > TIE) & (np.abs(together) > TIE)
    by_id = {query["query_id"]: query for query in found["queries"]}
    rows = [
        (
            [planted] in query["causes"],
            planted in query["made_alone"],
            any(planted in names for names in query["causes"]),
            turned,
        )
        for query_id, counts, turned in zip(
            pairing.query_ids, counted, np.sign(alone) != np.sign(together), strict=True
        )
        if counts
        for query in [by_id[query_id]]
    ]
    back, made, pairs, turned = np.array(rows, dtype=bool).reshape(-1, 4).T
    columns = (np.ones(len(rows), dtype=bool), back, made, back | made, back | made | pairs, turned)
    return np.array([int(column.sum()) for column in columns])


def _row(names: Sequence[str], counts: "np.ndarray[Any, Any]") -> str:
    queries, *parts, turned = counts
    shares = [f"{part / max(queries, 1):.3f}" for part in parts]
    return _line([*names, str(queries), *shares, str(turned)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
