"""The dashboard: what fails, at which stage and why, on one page for one run or several.

The page shows nothing that the run directories do not hold. Its data is columns: values that
repeat (types, classes, stages, chunks) are named once and counted, contributions are whole
thousandths, and texts are cut so that a run takes at most 3 KB a query.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from reports.candidates import GOLD, Candidates, first_of_each, read_candidates
from reports.ceiling import recall_ceiling, stage_label, stages_of
from reports.faults import InputError
from reports.headroom import headroom_by_query, headroom_summary
from reports.page import render_page
from reports.run_directory import RunDirectory
from reports.verdicts import Verdicts, read_verdicts

__all__ = ["dashboard", "dashboard_data"]

STYLES = ("dashboard.css",)
SCRIPTS = (
    "dashboard_model.js",
    "dashboard_figures.js",
    "dashboard_runs.js",
    "dashboard_table.js",
    "dashboard_query.js",
    "dashboard_start.js",
)
LONGEST_TEXT, SHORTEST_TEXT = 300, 40
LONGEST_QUERY = 1000
# Of 3 MB for 1,000 queries, what style and script may take is kept aside.
BYTES_A_QUERY, BYTES_AT_LEAST, BYTES_ASIDE = 3000, 1_000_000, 100_000
UNTYPED = "untyped"
DEFAULT_CUTOFF = 5


def dashboard(paths: Sequence[Path], *, live: str | None = None) -> str:
    """Return the page of one or more run directories, oldest first, as HTML.

    `live` is the address, on the server that serves the page, that tells when it is out of date.
    Raises InputError where a folder is no run directory or cannot be read.
    """
    data = dashboard_data([RunDirectory.open(path) for path in paths])
    newest = data["runs"][-1]
    title = f"{newest['gold']['name']} {newest['gold']['split']}: {newest['name']}"
    return render_page(
        "dashboard.html",
        title=title,
        data=data | {"live": live},
        styles=STYLES,
        scripts=SCRIPTS,
        may_connect=live is not None,
    )


def dashboard_data(runs: Sequence[RunDirectory]) -> dict[str, Any]:
    """Return the data of the page: `runs`, oldest first, and the `chunks` they share."""
    if not runs:
        raise InputError("no run to show", fix="give the folder that assay evaluate wrote")
    ordered = sorted(runs, key=lambda run: (str(run.record["created"]), run.name))
    chunks = _Chunks()
    data: dict[str, Any] = {"runs": [_run(run, chunks) for run in ordered]}
    queries = sum(len(run.queries) for run in ordered)
    room = max(BYTES_AT_LEAST, BYTES_A_QUERY * queries - BYTES_ASIDE)
    data["chunks"] = chunks.columns(room - len(json.dumps(data, ensure_ascii=False).encode()))
    return data


class _Chunks:
    """Chunks by number, with the text that any of the runs kept."""

    def __init__(self) -> None:
        self._number: dict[tuple[str, str], int] = {}
        self._text: dict[int, tuple[str, str, int]] = {}

    def add(
        self, run: RunDirectory, chunk_ids: Sequence[str], document_ids: Sequence[str]
    ) -> list[int]:
        """Return the numbers of chunks; their texts are read from the run."""
        keys = list(zip(chunk_ids, document_ids, strict=True))
        numbers = [self._number.setdefault(key, len(self._number)) for key in keys]
        wanted = {n: key[0] for n, key in zip(numbers, keys, strict=True) if n not in self._text}
        texts, sections, lengths = run.texts(list(wanted.values()))
        for number, text, section, length in zip(wanted, texts, sections, lengths, strict=True):
            if text is not None:
                self._text[number] = (text, section, length)
        return numbers

    def columns(self, room: int) -> dict[str, Any]:
        """Return the columns, texts cut to the longest length that fits `room` bytes.

        `cut` is that length in characters, `shortened` how many texts are longer than what stands
        here.
        """
        absent = ("", "", 0)
        found = [self._text.get(number, absent) for number in range(len(self._number))]
        texts = [text for text, _, _ in found]
        cut = _longest_cut(texts, room - 60 * len(texts))
        return {
            "id": [chunk_id for chunk_id, _ in self._number],
            "document": [document_id for _, document_id in self._number],
            "section": _coded([section for _, section, _ in found]),
            "text": [
                None if number not in self._text else text[:cut]
                for number, text in enumerate(texts)
            ],
            "length": [length for _, _, length in found],
            "cut": cut,
            "shortened": sum(length > len(text[:cut]) for text, _, length in found),
        }


def _longest_cut(texts: Sequence[str], room: int) -> int:
    """Return the longest cut at which the texts, as JSON in UTF-8, take about `room` bytes.

    Of many texts every n-th is weighed, which is as good: what is kept aside is far more.
    """
    step = 1 + len(texts) // 4000
    texts, room = texts[::step], room // step
    low, high = SHORTEST_TEXT, LONGEST_TEXT
    while low < high:
        middle = (low + high + 1) // 2
        cut = [text[:middle] for text in texts]
        if len(json.dumps(cut, ensure_ascii=False).replace("<", "\\u003c").encode()) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _run(run: RunDirectory, chunks: _Chunks) -> dict[str, Any]:
    record, verdicts = run.record, read_verdicts(run)
    cutoff = _cutoff(record["metrics"])
    stages = stages_of(run.queries.column_names, "gold_rank:")
    ranks = {stage: _ranks(run.queries, f"gold_rank:{stage}") for stage in stages}
    if "final" not in ranks and "first_relevant_rank" in run.queries.column_names:
        ranks["final"] = _ranks(run.queries, "first_relevant_rank")
    ceiling = recall_ceiling(ranks, len(run.queries), run.rerank_pool, cutoff)
    scorable = np.array(run.queries.column("scorable").to_pylist(), dtype=np.bool_)
    shown = _found(run, chunks) if run.has_candidates else _imported(run, chunks)
    return {
        "name": run.name,
        "path": str(run.path),
        **{key: record[key] for key in ("created", "kind", "unanswered", "unscorable")},
        "scored": record["queries"],
        "gold": {
            key: record["gold"].get(key, "") for key in ("name", "version", "split", "digest")
        },
        "level": record["gold"].get("level", "document"),
        "about": _about(record),
        "metrics": record["metrics"],
        "by_type": record.get("by_type") or {},
        "by_workflow": record.get("by_workflow") or {},
        "classified": verdicts.classified,
        "cutoff": cutoff,
        "ceiling": {
            "stage": list(ceiling.stages),
            "label": list(ceiling.labels),
            "chain": [int(flag) for flag in ceiling.chain],
            "reachable": (ceiling.reachable & scorable).sum(axis=1).tolist(),
        },
        "headroom": headroom_summary(run),
        "latency": record.get("latency_ms"),
        "fallbacks": record.get("fallbacks") or {},
        "audit": record.get("audit") or {},
        "queries": _queries(run, verdicts, ranks, ceiling.lost_at, scorable),
        "advice": list(verdicts.advice),
        "work_items": [asdict(item) for item in verdicts.work_items],
        **shown,
    }


def _about(record: Mapping[str, Any]) -> dict[str, str]:
    """Return what was run on what, as labels and texts."""
    index, config, system = (record.get(key) or {} for key in ("index", "config", "system"))
    found = {
        "system": system.get("name"),
        "namespace": system.get("namespace"),
        "source": system.get("source"),
        "index": index.get("fingerprint", "")[:16],
        "documents": index.get("documents"),
        "chunks": index.get("chunks"),
        "configuration": config.get("fingerprint", "")[:16],
        "gold digest": record["gold"].get("digest", "")[:16],
        "commit": (record.get("git_commit") or "")[:12],
    }
    return {name: str(value) for name, value in found.items() if value}


def _cutoff(metrics: Mapping[str, Any]) -> int:
    """Return k of the first hit@k that was measured."""
    measured = [name.partition("@")[2] for name in metrics if name.startswith("hit@")]
    return int(measured[0]) if measured else DEFAULT_CUTOFF


def _queries(
    run: RunDirectory,
    verdicts: Verdicts,
    ranks: Mapping[str, Any],
    lost_at: Any,
    scorable: Any,
) -> dict[str, Any]:
    table = run.queries
    texts = table.column("text").to_pylist()
    metrics = [name for name in run.record["metrics"] if name in table.column_names]
    return {
        "id": table.column("query_id").to_pylist(),
        "text": [text[:LONGEST_QUERY] for text in texts],
        "shortened": sum(len(text) > LONGEST_QUERY for text in texts),
        "type": _coded([t or UNTYPED for t in table.column("type").to_pylist()]),
        "workflow": _coded(_column(table, "workflow")),
        "class": _coded(list(verdicts.classes)),
        "subclass": _coded(list(verdicts.subclasses)),
        "lost_at": _coded(list(verdicts.lost_at)),
        "critical": [int(bool(flag)) for flag in _column(table, "critical")],
        "out_after": np.where(scorable, lost_at, -1).tolist(),
        "rank": ranks["final"].tolist() if "final" in ranks else [0] * len(table),
        "causes": list(verdicts.causes),
        "searched": _coded(list(verdicts.searched)),
        "evidence": list(verdicts.evidence),
        "headroom": headroom_by_query(run),
        "metrics": {
            name: [None if v is None else round(v, 4) for v in _finite(table, name)]
            for name in metrics
        },
    }


def _column(table: Any, name: str) -> list[Any]:
    return table.column(name).to_pylist() if name in table.column_names else [None] * len(table)


def _finite(table: Any, name: str) -> list[float | None]:
    values = table.column(name).to_pylist()
    return [None if v is None or not np.isfinite(v) else float(v) for v in values]


def _ranks(table: Any, name: str) -> Any:
    """Return a column of ranks as numbers, 0 where it is null."""
    # A column that is null throughout has no type of its own.
    return table.column(name).cast("int64").fill_null(0).to_numpy()


def _coded(values: Sequence[str | None]) -> dict[str, Any]:
    """Return a column as the values that occur, sorted, and their numbers; null is -1."""
    names = sorted({value for value in values if value is not None})
    number = {name: place for place, name in enumerate(names)}
    return {"names": names, "codes": [-1 if v is None else number[v] for v in values]}


def _found(run: RunDirectory, chunks: _Chunks) -> dict[str, Any]:
    """Return the candidates that the drill-down shows, and the waterfall of the gold."""
    found = read_candidates(run)
    count = len(run.queries)
    shown = first_of_each(found.gold_query, GOLD)
    return {
        "candidates": {
            "start": _starts(found.query, count),
            "chunk": chunks.add(run, found.chunk_ids, found.document_ids),
            "place": found.place.tolist(),
            "gold": found.gold.astype(int).tolist(),
            "grade": _grades(run, found),
            "collection": _coded(list(found.collections)),
            "ranks": [
                {"stage": stage, "label": stage_label(stage), "rank": rank.tolist()}
                for stage, rank in found.ranks.items()
                if stage != "final"
            ],
            "score": [None if not np.isfinite(s) else float(s) for s in np.round(found.score, 4)],
            "in_pool": found.in_pool.astype(int).tolist(),
            "parts": [
                {"name": name, "milli": np.rint(1000 * part).astype(int).tolist()}
                for name, part in found.contributions.items()
            ],
        },
        "waterfall": {
            "start": _starts(found.gold_query[shown], count),
            "unit": [found.gold_unit[row] for row in shown],
            "count": np.bincount(found.gold_query, minlength=count).tolist(),
            "relevant": [int(n or 0) for n in _column(run.queries, "relevant")],
            "missing": _missing(run, found),
            "ranks": [
                {"stage": stage, "label": stage_label(stage), "rank": rank[shown].tolist()}
                for stage, rank in found.gold_ranks.items()
            ],
        },
    }


def _imported(run: RunDirectory, chunks: _Chunks) -> dict[str, Any]:
    """Return the first units of an imported ranking: their stages are not known."""
    query_ids = run.queries.column("query_id").to_pylist()
    relevant_from = run.record["gold"].get("relevant_from", 1)
    held = np.array([len(run.ranking.get(query_id, ())) for query_id in query_ids], dtype=np.int64)
    run.check_retrieved(held, run.path / "run.trec")
    rows: list[tuple[int, int, str, int]] = []
    for row, query_id in enumerate(query_ids):
        grades = run.judgements.get(query_id, {})
        ranked = enumerate(run.ranking.get(query_id, [])[:10], start=1)
        rows += [(row, place, unit, grades.get(unit, -1)) for place, unit in ranked]
    units = [unit for _, _, unit, _ in rows]
    owner = np.array([row for row, _, _, _ in rows], dtype=np.int64)
    return {
        "candidates": {
            "start": _starts(owner, len(query_ids)),
            "chunk": chunks.add(run, units, units),
            "place": [place for _, place, _, _ in rows],
            "gold": [int(grade >= relevant_from) for _, _, _, grade in rows],
            "grade": [grade for _, _, _, grade in rows],
            "collection": _coded([None] * len(rows)),
            "ranks": [],
            "score": [None] * len(rows),
            "in_pool": [0] * len(rows),
            "parts": [],
        },
        "waterfall": None,
    }


def _missing(run: RunDirectory, found: Candidates) -> list[list[str]]:
    """Return the first relevant units of each query that no stage found."""
    query_ids = run.queries.column("query_id").to_pylist()
    relevant_from = run.record["gold"].get("relevant_from", 1)
    there = set(zip(found.gold_query.tolist(), found.gold_unit, strict=True))
    return [
        [
            unit
            for unit, grade in run.judgements.get(query_id, {}).items()
            if grade >= relevant_from and (query, unit) not in there
        ][:GOLD]
        for query, query_id in enumerate(query_ids)
    ]


def _grades(run: RunDirectory, found: Candidates) -> list[int]:
    """Return the grade of each candidate's unit, -1 where it was not judged."""
    query_ids = run.queries.column("query_id").to_pylist()
    by_chunk = run.record["gold"].get("level") == "chunk"
    units = found.chunk_ids if by_chunk else found.document_ids
    return [
        run.judgements.get(query_ids[query], {}).get(unit, -1)
        for query, unit in zip(found.query.tolist(), units, strict=True)
    ]


def _starts(owner: Any, count: int) -> list[int]:
    """Return where each query's rows begin, and the end: (queries + 1)."""
    starts: list[int] = np.searchsorted(owner, np.arange(count + 1)).tolist()
    return starts
