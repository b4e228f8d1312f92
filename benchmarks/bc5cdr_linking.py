"""Entity linking on BC5CDR by gold MeSH ids: recall@k, accuracy, NIL accuracy.

The lexicon is what the abstracts of `--lexicon-splits` annotate, a record a MeSH id; the mentions
are those of the test split, each string once an abstract. A mention means NIL where its id is not
in the lexicon. Mentions with several ids are left out and counted.

    python benchmarks/bc5cdr_linking.py [--lexicon-splits dev] [--cross-validate] [--json]

`--cross-validate` never opens the test split: five folds of the lexicon splits, for several
thresholds of NIL, by which the shipped one was chosen.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bc5cdr_matching import DATA, FOLDS, Abstract, abstracts, from_annotations

from experiments.intervals import wilson
from experiments.linking import score_links
from retriever.biomed.lexicon import Lexicon
from retriever.biomed.linking import NIL_BELOW, Linked, Linker, Mention

THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8)


def mentions(judge: Sequence[Abstract]) -> tuple[list[tuple[Mention, str]], int]:
    """Return (mention, MeSH id), each string once an abstract, and how many had several ids."""
    found: dict[tuple[int, str, str], tuple[Mention, str]] = {}
    several = 0
    for number, abstract in enumerate(judge):
        for start, end, mesh in abstract.mentions:
            text = abstract.text[start:end]
            if "|" in mesh:
                several += 1
            else:
                found[number, text, mesh] = Mention(text, abstract.text), mesh
    return list(found.values()), several


def linked(
    sample: Sequence[Abstract], judge: Sequence[Abstract], nil_below: float
) -> tuple[dict[str, str | None], dict[str, Linked], int]:
    """Return gold concept and answer of each mention, and how many were left out."""
    lexicon = Lexicon(tuple(e for e in from_annotations(sample) if "|" not in e.id))
    linker = Linker(lexicon, nil_below=nil_below)
    asked, several = mentions(judge)
    gold = {
        f"{i:05d}": f"MESH:{mesh}" if f"MESH:{mesh}" in lexicon else None
        for i, (_, mesh) in enumerate(asked)
    }
    return gold, {f"{i:05d}": linker.link(mention) for i, (mention, _) in enumerate(asked)}, several


def figures(gold: dict[str, str | None], answers: dict[str, Linked]) -> dict[str, Any]:
    """Return each figure with its interval."""
    found = {}
    for name, column in score_links(gold, answers).values.items():
        defined = column[~np.isnan(column)]
        if name == "mrr":
            found[name] = {"value": float(defined.mean()), "n": len(defined)}
        else:
            interval = wilson(int(defined.sum()), len(defined))
            low, high = interval.low, interval.high
            found[name] = {"value": interval.value, "low": low, "high": high, "n": interval.n}
    return found


def rethreshold(answers: dict[str, Linked], nil_below: float) -> dict[str, Linked]:
    """Return the same candidates under another threshold of NIL."""
    found = {}
    for mention_id, answer in answers.items():
        first = answer.candidates[0] if answer.candidates else None
        kept = first.entity_id if first and first.similarity >= nil_below else None
        found[mention_id] = Linked(answer.mention, kept, answer.candidates)
    return found


def cross_validated(sample: Sequence[Abstract]) -> dict[str, Any]:
    """Return the figures over folds by threshold, each fold linked to a lexicon of the others."""
    gold: dict[str, str | None] = {}
    answers: dict[str, Linked] = {}
    for fold in range(FOLDS):
        rest = [abstract for i, abstract in enumerate(sample) if i % FOLDS != fold]
        of_fold, found, _ = linked(rest, sample[fold::FOLDS], NIL_BELOW)
        gold.update({f"{fold}-{i}": entity for i, entity in of_fold.items()})
        answers.update({f"{fold}-{i}": answer for i, answer in found.items()})
    return {str(t): figures(gold, rethreshold(answers, t)) for t in THRESHOLDS}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--lexicon-splits", default="dev", help="comma-separated: dev, train")
    parser.add_argument("--cross-validate", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    splits = options.lexicon_splits.split(",")
    if "test" in splits:
        parser.error("the test split judges and may not make the lexicon")
    if not (options.data / "bc5cdr").is_dir():
        sys.exit(f"{options.data / 'bc5cdr'} is absent: point ASSAY_DATA at the data sets")
    found: dict[str, Any] = {}
    for kind in ("Chemical", "Disease"):
        sample = abstracts(options.data, splits, kind)
        if options.cross_validate:
            for threshold, of_threshold in cross_validated(sample).items():
                found[f"{kind}, NIL below {threshold}"] = of_threshold
        else:
            judge = abstracts(options.data, ["test"], kind)
            gold, answers, several = linked(sample, judge, NIL_BELOW)
            found[kind] = {**figures(gold, answers), "several_ids": several}
    if options.json:
        print(json.dumps(found))
        return
    judged = f"{FOLDS} folds of {splits}" if options.cross_validate else "test"
    print(f"lexicon from {', '.join(splits)}; mentions of {judged}")
    for name, of_name in found.items():
        print(name)
        for figure, value in of_name.items():
            if isinstance(value, int):
                print(f"  {figure}: {value} mentions left out")
                continue
            bounds = f" ({value['low']:.4f} to {value['high']:.4f})" if "low" in value else ""
            print(f"  {figure:18} {value['value']:.4f}{bounds}  n {value['n']}")


if __name__ == "__main__":
    main()
