"""An explained search on a screen: a few lines a stage, with the count of what is not shown.

Numbers are cut to four digits here; `--json` has everything as the stages saw it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.counting import counted
from reports.shortened import shortened

__all__ = ["explained_lines"]

ROWS, NAMES = 3, 5
# A dense query may carry a long structure or expansion.
CHARACTERS = 100
Record = Mapping[str, Any]


def explained_lines(found: Record) -> Iterator[str]:
    """Yield the lines that explain a search; `found` is what `--explain --json` prints."""
    intent = found["intent"]
    entity = "required" if intent["require_entity_match"] else "not required"
    yield f"intent: {intent['workflow']}; an entity in the text: {entity}"
    for key in ("section_cues", "suppress_collections"):
        if intent[key]:
            yield f"  {key}: {_listed(intent[key])}"
    for key in ("entities", "drugs"):
        yield f"{key}: {_listed([one['name'] for one in found[key]]) or 'none'}"
    terms = dict.fromkeys(term for plan in found["plans"] for term in plan["sparse_terms"])
    if terms:
        yield f"sparse terms: {_listed(list(terms))}"
    for plan in found["plans"]:
        yield from _plan(plan)
    yield from _section("supplement", found["supplement"], ("entity", "lexical", "dense", "score"))
    merged = found["merged"]
    injected = sum(one["injected"] for one in merged)
    head = f"merged, {injected} injected" if injected else "merged"
    yield from _section(head, merged, ("score",))
    if found["weights"] is not None:
        weights = (f"{name} {value:g}" for name, value in found["weights"].items())
        yield f"weights: {', '.join(weights)}"
    rows = found["reranked"]
    skipped = {"chunk_id", "collection", "rank", "final"}  # final is the score
    yield from _section("reranked", rows, [key for key in (rows or [{}])[0] if key not in skipped])
    for event in found["audit"]:
        detail = ", ".join(f"{name} {value}" for name, value in event["detail"].items())
        yield f"audit: {event['stage']}: {event['event']}" + (f" ({detail})" if detail else "")
    slow = sorted(found["timings_ms"].items(), key=lambda item: -item[1])
    yield f"milliseconds: {_listed([f'{name} {ms:.1f}' for name, ms in slow])}"
    yield f"all of it, with {counted(len(found['parameters']), 'parameter')}: --explain --json"


def _plan(plan: Record) -> Iterator[str]:
    by = f" by {plan['encoder']}" if plan["encoder"] else ""
    out = f", {len(plan['filtered'])} filtered out" if plan["filtered"] else ""
    yield (
        f"list {plan['collection']}:{plan['search']}{by}, weight {plan['weight']:.3g}: "
        f"{counted(len(plan['hits']), 'hit')}{_first(plan['hits'])}{out}"
    )
    if plan["dense_query"]:
        yield f"  asked: {_cut(plan['dense_query'])}"
    for hit in plan["hits"][:ROWS]:
        numbers = _numbers(hit, ("dense", "bm25", "sparse", "combined", "tier1", "score"))
        yield f"  {hit['rank']:>3}. {shortened(hit['source_chunk_id'])}  {numbers}{_words(hit)}"


def _section(name: str, rows: Sequence[Record], columns: Sequence[str]) -> Iterator[str]:
    yield f"{name}: {counted(len(rows), 'chunk')}{_first(rows)}"
    for place, row in enumerate(rows[:ROWS], start=1):
        mark = "  injected" if row.get("injected") else ""
        yield f"  {place:>3}. {shortened(row['chunk_id'])}  {_numbers(row, columns)}{mark}"


def _first(rows: Sequence[Record]) -> str:
    return f", the first {ROWS}" if len(rows) > ROWS else ""


def _words(hit: Record) -> str:
    """Return the shares of the words that a BM25 hit has in common with the query."""
    shares = sorted((hit["bm25_terms"] or {}).items(), key=lambda item: -item[1])
    return f"  [{_listed([f'{term} {share:.4g}' for term, share in shares])}]" if shares else ""


def _numbers(row: Record, columns: Sequence[str]) -> str:
    """Name the numbers that a row has; a column that is null there is left out."""
    return " ".join(f"{name} {row[name]:.4g}" for name in columns if row[name] is not None)


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - NAMES} more" if len(items) > NAMES else ""
    return ", ".join(map(shortened, items[:NAMES])) + more


def _cut(text: str) -> str:
    return text if len(text) <= CHARACTERS else f"{text[:CHARACTERS]}…"
