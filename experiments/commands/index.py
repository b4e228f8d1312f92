"""`assay index`: build an index of a corpus."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.commands.opening import config_for_index, config_from, vector_cache
from experiments.commands.options import Config, Json, Sets
from experiments.commands.terminal import print_json, progress_bars


def index(
    corpus: Annotated[Path, typer.Argument(help="corpus.jsonl, or the folder that holds it.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the index.")],
    config: Config = None,
    sets: Sets = None,
    restamp: Annotated[
        bool,
        typer.Option("--restamp", help="Apply a changed lexicon to the index; embed nothing."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Build an index of a corpus; a rerun reuses every vector that was made before.

    With --restamp the index's own models and settings stand where nothing else is said.
    """
    from retriever import Index, build_index

    if restamp:
        asked = config_for_index(Index.open(out), config, sets)
    else:
        asked = config_from(config, sets)
    with progress_bars(quiet=as_json) as progress:
        report = build_index(
            corpus, out, asked, cache=vector_cache(), restamp=restamp, progress=progress
        )
    manifest = report.index.manifest
    summary = {
        "index": str(out),
        "built": report.built,
        "fingerprint": manifest.fingerprint,
        "documents": manifest.documents,
        "skipped": dict(manifest.skipped),
        "chunks": manifest.chunks,
        "registry": manifest.registry,
        "vectors_computed": report.computed,
        "vectors_reused": report.reused,
    }
    if as_json:
        print_json(summary)
        return
    if not report.built:
        typer.echo(f"{out} is up to date")
    typer.echo(
        f"{manifest.documents} documents, {manifest.chunks} chunks; vectors: {report.computed} "
        f"computed, {report.reused} from the cache"
    )
    for reason, count in manifest.skipped.items():
        typer.echo(f"skipped, {reason}: {count}")
