"""`assay dashboard`: one page that shows what fails, where and why."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.commands.terminal import print_text, say

PORT = 8400


def dashboard(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Runs: folders, MLflow run ids or aliases.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The page to write.", show_default=False),
    ] = None,
    serve: Annotated[
        Path | None,
        typer.Option("--serve", help="Serve the runs of this folder on 127.0.0.1 instead."),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="With --serve; 0 takes a free one.")
    ] = PORT,
) -> None:
    """Write one self-contained page for one run or several, or serve a folder of runs."""
    from reports.faults import InputError

    if serve is not None:
        if runs or out is not None:
            raise InputError("--serve takes a folder of runs, and neither runs nor -o")
        from reports.serve import serve_folder

        serve_folder(serve, port, announce=say)
        return
    if not runs:
        raise InputError("no run to show", fix="assay dashboard RUN -o page.html")
    if out is None:
        raise InputError("no page named", fix="add -o page.html")
    from experiments.recorded import find_run
    from reports.dashboard import dashboard as page_of
    from reports.page import write_page

    html = page_of([find_run(name).path for name in runs])
    write_page(out, html)
    print_text(f"page: {out}")
