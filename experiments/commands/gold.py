"""`assay gold`: check and describe gold sets."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.commands.options import NEGATIVE, Json
from experiments.commands.terminal import print_json

app = typer.Typer(help="Check and describe gold sets.", no_args_is_help=True)


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
        typer.echo(
            f"{gold}: {'ok' if report.ok else 'not valid'}, {errors} errors, "
            f"{len(report.problems) - errors} warnings"
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
