"""A sweep killed again and again ends like one that was not.

    python benchmarks/sweep_kills.py [--trials 500] [--kills 25] [--seed 0] [--json]

Runs `assay sweep` on the bundled gold set, kills it (SIGKILL) at random moments and starts it again
until it is done; before that the same under another name with no kill. Both must have the same
finished trials, none lost and none twice, and the same best value.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SPACE = """name: kills
parameters:
  merge.weights.dense: {low: 0.0, high: 1.0, complement: merge.weights.bm25}
  inject.min_new: {low: 0, high: 10}
  inject.rerank_pool: {low: 10, high: 200, log: true}
  plugins.biomed.rerank_merged.profiles.{default,drug_entity}.w_rank: {low: 0.0, high: 10.0}
"""


def main() -> None:
    """Kill, resume, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "space.yaml").write_text(SPACE)
        begin = time.perf_counter()
        whole = sweep(folder, "whole", options.trials)
        seconds = time.perf_counter() - begin
        # The kills together are to fall on the first half or so of the trials.
        share = whole["seconds_per_trial"] * options.trials / (options.kills + 1)
        kills = 0
        while kills < options.kills:
            process = start(folder, "killed", options.trials)
            journal = folder / "killed" / "study.journal"
            # Killed while it works: some time after the journal has grown.
            size = journal.stat().st_size if journal.exists() else 0
            while process.poll() is None and not (
                journal.exists() and journal.stat().st_size > size
            ):
                time.sleep(0.01)
            try:
                process.wait(rng.uniform(0, share))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
            else:
                break  # done before it could be killed
        killed = sweep(folder, "killed", options.trials)
        spent = time.perf_counter() - begin - seconds
        same = trials_of(folder / "killed") == trials_of(folder / "whole")
    found = {
        "kills": kills,
        "finished": killed["finished"],
        "best_undisturbed": whole["train"]["chosen"],
        "best_killed": killed["train"]["chosen"],
        "same_trials": same,
        "seconds_undisturbed": round(seconds, 1),
        "seconds_killed": round(spent, 1),
    }
    print(json.dumps(found, indent=1) if options.json else found)
    if not same or killed["finished"] != options.trials:
        sys.exit("a killed sweep is not the undisturbed one")
    if kills < options.kills:
        sys.exit(f"it was done after {kills} kills of {options.kills}: give it more --trials")


def command(folder: Path, name: str, trials: int) -> list[str]:
    """Return the command of one sweep."""
    assay = str(Path(sys.executable).with_name("assay"))
    out = str(folder / name)
    run = [assay, "sweep", "gold/smoke", "--space", str(folder / "space.yaml"), "--cv", "0"]
    return [*run, "--study", name, "-o", out, "--trials", str(trials), "--no-track", "--json"]


def start(folder: Path, name: str, trials: int) -> "subprocess.Popen[bytes]":
    """Start a sweep."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command(folder, name, trials), env=dict(os.environ), **quiet)


def sweep(folder: Path, name: str, trials: int) -> dict[str, Any]:
    """Run a sweep to its end and return what it printed."""
    done = subprocess.run(command(folder, name, trials), check=True, capture_output=True, text=True)
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def trials_of(folder: Path) -> list[tuple[Any, ...]]:
    """Return objective and parameters of the finished trials, in order."""
    import pandas as pd

    table = pd.read_parquet(folder / "trials.parquet").drop(columns=["trial", "seconds"])
    return [tuple(row) for row in table.itertuples(index=False)]


if __name__ == "__main__":
    main()
