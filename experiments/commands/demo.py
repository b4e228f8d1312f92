"""`assay demo`: the whole main job on the bundled gold set."""

import os
from pathlib import Path
from typing import Annotated

import typer

from experiments.commands.evaluate import evaluate
from experiments.commands.gold import validate
from experiments.commands.opening import config_from, new_run
from experiments.commands.terminal import print_text


def demo(
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The folder of the run.")] = None,
) -> None:
    """Run the whole main job on the bundled gold set."""
    import gold as gold_package
    from reports.dashboard import dashboard
    from reports.page import refuse_foreign_page, write_page

    folder = Path(gold_package.__file__).parent / "smoke"
    shown = os.path.relpath(folder)
    every = folder / "all-stages.yaml"
    run = out or new_run("smoke", config_from(str(every), None).fingerprint)
    place = run.resolve()
    page = place.with_name(f"{place.name}.html")
    if page.parent.is_dir():
        refuse_foreign_page(page)
    print_text(f"1. Checking the gold set: assay gold validate {shown}")
    validate(folder)
    command = f"assay evaluate {shown} --config {os.path.relpath(every)}"
    print_text(f"\n2. Indexing, searching and scoring, every stage on: {command}")
    evaluate(folder, config=str(every), out=run)
    print_text("\n3. Showing every query and why it fails: assay dashboard RUN -o PAGE")
    write_page(page, dashboard([run]))
    print_text(f"page: {page}")
