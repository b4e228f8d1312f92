"""`assay diagnose`: why each query of a run fails."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.commands.opening import track_again
from experiments.commands.options import Json
from experiments.commands.terminal import phase, print_json, say, warm_up
from experiments.counting import counted


def diagnose(
    run: Annotated[str, typer.Argument(help="A run: its folder, MLflow run id or alias.")],
    query: Annotated[
        str | None, typer.Option("--query", help="Show all that is known of this query.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Try every cause by a replay; writes failures.json.")
    ] = False,
    gold: Annotated[
        Path | None, typer.Option("--gold", help="Where the gold set is, if it has moved.")
    ] = None,
    index: Annotated[
        Path | None, typer.Option("--index", help="Where the index is, if it has moved.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say why each query of a run fails; --verify tries each cause by changing it alone."""
    from experiments.recorded import find_run, reopen

    recorded = find_run(run)
    from experiments.diagnosis.diagnose import diagnose as read_diagnosis
    from experiments.diagnosis.diagnose import verify as try_causes
    from experiments.diagnosis.diagnose import write_diagnosis
    from experiments.diagnosis.show import print_diagnosis, print_query
    from retriever.files import InputError

    if verify:
        phase(f"opening the gold set and the index of {recorded.path}", as_json)
        judged, retriever = reopen(recorded, gold=gold, index=index)
        warm_up(as_json)
        phase("trying every cause by a replay", as_json)
        found = try_causes(recorded, judged, retriever)
        path = write_diagnosis(recorded, found)
        track_again(recorded.path, path, as_json)
        if not as_json:
            say(f"{counted(found.replays, 'replay')}; causes: {path}")
    else:
        found = read_diagnosis(recorded)
    if query is None:
        if as_json:
            print_json(found.to_json())
        else:
            print_diagnosis(found)
        return
    one = next((q for q in found.queries if q["query_id"] == query), None)
    if one is None:
        raise InputError(f"the run has no query {query!r}", path=recorded.path)
    if as_json:
        print_json(one)
    else:
        print_query(one)
