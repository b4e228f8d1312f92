"""`assay demo`: the whole main job on the bundled gold set."""

import os
from pathlib import Path
from typing import Annotated

import typer

from experiments.commands.evaluate import evaluate
from experiments.commands.gold import validate


def demo(
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The folder of the run.")] = None,
) -> None:
    """Run the whole main job on the bundled gold set."""
    import gold as gold_package

    folder = Path(gold_package.__file__).parent / "smoke"
    shown = os.path.relpath(folder)
    typer.echo(f"1. Checking the gold set: assay gold validate {shown}")
    validate(folder)
    every = folder / "all-stages.yaml"
    command = f"assay evaluate {shown} --config {os.path.relpath(every)}"
    typer.echo(f"\n2. Indexing, searching and scoring, every stage on: {command}")
    evaluate(folder, config=str(every), out=out)
