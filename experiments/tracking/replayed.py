"""A model is registered only if, loaded in a clean process, it gives what its run recorded.

Run as a module it is that process: it loads an MLflow model from a folder and evaluates it on a
gold set into a run directory.

    python -m experiments.tracking.replayed MODEL GOLD SPLIT OUT
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.recorded import RecordedRun
from experiments.shown import say
from gold import read_run
from retriever.files import InputError

__all__ = ["refuse_other_figures"]

# Figures are kept with all their digits: what is not equal was computed from something else.
TOLERANCE = 1e-12
_ANEW = "evaluate anew and promote that run; the alias stays where it was"


def refuse_other_figures(run: RecordedRun, model: Path, gold: Path | None, out: Path) -> None:
    """Ask the model in `model` the run's gold set again, in a clean process, and compare.

    `gold` says where the gold set is now, `out` is a folder for the replay. Rankings, the figures
    of every query and the means must be those of the run. Raises InputError where they are not,
    where the model does not load, and where the gold set has gone or changed.
    """
    recorded = run.record["gold"]
    place = gold or Path(recorded["path"])
    if not place.is_dir():
        raise InputError(
            "the run's gold set is not there, and nothing is promoted without asking it again",
            path=place,
            fix="give --gold FOLDER",
        )
    asked = [str(model), str(place), recorded["split"], str(out)]
    done = subprocess.run(  # noqa: S603 - this very module, by this interpreter
        # -P: a folder of that name where the command runs is not ours.
        [sys.executable, "-P", "-m", "experiments.tracking.replayed", *asked],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise InputError(f"the model fails in a clean process: {said}", path=run.path, fix=_ANEW)
    again = RecordedRun.open(out)
    if again.record["gold"]["digest"] != recorded["digest"]:
        raise InputError("the gold set has changed since the run was made", path=place, fix=_ANEW)
    found = _differences(run, again)
    if found:
        raise InputError(
            "the model, loaded in a clean process, does not give what the run recorded: "
            + "; ".join(found),
            path=run.path,
            fix=_ANEW,
        )


def _differences(run: RecordedRun, again: RecordedRun) -> list[str]:
    """Say in what two runs of one gold set differ: means, rankings, figures by query."""
    found = []
    for name, figure in run.record["metrics"].items():
        value = _mean(again.record["metrics"].get(name))
        if _differ(_mean(figure), value):
            found.append(f"{name} {_shown(_mean(figure))} recorded, {_shown(value)} now")
    rankings = [_rankings(one.path / "run.trec") for one in (run, again)]
    ids = sorted({*rankings[0], *rankings[1]})
    moved = [q for q in ids if rankings[0].get(q) != rankings[1].get(q)]
    if moved:
        found.append(f"other rankings for {_few(moved)} of {len(ids)} queries")
    tables = [one.queries.set_index("query_id") for one in (run, again)]
    if list(tables[0].index) != list(tables[1].index):
        return [*found, "other queries"]
    unlike: set[str] = set()
    for name in run.record["metrics"]:
        if name not in tables[0] or name not in tables[1]:
            found.append(f"no {name} by query")
            continue
        one, other = (table[name].to_numpy(np.float64) for table in tables)
        equal = np.isclose(one, other, rtol=0, atol=TOLERANCE, equal_nan=True)
        unlike.update(str(query_id) for query_id in tables[0].index[~equal])
    if unlike:
        found.append(f"other figures for {_few(sorted(unlike))} of {len(tables[0])} queries")
    return found


def _mean(figure: Mapping[str, Any] | None) -> float | None:
    return None if figure is None else figure["value"]


def _differ(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is not other
    return abs(one - other) > TOLERANCE


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.6f}"


def _few(ids: Sequence[str], most: int = 3) -> str:
    more = ", ..." if len(ids) > most else ""
    return f"{len(ids)} ({', '.join(ids[:most])}{more})"


def _rankings(file: Path) -> Mapping[str, Sequence[str]]:
    if not file.is_file():
        raise InputError("the run holds no run.trec", path=file.parent, fix=_ANEW)
    return read_run(file).rankings if file.stat().st_size else {}


def _replay(model: Path, gold: Path, split: str, out: Path) -> None:
    """Load the model and evaluate it; what its models computed before is taken from the store."""
    from experiments.tracking.store import quiet_mlflow

    quiet_mlflow()
    from mlflow.pyfunc import load_model

    from experiments.evaluate import evaluate
    from gold import load
    from retriever import Retriever
    from retriever.store import store_folder

    model_of_ours: Any = load_model(str(model)).unwrap_python_model()  # type: ignore[no-untyped-call]
    loaded = model_of_ours.retriever
    cache = store_folder() / "cache" / "vectors"
    retriever = Retriever.open(loaded.index, loaded.config, cache=cache)
    evaluate(load(gold, split), retriever, out)


def _main() -> int:
    model, gold, split, out = sys.argv[1:]
    try:
        _replay(Path(model), Path(gold), split, Path(out))
    except InputError as error:
        say(str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_main())
