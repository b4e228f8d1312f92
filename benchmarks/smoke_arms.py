"""The bundled set: the defaults, its known gaps, and three parts of the source system off and on.

    python benchmarks/smoke_arms.py

Prints Hit@5 and MRR@10 with 95 % intervals (Wilson and bootstrap) under the defaults and under
`gold/smoke/gaps.yaml`, which gap queries pass there, and then, under `preset seed` with
`models=embedded`, the supplement, the injection (`inject.min_new`) and the cross-drug penalty: all
off against all on, and each alone off against all on, with paired bootstrap intervals. Each figure
is what `assay evaluate gold/smoke [--config ...] [--set ...]` prints.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from experiments.evaluate import Evaluation, evaluate
from experiments.intervals import bootstrap_means
from gold import GoldSet, load
from retriever import Retriever, RetrieverConfig, build_index, load_config
from retriever.ingest.build import fingerprint_of
from retriever.store import store_folder

SMOKE = Path(__file__).parents[1] / "gold" / "smoke"
METRICS = ("hit@5", "mrr@10")
PROFILES = ("default", "regulatory", "drug_entity", "chemical", "combination")
PENALTY = "plugins.biomed.rerank_merged.profiles.{}.w_xdrug_penalty"
# What turns each part off; the preset has all three on.
OFF: Mapping[str, Mapping[str, object]] = {
    "supplement": {"plugins.biomed.supplement.enabled": False},
    "injection": {"inject.min_new": 0},
    "penalty": {PENALTY.format(profile): 0 for profile in PROFILES},
}


def measured(gold: GoldSet, config: RetrieverConfig) -> Evaluation:
    """Evaluate one configuration on an index of its own kind, kept in the store."""
    cache = store_folder() / "cache" / "vectors"
    folder = store_folder() / "indexes" / fingerprint_of(SMOKE, config)[:16]
    index = build_index(SMOKE, folder, config, cache=cache).index
    with tempfile.TemporaryDirectory() as scratch:
        return evaluate(gold, Retriever.open(index, config, cache=cache), Path(scratch) / "run")


def cells(evaluation: Evaluation) -> str:
    """Return the figures of a run with their intervals, as cells of a table."""
    found = (evaluation.record["metrics"][metric] for metric in METRICS)
    return " | ".join(f"{f['value']:.3f} ({f['low']:.3f} to {f['high']:.3f})" for f in found)


def difference(without: Evaluation, whole: Evaluation, metric: str) -> str:
    """Return the mean of the queries' differences with its paired percentile bootstrap interval."""
    gain = whole.scores.values[metric] - without.scores.values[metric]
    (mean,) = bootstrap_means([gain])
    moved = f"{(gain > 0).sum()} up, {(gain < 0).sum()} down"
    return f"{mean.value:+.3f} ({mean.low:+.3f} to {mean.high:+.3f}; {moved})"


def main() -> None:
    """Measure and print Markdown tables."""
    gold = load(SMOKE)
    gaps = measured(gold, load_config(SMOKE / "gaps.yaml"))
    print(f"| {len(gold.queries)} queries | Hit@5 | MRR@10 |\n| --- | --- | --- |")
    print(f"| defaults | {cells(measured(gold, RetrieverConfig()))} |")
    print(f"| gaps.yaml | {cells(gaps)} |")
    hits = dict(zip(gaps.scores.query_ids, gaps.scores.values["hit@5"], strict=True))
    known = [query_id for query_id, query in gold.queries.items() if "gap" in query.metadata]
    print(
        f"\nUnder gaps.yaml {sum(hits[q] == 0 for q in known)} of {len(known)} gap queries fail.\n"
    )

    seed = load_config("seed", ["models=embedded"])
    whole = measured(gold, seed)
    arms = {"all three off": {k: v for part in OFF.values() for k, v in part.items()}}
    arms |= {f"{name} off": dict(part) for name, part in OFF.items()}
    print("| preset seed, models=embedded | Hit@5 | MRR@10 | Hit@5, all on less this | MRR@10 |")
    print("| --- | --- | --- | --- | --- |")
    for name, part in arms.items():
        found = measured(gold, seed.with_overrides(part))
        gains = " | ".join(difference(found, whole, metric) for metric in METRICS)
        print(f"| {name} | {cells(found)} | {gains} |")
    print(f"| all on | {cells(whole)} | | |")


if __name__ == "__main__":
    main()
