"""`assay search`: ask an index."""

from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.commands.opening import open_retriever
from experiments.commands.options import Config, Json, Sets
from experiments.commands.terminal import print_json, print_text, say
from reports.shortened import shortened


def search(
    index: Annotated[Path, typer.Argument(help="The folder of an index.")],
    text: Annotated[str, typer.Argument(help="The query.")],
    config: Config = None,
    sets: Sets = None,
    kb_names: Annotated[
        list[str] | None, typer.Option("--kb", help="Search this knowledge base; may repeat.")
    ] = None,
    document_ids: Annotated[
        list[str] | None, typer.Option("--document", help="Search this document; may repeat.")
    ] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", help="Search documents so tagged; may repeat.")
    ] = None,
    image: Annotated[
        Path | None, typer.Option("--image", help="Look for images like this one.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how the numbers came about; all with --json.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Search an index; --kb, --document and --tag restrict it (any of a kind, all kinds)."""
    from retriever import Query
    from retriever.explain import explain as explained
    from retriever.explain import shown
    from retriever.types import Scope

    retriever = open_retriever(index, config, sets)
    scope = Scope(tuple(kb_names or ()), tuple(document_ids or ()), tuple(tags or ()))
    query = Query(text, scope=scope, image=image)
    if explain:
        found = explained(retriever, retriever.trace([query]))
    else:
        (result,) = retriever.search_many([query])
        found = shown(result)
    if as_json:
        print_json(found)
        return
    _print_hits(found)
    if explain:
        from experiments.explained import explained_lines

        for line in explained_lines(found):
            print_text(line)


def _print_hits(found: dict[str, Any]) -> None:
    for hit in found["results"]:
        print_text(
            f"{hit['rank']:>3}. {shortened(hit['document_id'])}  {hit['score']:.6f}  "
            f"[{shortened(hit['chunk_id'])}]"
        )
        text = " ".join(hit["text"].split())
        print_text(f"     {text[:200]}{'…' if len(text) > 200 else ''}")
    if not found["results"]:
        print_text("nothing found")
    from retriever.types import FALLBACKS

    for event in found["audit"]:
        if event["event"] not in FALLBACKS:
            continue
        say(f"{event['stage']}: {event['event']} {event['detail'] or ''}")
