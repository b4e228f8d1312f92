"""A diagnosis on the terminal: the failing queries as a table, one query in full."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from experiments.counting import counted
from experiments.diagnosis.diagnose import CLASS_ADVICE, Diagnosis
from experiments.failures import lost_words
from experiments.headroom import LAST, STAGES, Headroom
from experiments.screen import Screen, screen
from reports.shortened import shortened

__all__ = ["print_diagnosis", "print_headroom", "print_query"]

# The longest text of a query, or advice, which names what it is about.
LINE = 400
NEAREST = 20


def print_diagnosis(found: Diagnosis) -> None:
    """Print counts, a row a failing query, and what to mend in the data."""
    console = screen()
    counts = ", ".join(f"{name} {count}" for name, count in found.counts.items() if count)
    console.print(f"{counts or 'no query'}; unscorable {found.unscorable}")
    failing = [query for query in found.queries if query["class"] not in (None, "ok")]
    if failing:
        table = _table("query", "text", "class", "sub-class", "lost at", "gold", "cause")
        for query in failing:
            final = [g["ranks"]["final"] for g in query["gold"] if g["ranks"]["final"]]
            table.add_row(
                shortened(query["query_id"]),
                shortened(query["text"]),
                query["class"],
                query["subclass"] or "",
                query["lost_at"] or "",
                str(min(final)) if final else "-",
                _cause(query),
            )
        console.print(table)
    if not found.verified and failing:
        console.print("hypotheses alone: --verify tries each by a replay")
    for refused in found.unreplayed:
        console.print(f"not replayed: {refused['change']}: {refused['error']}")
    if found.work_items:
        console.print("to mend in the data:")
    for item in found.work_items:
        some = (
            counted(len(item["queries"]), "query")
            if len(item["queries"]) > 1
            else shortened(item["queries"][0])
        )
        seen = len(item["verified"])
        fixed = f", verified for {seen}" if seen else ", not tried"
        console.print(f"  {shortened(item['item'], LINE)} [{item['cause']}: {some}{fixed}]")


def print_query(query: Mapping[str, Any]) -> None:
    """Print one query: verdict, waterfall, plans, what out-scored it, causes, advice."""
    console = screen()
    verdict = " / ".join(filter(None, (query["class"], query["subclass"]))) or "unscorable"
    words = lost_words(query["subclass"], query["lost_at"])
    lost = f", {words}" if words else ""
    console.print(
        f"{shortened(query['query_id'])}: {shortened(query['text'], LINE)}\n{verdict}{lost}"
    )
    if query["class"] in CLASS_ADVICE:
        console.print(CLASS_ADVICE[query["class"]])
    _print_waterfall(query, console)
    evidence = query["evidence"]
    for plan in evidence["plans"]:
        depth = f", depth {plan['depth']}" if plan["depth"] else ""
        weight = f", weight {plan['weight']:.3g}" if plan["weight"] is not None else ""
        console.print(f"plan {plan['list']}{depth}{weight}: {counted(plan['hits'], 'hit')}")
    terms = evidence.get("terms")
    if terms:
        console.print(f"expected terms not covered: {_listed(terms['missing'])}")
        if terms["impossible"]:
            lacking = _listed(terms["impossible"])
            console.print(f"in no relevant document of the index: {lacking}")
    _print_scores(query, console)
    for cause in query["causes"]:
        tried = cause.get("replayed")
        told = f"; replayed: {tried['class']}, rank {tried['rank'] or '-'}" if tried else ""
        untried = "; no change can try it" if cause["change"] is None else ""
        console.print(f"{cause['status']}: {cause['cause']}{told}{untried}")
        console.print(f"  {shortened(cause['advice'], LINE)}")
    for unknown in evidence.get("unknown", ()):
        console.print(f"not known: {shortened(unknown, LINE)}")


def _print_waterfall(query: Mapping[str, Any], console: Screen) -> None:
    """Print the rank of each relevant unit after each stage."""
    if not query["gold"]:
        return
    stages = list(query["gold"][0]["ranks"])
    table = _table("relevant", *stages)
    for gold in query["gold"]:
        absent = " (not indexed)" if gold["indexed"] is False else ""
        name = f"{shortened(gold['document_id'])}{absent}"
        table.add_row(name, *(str(gold["ranks"][stage] or "-") for stage in stages))
    console.print(table)
    if "more" in query["evidence"]:
        console.print(f"and {counted(query['evidence']['more'], 'more relevant unit')}")


def _print_scores(query: Mapping[str, Any], console: Screen) -> None:
    """Print what each term added to the gold's score and to those above it."""
    above = query["evidence"].get("above", [])
    gold = [g for g in query["gold"] if g.get("score") is not None][:1]
    if not above:
        return
    terms = list(dict.fromkeys(term for row in (*above, *gold) for term in row["terms"]))
    table = _table("rank", "document", "score", *terms)
    for row, mark in [*((row, "") for row in above), *((row, " (relevant)") for row in gold)]:
        score = "-" if row["score"] is None else f"{row['score']:.4f}"
        parts = [f"{row['terms'][t]:.4f}" if t in row["terms"] else "-" for t in terms]
        table.add_row(str(row["rank"] or "-"), shortened(row["document_id"]) + mark, score, *parts)
    console.print(table)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(shortened, names))


def _cause(query: Mapping[str, Any]) -> str:
    if query["cause"] is None:
        return ""
    return f"{query['cause']} ({query['cause_status']})"


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column)
    return table


def print_headroom(found: Headroom) -> None:
    """Print the ceiling of each measure after each stage, and what weights could reach."""
    console = screen()
    table = _table("ceiling after", *found.measures)
    for stage in [*STAGES, LAST]:
        values = (f"{by_stage[stage]:.4f}" for by_stage in found.measures.values())
        table.add_row(stage, *values)
    console.print(table)
    tier = found.tier_2
    if tier is None:
        console.print("tier 2 has no weights in this run")
        return
    console.print(
        f"hit@{tier['k']} {tier['hit_now']:.4f}; with other weights of tier 2 at most "
        f"{tier['hit_upper_bound']:.4f} ({tier['label']})"
    )
    console.print(
        f"of {counted(tier['failing'], 'failing query')} {tier['feasible']} have weights that "
        f"bring a relevant unit in, {tier['undecided']} are undecided"
    )
    near = sorted(
        (q for q in found.queries if q["tier_2"] and q["tier_2"]["distance"] is not None),
        key=lambda q: q["tier_2"]["distance"],
    )
    if near:
        table = _table("query", "smallest change", "sum", "rank then")
        for query in near[:NEAREST]:
            tier_2 = query["tier_2"]
            change = ", ".join(f"{n} {v:+.4g}" for n, v in tier_2["change"].items())
            distance = f"{tier_2['distance']:.4g}"
            table.add_row(shortened(query["query_id"]), change, distance, str(tier_2["rank"]))
        console.print(table)
        if len(near) > NEAREST:
            console.print(f"and {len(near) - NEAREST} more: --json")
