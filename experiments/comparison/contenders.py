"""What a comparison may be given: a run, an alias, a configuration to run now, a run file."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from experiments.comparison.reuse import find_made
from experiments.identity import Identity, identity_of, identity_of_file
from experiments.recorded import RecordedRun, find_run
from gold import GoldSet, load, read_run
from retriever.config import PRESETS, EvaluationConfig, RetrieverConfig, difference, load_config
from retriever.files import InputError

__all__ = ["Contender", "Workplace", "contender"]

Say = Callable[[str], object]
NewFolder = Callable[[str, str], Path]

# A configuration that differs in one of these needs another index.
_OF_INDEX = ("index.", "models", "plugins.biomed.ingest.", "plugins.biomed.lexicon.")


@dataclass(frozen=True)
class Contender:
    """A run with the name it was asked for by, and where it came from.

    `source` is `given` (a run was named), `evaluated` (now), or `reused`: evaluated earlier with
    the same gold set, index, configuration, models and code.
    """

    label: str
    run: RecordedRun
    source: Literal["given", "evaluated", "reused"] = "given"


@dataclass(frozen=True)
class Workplace:
    """Where a run is made that is not there yet.

    `cache` keeps vectors and `store` everything else, runs in its folder `runs`; `new_folder` names
    a run's folder there by gold set and what is run. `warm_up` is called before anything is scored:
    it loads ranx, which costs seconds. `again` evaluates even what is there already.
    """

    cache: Path
    store: Path
    new_folder: NewFolder
    say: Say
    warm_up: Callable[[], None]
    again: bool = False

    def earlier(self, identity: Identity) -> RecordedRun | None:
        """Return a run of the store that was made of the same things, unless all are made anew."""
        return None if self.again else find_made(self.store / "runs", identity)


def contender(
    name: str,
    *,
    baseline: RecordedRun | None,
    gold: Path | None,
    place: Workplace,
    split: str | None = None,
) -> Contender:
    """Return the run that a command's argument stands for, made now where it is not one yet.

    A folder is a run directory. A YAML file or a preset's name is evaluated on the baseline's gold
    set and index, or on `gold` (its `split`, by default the baseline's); another file is taken for
    a run in TREC's or JSON form and scored.
    Anything else is an MLflow run id or an alias. Raises InputError for what is none of these, and
    where there is no gold set to evaluate on.
    """
    path = Path(name)
    is_preset = name in PRESETS and not path.exists()
    if not path.is_file() and not is_preset:
        return Contender(name, find_run(name))
    judged = _gold(name, baseline, gold, split)
    if is_preset or path.suffix.lower() in (".yaml", ".yml"):
        found = _evaluate_config(name, judged, baseline, place)
    else:
        found = _score_file(name, judged, baseline, place)
    if found.source == "evaluated":  # of one that is used again the reports say so
        place.say(f"{name}: evaluated now: {found.run.path}")
    return found


def _gold(name: str, baseline: RecordedRun | None, gold: Path | None, split: str | None) -> GoldSet:
    if gold is None and baseline is None:
        raise InputError(
            f"{name} is no run yet and there is no gold set to evaluate it on",
            fix="give --gold FOLDER",
        )
    recorded = baseline.record["gold"] if baseline else {"split": "test", "path": ""}
    place = gold or Path(recorded["path"])
    if not place.is_dir():
        raise InputError("the baseline's gold set is not there", path=place, fix="--gold FOLDER")
    return load(place, split or recorded["split"])


def _evaluate_config(
    name: str, judged: GoldSet, baseline: RecordedRun | None, place: Workplace
) -> Contender:
    from experiments.evaluate import evaluate, measures_of
    from retriever import Index, Retriever, build_index
    from retriever.ingest.build import fingerprint_of

    config = load_config(name, [f"evaluation.split={judged.split}"])
    measures_of(config.evaluation)
    shared = _baseline_index(config, baseline)
    if shared is not None:
        index = Index.open(shared)
    else:
        folder = place.store / "indexes" / fingerprint_of(judged.path, config)[:16]
        report = build_index(judged.path, folder, config, cache=place.cache)
        index = report.index
        place.say(f"{name}: another index than the baseline's: {folder}")
    retriever = Retriever.open(index, config, cache=place.cache)
    earlier = place.earlier(identity_of(judged, retriever))
    if earlier is not None:
        return Contender(name, earlier, "reused")
    place.warm_up()
    with _folder_of(place.new_folder(judged.name, retriever.config.fingerprint)) as out:
        done = evaluate(judged, retriever, out)
    return Contender(name, RecordedRun.open(done.path), "evaluated")


@contextmanager
def _folder_of(folder: Path) -> Iterator[Path]:
    """Give a run its folder; where the run fails before it wrote anything, take it away again."""
    try:
        yield folder
    except BaseException:
        with suppress(OSError):  # it holds something, or has gone
            folder.rmdir()
        raise


def _baseline_index(config: RetrieverConfig, baseline: RecordedRun | None) -> Path | None:
    """Return the baseline's index where it serves this configuration too and is still there."""
    from retriever import Index
    from retriever.retriever import serves_namespace

    if baseline is None or baseline.record["index"] is None:
        return None
    differs = difference(baseline.config, config)
    place = Path(baseline.record["index"]["path"])
    if any(path.startswith(_OF_INDEX) for path in differs) or not place.is_dir():
        return None
    if "namespace" in differs and not serves_namespace(Index.open(place), config):
        return None
    return place


def _score_file(
    name: str, judged: GoldSet, baseline: RecordedRun | None, place: Workplace
) -> Contender:
    from experiments.evaluate import evaluate_run

    path = Path(name)
    imported = read_run(path)
    settings = EvaluationConfig()
    if baseline is not None:
        settings = EvaluationConfig(
            split=judged.split,
            depth=baseline.record["depth"],
            metrics=tuple(baseline.record["metrics"]),
            relevant_from=baseline.record["gold"]["relevant_from"],
        )
    earlier = place.earlier(identity_of_file(judged, imported, settings))
    if earlier is not None:
        return Contender(name, earlier, "reused")
    place.warm_up()
    with _folder_of(place.new_folder(judged.name, path.stem)) as out:
        done = evaluate_run(judged, imported, settings, out, path.name)
    return Contender(name, RecordedRun.open(done.path), "evaluated")
