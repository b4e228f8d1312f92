"""`assay index`: build an index of a corpus, or estimate what it would take."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.opening import config_for_index, config_from, vector_cache
from experiments.commands.options import Config, Json, Sets
from experiments.commands.terminal import phase, print_json, print_text, progress_bars
from experiments.counting import counted

if TYPE_CHECKING:
    from retriever.ingest.build import BuildReport
    from retriever.ingest.estimate import Estimate
    from retriever.ingest.readers.source import Remark

# Files that are listed on a terminal; `--json` has them all.
LISTED = 20


def index(
    corpus: Annotated[
        Path,
        typer.Argument(help="A folder with corpus.jsonl, or any folder of files (or one file)."),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder of the index.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option("--sample", min=1, help="Index so many documents, by the hash of their ids."),
    ] = None,
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="Say what the index would take, and build nothing."),
    ] = False,
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
    if estimate and restamp:
        raise typer.BadParameter(
            "it embeds nothing: there is no --estimate", param_hint="--restamp"
        )
    if estimate:
        asked = config_from(config, sets)
        phase(f"estimating the index of {corpus}", as_json)
        from retriever.ingest.estimate import estimate_index

        with progress_bars(quiet=as_json) as progress:
            found = estimate_index(
                corpus,
                asked,
                cache=vector_cache(),
                sample_size=sample,
                progress=progress,
            )
        _show_estimate(corpus, found, as_json)
        return
    if out is None:
        raise typer.BadParameter("give the folder of the index", param_hint="--out")
    from retriever import Index, build_index

    if restamp:
        asked = config_for_index(Index.open(out), config, sets)
    else:
        asked = config_from(config, sets)
    phase(f"indexing {corpus}", as_json)
    with progress_bars(quiet=as_json) as progress:
        report = build_index(
            corpus,
            out,
            asked,
            cache=vector_cache(),
            sample=sample,
            restamp=restamp,
            progress=progress,
        )
    _show_build(out, report, as_json)


def _show_build(out: Path, report: "BuildReport", as_json: bool) -> None:
    manifest = report.index.manifest
    summary = {
        "index": str(out),
        "built": report.built,
        "fingerprint": manifest.fingerprint,
        "documents": manifest.documents,
        "sample": None if manifest.sample is None else manifest.sample.model_dump(),
        "skipped": dict(manifest.skipped),
        "altered": dict(manifest.altered),
        "remarks": [asdict(remark) for remark in report.remarks],
        "chunks": manifest.chunks,
        "registry": manifest.registry,
        "vectors_computed": report.computed,
        "vectors_reused": report.reused,
    }
    if as_json:
        print_json(summary)
        return
    if not report.built:
        print_text(f"{out} is up to date")
    if manifest.sample is not None:
        print_text(
            f"a sample: {manifest.sample.documents} of "
            f"{counted(manifest.sample.of, 'document')}, "
            "by the hash of their ids"
        )
    print_text(
        f"{counted(manifest.documents, 'document')}, {counted(manifest.chunks, 'chunk')}; "
        f"vectors: {report.computed} computed, {report.reused} from the cache"
    )
    show_remarks(manifest.skipped, manifest.altered, report.remarks)


def _show_estimate(corpus: Path, found: "Estimate", as_json: bool) -> None:
    from retriever.ingest.corpus import counts

    reading = found.reading
    skipped = reading.skipped()
    altered = counts(reading.remarks, "cut", "repaired")
    basis = {
        "cut_documents": found.cut_documents,
        "tried_documents": found.tried_documents,
        "timed_texts": found.timed_texts,
        "seconds_per_text": found.seconds_per_text,
    }
    if as_json:
        summary: dict[str, Any] = {
            "corpus": str(corpus),
            "documents": len(reading.documents),
            "sample": None if reading.sample is None else asdict(reading.sample),
            "skipped": skipped,
            "altered": altered,
            "remarks": [asdict(remark) for remark in reading.remarks],
            "chunks": found.chunks,
            "vectors": found.vectors,
            "vectors_cached": found.cached,
            "minutes": found.minutes,
            "index_mb": found.index_mb,
            "cache_mb": found.cache_mb,
            "basis": basis,
        }
        print_json(summary)
        return
    whole = found.tried_documents == len(reading.documents)
    print_text(
        f"{counted(len(reading.documents), 'document')}, {'' if whole else 'about '}"
        f"{counted(found.chunks, 'chunk')}; "
        f"about {_minutes(found.minutes)}, {_size(found.index_mb)} of index and "
        f"{_size(found.cache_mb)} of new vectors in the cache"
    )
    speed = (
        "all of their vectors are in the cache"
        if found.seconds_per_text is None
        else f"{1000 * found.seconds_per_text:.0f} ms a chunk, by {found.timed_texts} of them; "
        f"{100 * found.cached / max(found.vectors, 1):.0f} % of the vectors are in the cache"
    )
    print_text(f"estimated from {counted(found.tried_documents, 'document')}: {speed}")
    show_remarks(skipped, altered, reading.remarks)


def _minutes(minutes: float) -> str:
    return counted(round(60 * minutes), "second") if minutes < 2 else f"{minutes:.0f} minutes"


def _size(megabytes: float) -> str:
    return f"{1000 * megabytes:.0f} kB" if megabytes < 1 else f"{megabytes:.0f} MB"


def show_remarks(
    skipped: Mapping[str, int], altered: Mapping[str, int], remarks: "Sequence[Remark]"
) -> None:
    """Show the counts by reason, then the first files."""
    for what, found in (("skipped", skipped), ("altered", altered)):
        for reason, count in found.items():
            print_text(f"{what}, {reason}: {count}")
    for remark in remarks[:LISTED]:
        detail = f" ({remark.detail})" if remark.detail else ""
        print_text(f"  {remark.kind} {remark.path}: {remark.reason}{detail}")
    if len(remarks) > LISTED:
        print_text(f"  and {len(remarks) - LISTED} more: --json lists all")
