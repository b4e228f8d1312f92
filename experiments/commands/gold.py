"""`assay gold`: check, describe and import gold sets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.commands.options import NEGATIVE, Json
from experiments.commands.terminal import print_json

if TYPE_CHECKING:
    from gold import ImportReport

app = typer.Typer(help="Check, describe and import gold sets.", no_args_is_help=True)


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
            typer.echo(f"{place}: {problem.severity}: {problem.message} [{problem.code}]")
        errors = sum(problem.severity == "error" for problem in report.problems)
        warnings = len(report.problems) - errors
        typer.echo(
            f"{gold}: {'ok' if report.ok else 'not valid'}, "
            f"{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}"
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

        typer.echo(yaml.safe_dump(dict(found), sort_keys=False, allow_unicode=True), nl=False)


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
        Path, typer.Option("--corpus", help="The corpus: a folder with corpus.jsonl, or the file.")
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
        str | None, typer.Option(help="Spreadsheet: column of expected terms.")
    ] = None,
    type_column: Annotated[
        str | None, typer.Option(help="Spreadsheet: column of the query's type.")
    ] = None,
    split: Annotated[str, typer.Option("--split", help="Split of the judgements.")] = "test",
    as_json: Json = False,
) -> None:
    """Make a gold set of queries judged elsewhere; names of documents are looked up."""
    from gold import Columns, import_gold

    given = (query_column, documents_column, terms_column, type_column)
    columns = None
    if any(name is not None for name in given):
        columns = Columns(
            query=query_column or "query",
            documents=documents_column or "documents",
            terms=terms_column,
            type=type_column,
        )
    report = import_gold(source, corpus, out, columns=columns, topics=topics, split=split)
    if as_json:
        print_json(report.to_json())
    else:
        _print_import(report)


def _print_import(report: "ImportReport") -> None:
    counts = ", ".join(f"{count} {state}" for state, count in report.counts.items())
    typer.echo(
        f"{report.gold}: {len(report.alignment)} queries ({counts}), {report.judgements} "
        f"judgements, {report.documents} documents"
    )
    for what, missing in (
        ("names found in no document", report.missing_names),
        ("terms found in no document of their query", report.missing_terms),
    ):
        if missing:
            typer.echo(f"{what}: {len(missing)}")
        for item, ids in missing.items():
            typer.echo(f"  {item}: {', '.join(ids)}")
