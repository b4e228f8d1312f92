"""Find a run that an earlier evaluation left, so that nothing is evaluated twice."""

from pathlib import Path

from experiments.identity import Identity
from experiments.recorded import RecordedRun

__all__ = ["find_made"]

# Written by every evaluation; a run from which one is gone is of no use.
_NEEDED = ("run.json", "run.trec", "qrels.trec", "queries.parquet")
# May go away by itself: a model that gave no number, an endpoint that did not answer.
_TRANSIENT = "cross_encoder_fallback"


def find_made(runs: Path, identity: Identity) -> RecordedRun | None:
    """Return the newest run below `runs` that was made of the same things; None without one.

    A run is passed over where a file of it, or the index it searched, is gone, and where a model
    failed over in it: another try may do better.
    """
    # Cheaper than to parse every record: the digest of the configuration stands in its text.
    needle = identity["config"]
    for folder in sorted(runs.glob("*"), reverse=True):
        if not all((folder / name).is_file() for name in _NEEDED):
            continue
        try:
            if needle not in (folder / "run.json").read_text("utf-8"):
                continue
            run = RecordedRun.open(folder)
        except (OSError, ValueError):
            continue
        record = run.record
        if record.get("identity") != identity or record["fallbacks"].get(_TRANSIENT):
            continue
        index = record["index"]
        if index is None or Path(index["path"]).is_dir():
            return run
    return None
