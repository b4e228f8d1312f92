"""Precision, recall and F1 of lexicon matching on BC5CDR: exact spans of chemicals and diseases.

The lexicon is what the abstracts of `--lexicon-splits` annotate (diseases: that alone), and, for
chemicals, the names in `compounds/` of records with a structure, from four characters on. The same
abstracts are the sample it is pruned by. The abstracts of the test split judge, and nothing else
of theirs is read: `concepts.tsv`, which is made of all splits, is not.

    python benchmarks/bc5cdr_matching.py [--lexicon-splits dev] [--cross-validate] [--json]

`--cross-validate` never opens the test split: five folds of the lexicon splits, by which the
settings below were chosen.
"""

import argparse
import ast
import csv
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retriever.biomed.annotation import annotate
from retriever.biomed.lexicon import Entity, Lexicon
from retriever.biomed.pruning import Annotated, prune
from retriever.biomed.variants import with_variants

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("ASSAY_DATA", ROOT / "../shared/data"))

SHORTEST_COMPOUND = 4
BELOW, OCCURRENCES = 0.5, 1
FOLDS = 5

Spans = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Abstract:
    """One abstract and its mentions of one type: (start, end, MeSH id or ids)."""

    text: str
    mentions: tuple[tuple[int, int, str], ...]

    @property
    def spans(self) -> Spans:
        """Where the mentions are."""
        return frozenset((start, end) for start, end, _ in self.mentions)


@dataclass(frozen=True)
class Counts:
    """Mentions found, annotated, and both."""

    found: int
    annotated: int
    both: int

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.found + other.found, self.annotated + other.annotated, self.both + other.both
        )

    def figures(self) -> dict[str, float]:
        """Precision, recall and their harmonic mean."""
        precision, recall = self.both / max(self.found, 1), self.both / self.annotated
        f1 = 2 * precision * recall / max(precision + recall, 1e-9)
        return {"precision": precision, "recall": recall, "f1": f1}


def abstracts(data: Path, splits: Sequence[str], kind: str) -> list[Abstract]:
    """Return the abstracts of some splits with their mentions of a type."""
    found = []
    for line in (data / "bc5cdr" / "entities.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        if record["split"] in splits:
            own = [m for m in record["mentions"] if m["type"] == kind]
            mentions = tuple((m["start"], m["end"], m["mesh"]) for m in own)
            found.append(Abstract(record["passage"], mentions))
    return found


def from_annotations(sample: Sequence[Abstract]) -> list[Entity]:
    """Return a record a MeSH id with every string that was annotated with it."""
    names: dict[str, dict[str, None]] = {}
    for abstract in sample:
        for start, end, mesh in abstract.mentions:
            text = abstract.text[start:end]
            key = mesh if mesh.strip("-1") else f"unnamed {text}"
            names.setdefault(key, {})[text] = None
    return [Entity(f"MESH:{key}", *_split(of_key)) for key, of_key in names.items()]


def _split(names: dict[str, None]) -> tuple[str, tuple[str, ...]]:
    first, *others = names
    return first, tuple(others)


def compounds(data: Path) -> list[Entity]:
    """Return the records of `compounds/` that have a structure, names from four characters on."""
    entities = []
    for number, names in enumerate(_compound_names(data / "compounds")):
        own = {n.strip(): None for n in names if len(n.strip()) >= SHORTEST_COMPOUND}
        if own:
            entities.append(Entity(f"compound:{number}", *_split(own)))
    return entities


def _compound_names(folder: Path) -> Iterator[list[str]]:
    csv.field_size_limit(sys.maxsize)
    with (folder / "drugbank_vocabulary.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row["Standard InChI Key"]:
                yield [row["Common name"], *row["Synonyms"].split(" | ")]
    with (folder / "chembl_approved_drugs.csv").open(encoding="utf-8") as stream:
        yield from ([row["pref_name"]] for row in csv.DictReader(stream) if row["smiles"])
    with (folder / "pkidb_20200218.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            synonyms = ast.literal_eval(row["Synonyms"] or "[]")
            yield [row["INN_Name"], *(row["BrandName"] or "").split(";"), *synonyms]
    for line in (folder / "drug_ner_dictionary.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        if record.get("smiles"):
            yield [record.get("name", ""), *record.get("variants", ())]


def steps(sample: Sequence[Abstract], further: Sequence[Entity]) -> dict[str, Lexicon]:
    """Return the lexicon as it is, with variants of the annotated names, and pruned."""
    annotated = from_annotations(sample)
    plain = Lexicon((*annotated, *further))
    varied = Lexicon((*with_variants(Lexicon(tuple(annotated))).entities, *further))
    judged = [Annotated(abstract.text, abstract.spans) for abstract in sample]
    pruned = prune(varied, judged, below=BELOW, occurrences=OCCURRENCES).lexicon
    return {"longest match": plain, "+ variants": varied, "+ pruning": pruned}


def count(lexicon: Lexicon, judge: Sequence[Abstract], abbreviations: bool) -> Counts:
    """Match every abstract and compare exact spans."""
    found = annotated = both = 0
    for abstract in judge:
        matches = (
            annotate(lexicon, abstract.text) if abbreviations else lexicon.match(abstract.text)
        )
        spans = {(match.start, match.end) for match in matches}
        found, annotated = found + len(spans), annotated + len(abstract.spans)
        both += len(spans & abstract.spans)
    return Counts(found, annotated, both)


def measure(
    sample: Sequence[Abstract], judge: Sequence[Abstract], further: Sequence[Entity]
) -> dict[str, Counts]:
    """Return the counts after each step."""
    lexicons = steps(sample, further)
    counts = {name: count(lexicon, judge, False) for name, lexicon in lexicons.items()}
    return {**counts, "+ abbreviations": count(lexicons["+ pruning"], judge, True)}


def cross_validated(sample: Sequence[Abstract], further: Sequence[Entity]) -> dict[str, Counts]:
    """Return the counts over folds, each judged by a lexicon of the others."""
    total: dict[str, Counts] = {}
    for fold in range(FOLDS):
        rest = [abstract for i, abstract in enumerate(sample) if i % FOLDS != fold]
        for name, counts in measure(rest, sample[fold::FOLDS], further).items():
            total[name] = total.get(name, Counts(0, 0, 0)) + counts
    return total


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
    for needed in ("bc5cdr", "compounds"):
        if not (options.data / needed).is_dir():
            sys.exit(f"{options.data / needed} is absent: point ASSAY_DATA at the data sets")
    figures: dict[str, Any] = {}
    for kind in ("Chemical", "Disease"):
        sample = abstracts(options.data, splits, kind)
        further = compounds(options.data) if kind == "Chemical" else []
        if options.cross_validate:
            counts = cross_validated(sample, further)
        else:
            counts = measure(sample, abstracts(options.data, ["test"], kind), further)
        figures[kind] = {name: of_step.figures() for name, of_step in counts.items()}
    if options.json:
        print(json.dumps(figures))
        return
    judged = f"{FOLDS} folds of {splits}" if options.cross_validate else "test"
    print(f"lexicon from {', '.join(splits)}; judged by {judged}; exact spans")
    for kind, by_step in figures.items():
        for name, f in by_step.items():
            line = f"P {f['precision']:.4f}  R {f['recall']:.4f}  F1 {f['f1']:.4f}"
            print(f"{kind:9} {name:16} {line}")


if __name__ == "__main__":
    main()
