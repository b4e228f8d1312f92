"""`assay headroom`: what later stages and other weights could still reach."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.commands.opening import track_again
from experiments.commands.options import Json
from experiments.commands.terminal import phase, print_json, say


def headroom(
    run: Annotated[str, typer.Argument(help="A run: its folder, MLflow run id or alias.")],
    bounds: Annotated[
        list[str] | None,
        typer.Option("--bound", help="Bounds of a weight, w_rank=0:10; may repeat."),
    ] = None,
    gold: Annotated[
        Path | None, typer.Option("--gold", help="Where the gold set is, if it has moved.")
    ] = None,
    index: Annotated[
        Path | None, typer.Option("--index", help="Where the index is, if it has moved.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what each stage still leaves to the next, and whether weights can mend what fails."""
    from experiments.recorded import find_run, reopen

    asked = dict(_bound(text) for text in bounds or ())
    recorded = find_run(run)
    from experiments.diagnosis.show import print_headroom
    from experiments.headroom import headroom as find_headroom
    from experiments.headroom import write_headroom

    phase(f"opening the gold set and the index of {recorded.path}", as_json)
    judged, retriever = reopen(recorded, gold=gold, index=index)
    phase("searching, and trying other weights", as_json)
    found = find_headroom(judged, retriever, asked)
    path = write_headroom(recorded, found)
    track_again(recorded.path, path, as_json)
    if as_json:
        print_json(found.to_json())
        return
    print_headroom(found)
    say(f"headroom: {path}")


def _bound(text: str) -> tuple[str, tuple[float, float]]:
    """Read `w_rank=0:10`."""
    from retriever.files import InputError

    name, _, interval = text.partition("=")
    try:
        low, high = (float(part) for part in interval.split(":"))
    except ValueError:
        low, high = 1.0, 0.0
    if not name or not -1e6 < low <= high < 1e6:
        raise InputError(f"--bound {text!r} is no interval", fix="--bound w_rank=0:10")
    return name, (low, high)
