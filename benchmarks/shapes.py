"""Compare two shapes of the candidate table: padded slots and one long table.

Both fuse the same lists by reciprocal rank, order every query totally and read the rank of one
gold document a query: the own work of a sweep trial. Prints milliseconds a configuration and the
ratio long / slots, after checking that the two agree.

    python benchmarks/shapes.py [--queries 323] [--lists 3] [--depth 100]
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


def draw_lists(queries: int, lists: int, depth: int, pool: int, seed: int) -> npt.NDArray[np.int64]:
    """Ranked chunk rows, shape (lists, queries, depth), no row twice within a list."""
    rng = np.random.default_rng(seed)
    return np.stack(
        [np.stack([rng.permutation(pool)[:depth] for _ in range(queries)]) for _ in range(lists)]
    )


def slots_trial(
    lists: npt.NDArray[np.int64], gold: npt.NDArray[np.int64]
) -> Callable[[float], npt.NDArray[np.int64]]:
    """Lay the union of each query's lists out in columns once; a trial is dense arithmetic."""
    n_lists, n_queries, depth = lists.shape
    unions = [np.unique(lists[:, q]) for q in range(n_queries)]
    width = max(map(len, unions))
    chunk = np.full((n_queries, width), -1, dtype=np.int64)
    rank = np.full((n_lists, n_queries, width), np.inf)
    for q, union in enumerate(unions):
        chunk[q, : len(union)] = union
        for i in range(n_lists):
            rank[i, q, np.searchsorted(union, lists[i, q])] = np.arange(1, depth + 1)
    best = rank.min(axis=0)
    by_best = np.argsort(best, axis=1, kind="stable")
    gold_slot = np.argmax(chunk == gold[:, None], axis=1)
    found = (chunk == gold[:, None]).any(axis=1)

    def trial(k: float) -> npt.NDArray[np.int64]:
        score = (1.0 / (k + rank)).sum(axis=0)
        ordered = np.take_along_axis(score, by_best, axis=1)
        order = np.take_along_axis(by_best, np.argsort(-ordered, axis=1, kind="stable"), axis=1)
        place = np.argmax(order == gold_slot[:, None], axis=1) + 1
        return np.where(found, place, 0)

    return trial


def long_trial(
    lists: npt.NDArray[np.int64], gold: npt.NDArray[np.int64], pool: int
) -> Callable[[float], npt.NDArray[np.int64]]:
    """One row a (query, chunk), sorted by both; a trial is a reduction and one lexical sort."""
    _, n_queries, depth = lists.shape
    query = np.broadcast_to(np.arange(n_queries)[None, :, None], lists.shape)
    key, row = np.unique((query * pool + lists).ravel(), return_inverse=True)
    rank = np.broadcast_to(np.arange(1, depth + 1), lists.shape).ravel()
    owner = key // pool
    start = np.searchsorted(owner, np.arange(n_queries))
    best = np.full(len(key), np.iinfo(np.int64).max)
    np.minimum.at(best, row, rank)
    gold_row = np.searchsorted(key, np.arange(n_queries) * pool + gold)
    found = key[np.minimum(gold_row, len(key) - 1)] == np.arange(n_queries) * pool + gold

    def trial(k: float) -> npt.NDArray[np.int64]:
        score = np.bincount(row, weights=1.0 / (k + rank), minlength=len(key))
        order = np.lexsort((best, -score, owner))
        place = np.empty(len(key), dtype=np.int64)
        place[order] = np.arange(len(key))
        at = place[np.minimum(gold_row, len(key) - 1)] - start + 1
        return np.where(found, at, 0)

    return trial


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=323)
    parser.add_argument("--lists", type=int, default=3)
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--pool", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    lists = draw_lists(options.queries, options.lists, options.depth, options.pool, seed=0)
    gold = np.random.default_rng(1).integers(0, options.pool, options.queries)
    slots, long = slots_trial(lists, gold), long_trial(lists, gold, options.pool)
    times: dict[str, list[float]] = {"slots": [], "long": []}
    for repeat in range(options.repeats):
        k = 10.0 + repeat
        places = {}
        for name, trial in (("slots", slots), ("long", long)):
            begin = time.perf_counter()
            places[name] = trial(k)
            times[name].append(time.perf_counter() - begin)
        if not np.array_equal(places["slots"], places["long"]):
            raise SystemExit(f"the shapes disagree at k={k}")
    slots_ms, long_ms = (1000 * float(np.median(times[name])) for name in ("slots", "long"))
    print(f"slots {slots_ms:.2f} ms, long {long_ms:.2f} ms, long / slots {long_ms / slots_ms:.2f}")


if __name__ == "__main__":
    main()
