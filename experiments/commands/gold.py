"""`assay gold`: check, describe and import gold sets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.options import NEGATIVE, Json
from experiments.commands.plain_help import Commands
from experiments.commands.terminal import print_json, print_text, progress_bars
from experiments.counting import counted
from reports.shortened import shorten_words, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gold import CorpusDocument, ImportReport
    from retriever.ingest.corpus import Corpus, Progress
    from retriever.ingest.readers.source import Remark

app = Commands(help="Check, describe and import gold sets.", no_args_is_help=True)


@app.command("validate")
def validate(
    gold: Annotated[Path, typer.Argument(help="The folder of a gold set.")], as_json: Json = False
) -> None:
    """List every fault of a gold set; exit code 1 when there is an error."""
    from gold import validate as validate_gold

    report = validate_gold(gold)
    if as_json:
        print_json(report.to_json())
    else:
        for problem in report.problems:
            place = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
            message = shorten_words(problem.message)
            print_text(f"{place}: {problem.severity}: {message} [{problem.code}]")
        errors = sum(problem.severity == "error" for problem in report.problems)
        warnings = len(report.problems) - errors
        print_text(
            f"{gold}: {'ok' if report.ok else 'not valid'}, "
            f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"
        )
    if not report.ok:
        raise typer.Exit(NEGATIVE)


@app.command("stats")
def stats(
    gold: Annotated[Path, typer.Argument(help="The folder of a gold set.")], as_json: Json = False
) -> None:
    """Count what a gold set holds."""
    from gold import stats as gold_stats

    found = gold_stats(gold)
    if as_json:
        print_json(found)
    else:
        import yaml

        print_text(yaml.safe_dump(dict(found), sort_keys=False, allow_unicode=True).rstrip())


@app.command("import")
def import_(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Judged queries: JSON lines that name documents, CSV, TSV, XLSX, TREC or JSON.",
        ),
    ],
    corpus: Annotated[
        Path,
        typer.Option(
            "--corpus",
            help="The corpus: a folder with corpus.jsonl, that file, or any folder of files.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the new gold set.")],
    topics: Annotated[
        Path | None,
        typer.Option("--topics", help="The queries' texts, for TREC and JSON judgements."),
    ] = None,
    query_column: Annotated[
        str | None, typer.Option(help="Spreadsheet: column of the query. [default: query]")
    ] = None,
    documents_column: Annotated[
        str | None, typer.Option(help="Spreadsheet: column of ids or names. [default: documents]")
    ] = None,
    terms_column: Annotated[
        str | None,
        typer.Option(
            help="Spreadsheet: column of expected terms. [default: expected_terms or terms, if any]"
        ),
    ] = None,
    type_column: Annotated[
        str | None,
        typer.Option(help="Spreadsheet: column of the query's type. [default: type, if any]"),
    ] = None,
    split: Annotated[str, typer.Option("--split", help="Split of the judgements.")] = "test",
    as_json: Json = False,
) -> None:
    """Make a gold set of queries judged elsewhere; names of documents are looked up."""
    from dataclasses import asdict

    from experiments.commands.index import show_remarks
    from gold import Columns, import_gold
    from retriever.ingest.corpus import Corpus, counts

    given = (query_column, documents_column, terms_column, type_column)
    columns = None
    if any(name is not None for name in given):
        columns = Columns(
            query=query_column or "query",
            documents=documents_column or "documents",
            terms=terms_column,
            type=type_column,
        )
    files = Corpus(corpus)
    remarks: list[Remark] = []
    with progress_bars(quiet=as_json) as progress:
        report = import_gold(
            source,
            corpus,
            out,
            documents=_documents(files, remarks, progress) if files.is_folder else None,
            columns=columns,
            topics=topics,
            split=split,
        )
    if as_json:
        print_json({**report.to_json(), "remarks": [asdict(remark) for remark in remarks]})
        return
    _print_import(report)
    if files.is_folder:
        print_text(
            f"{out / 'corpus.jsonl'}: the {counted(report.documents, 'document')} read of {corpus}"
        )
        show_remarks(counts(remarks, "skipped"), counts(remarks, "cut", "repaired"), remarks)


def _documents(
    files: "Corpus", remarks: "list[Remark]", progress: "Progress"
) -> "Iterator[CorpusDocument]":
    """Read a folder of files, when asked to, as lines of a corpus; remarks go to the list.

    A line says what the folder said of the document by its place: path, file name and image.
    """
    from gold import CorpusDocument
    from retriever.ingest.images import image_file, image_name

    reading = files.read(progress)
    remarks += reading.remarks
    for document in reading.documents:
        metadata: dict[str, Any] = dict(document.metadata)
        metadata |= {
            key: value
            for key, value in (("path", document.path), ("file_name", document.file_name))
            if value
        }
        if image_name(document):
            metadata["image"] = str(image_file(document, files.path.resolve()).path)
        yield CorpusDocument(document.document_id, document.title, document.text, metadata)


def _print_import(report: "ImportReport") -> None:
    counts = ", ".join(f"{count} {state}" for state, count in report.counts.items())
    print_text(
        f"{report.gold}: {counted(len(report.alignment), 'query')} ({counts}), "
        f"{counted(report.judgements, 'judgement')}, {counted(report.documents, 'document')}"
    )
    for what, missing in (
        ("names found in no document", report.missing_names),
        ("terms found in no document of their query", report.missing_terms),
    ):
        if missing:
            print_text(f"{what}: {len(missing)}")
        for item, ids in missing.items():
            print_text(f"  {shortened(item)}: {', '.join(map(shortened, ids))}")
    if report.unused_columns:
        print_text(f"columns that were not used: {', '.join(report.unused_columns)}")
