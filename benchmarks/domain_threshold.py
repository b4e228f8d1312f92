"""Calibrate the document router's threshold on labelled documents.

Biomedical: samples of the public data sets and of the bundled gold set. General: the descriptions,
licences and manuals of the installed Python packages, and the bundled gold set's corporate
documents. A document takes the route of an indexed one: chunks, sketch, embedded model set,
bundled lexicon.

Prints the fused score by source; the cut of best balanced accuracy, chosen on one half of the
documents and judged on the other (parts of one document, label or web page stay together), and
chosen without a source and judged on it; then what the router makes of every source as shipped.
Within a class every source weighs the same, so that no large one decides alone.

The cut is where verdicts should change. Without an arbiter they change a margin away from the
threshold, where doubt begins that `ambiguous_default` settles the other way: the shipped threshold
is the cut plus the margin. With an arbiter it should be the cut itself.

    python benchmarks/domain_threshold.py [--data FOLDER] [--sample 40] [--skip 0]
"""

import argparse
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
import numpy.typing as npt

from retriever.biomed.arbiter import Domain
from retriever.biomed.domain import DomainConfig, DomainVerdict, route_documents, sketch
from retriever.biomed.lexicon import load_lexicon
from retriever.encoders.cache import CachedEncoder
from retriever.ingest.chunk import Document, chunk_documents
from retriever.retriever import open_encoders
from retriever.store import store_folder

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("ASSAY_DATA", ROOT / "../shared/data"))
PUBLIC = (
    *("scifact", "medlars", "medicationqa", "medquad"),
    *("spl_ddi", "pubmedqa_l", "bc5cdr", "drug_labels"),
)
SHORTEST = 200  # characters: descriptions below say little more than a name

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Labelled:
    """A document, its true domain, and the group whose members must not be split."""

    source: str
    domain: Domain
    group: str
    document: Document


@dataclass(frozen=True)
class Sample:
    """Columns over the labelled documents: source, class, half and fused score."""

    source: npt.NDArray[np.str_]
    biomedical: npt.NDArray[np.bool_]
    half: npt.NDArray[np.int64]
    fused: Scores

    def part(self, rows: npt.NDArray[np.bool_]) -> "Sample":
        """Return the rows where `rows` holds."""
        return Sample(self.source[rows], self.biomedical[rows], self.half[rows], self.fused[rows])


def hashed(text: str) -> int:
    """Return a number that depends on the text alone, on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big")


def drawn(documents: Sequence[Labelled], size: int, skip: int) -> list[Labelled]:
    """Return `size` documents in an order by chance, the same for the same ids, after `skip`."""
    by_chance = sorted(documents, key=lambda one: hashed(one.document.document_id))
    return by_chance[skip : skip + size]


def public(data: Path, name: str) -> Iterator[Labelled]:
    """Yield the documents of a public data set."""
    for line in (data / name / "corpus.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        document_id = str(record["_id"])
        # Pages of MedQuAD and labels are cut into documents numbered behind the last : - or _.
        cut = name in ("medquad", "drug_labels")
        group = re.sub(r"[-_:]\d+$", "", document_id) if cut else document_id
        document = Document(document_id, record["title"], record["text"], {}, name=document_id)
        yield Labelled(name, "biomedical", f"{name}/{group}", document)


def bundled() -> Iterator[Labelled]:
    """Yield the documents of the bundled gold set, by their kind."""
    for line in (ROOT / "gold/smoke/corpus.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        domain: Domain = "general" if record["metadata"]["kind"] == "general" else "biomedical"
        document = Document(record["_id"], record["title"], record["text"], {}, name=record["_id"])
        yield Labelled(f"smoke, {domain}", domain, record["_id"], document)


def packages() -> Iterator[Labelled]:
    """Yield what installed packages say of themselves: description, licences, manuals."""
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        # The description is what follows the header fields.
        _, _, description = (distribution.read_text("METADATA") or "").partition("\n\n")
        yield from software("descriptions", name, name, description)
        for file in distribution.files or ():
            path = Path(str(file.locate()))
            if re.search(r"licen[cs]e|copying", file.name, re.IGNORECASE):
                kind = "licences"
            elif file.suffix in (".md", ".rst"):
                kind = "manuals"
            else:
                continue
            if file.suffix in ("", ".txt", ".md", ".rst") and path.is_file():
                yield from software(kind, name, str(file), path.read_text("utf-8", "replace"))


def software(source: str, package: str, place: str, text: str) -> Iterator[Labelled]:
    """Yield a text of a package as a document, if there is enough of it."""
    if len(text) >= SHORTEST:
        document = Document(f"{package}/{place}", "", text, {}, name=place)
        # The same licence stands in many packages under other owners.
        terms = re.sub(r"(?im)^.*(copyright|\(c\)).*$|\W+", "", text).casefold()
        yield Labelled(source, "general", f"{source}/{hashed(terms[:300])}", document)


def without_repeats(documents: Sequence[Labelled]) -> list[Labelled]:
    """Return the first document of each group of package texts, and all others."""
    first: dict[object, Labelled] = {}
    for one in documents:
        repeated = one.source in ("descriptions", "licences", "manuals")
        first.setdefault(one.group if repeated else id(one), one)
    return list(first.values())


def balanced_accuracy(sample: Sample, right: npt.NDArray[np.bool_]) -> float:
    """Return the mean over both classes of the mean share of a class's sources that is right."""
    shares: dict[bool, list[float]] = {True: [], False: []}
    for source in np.unique(sample.source):
        rows = sample.source == source
        shares[bool(sample.biomedical[rows][0])].append(float(np.mean(right[rows])))
    return float(np.mean([np.mean(of_class) for of_class in shares.values()]))


def right_at(sample: Sample, cut: float) -> npt.NDArray[np.bool_]:
    """Return which documents lie on their own side of `cut`."""
    right: npt.NDArray[np.bool_] = (sample.fused > cut) == sample.biomedical
    return right


def best_cut(sample: Sample) -> float:
    """Return the middle of the widest gap between scores with the best balanced accuracy."""
    scores = np.unique(sample.fused)
    middles, widths = (scores[1:] + scores[:-1]) / 2, np.diff(scores)
    accuracies = np.array([balanced_accuracy(sample, right_at(sample, m)) for m in middles])
    best = np.flatnonzero(accuracies >= accuracies.max() - 1e-12)
    return float(middles[best[np.argmax(widths[best])]])


def sources_of(sample: Sample) -> list[str]:
    """Return the sources, the biomedical ones first."""
    pairs = {(not of, str(name)) for name, of in zip(sample.source, sample.biomedical, strict=True)}
    return [name for _, name in sorted(pairs)]


def print_scores(sample: Sample) -> None:
    """Print the distribution of the fused score by source."""
    names = ("min", "10%", "50%", "90%", "max")
    print(f"{'fused score':<20}{'n':>5}" + "".join(f"{name:>8}" for name in names))
    for source in sources_of(sample):
        scores = sample.fused[sample.source == source]
        quantiles = np.quantile(scores, (0, 0.1, 0.5, 0.9, 1))
        print(f"{source:<20}{len(scores):>5}" + "".join(f"{value:>8.3f}" for value in quantiles))


def print_cuts(sample: Sample, settings: DomainConfig) -> None:
    """Print the cut chosen on parts of the documents, and how it does on the rest."""
    print("\ncut by balanced accuracy")
    for half in (0, 1):
        cut = best_cut(sample.part(sample.half == half))
        other = sample.part(sample.half != half)
        judged = balanced_accuracy(other, right_at(other, cut))
        print(f"  chosen on half {half}: {cut:.3f}; on the other half right: {judged:.3f}")
    for source in sources_of(sample):
        inside = sample.source == source
        cut = best_cut(sample.part(~inside))
        share = right_at(sample, cut)[inside].mean()
        print(f"  chosen without {source}: {cut:.3f}; on it right: {share:.3f}")
    cut = best_cut(sample)
    print(
        f"  chosen on all: {cut:.3f}; right: {balanced_accuracy(sample, right_at(sample, cut)):.3f}"
    )
    settled = settings.margin if settings.ambiguous_default == "biomedical" else -settings.margin
    print(f"  so the threshold without an arbiter: {cut + settled:.3f}; with one: {cut:.3f}")
    for threshold in (cut + settled, cut):
        doubtful = np.abs(sample.fused - threshold) <= settings.margin
        shares = [doubtful[sample.biomedical == of].mean() for of in (True, False)]
        print(
            f"  tier 2 at {threshold:.3f}: {shares[0]:.3f} of the biomedical documents, "
            f"{shares[1]:.3f} of the general ones"
        )


def print_router(sample: Sample, verdicts: Sequence[DomainVerdict], settings: DomainConfig) -> None:
    """Print accuracy and tier shares of the router as shipped, without an arbiter."""
    low, high = settings.threshold - settings.margin, settings.threshold + settings.margin
    fused = np.array([verdict.rule == "fused" for verdict in verdicts])
    right = np.array([verdict.domain == "biomedical" for verdict in verdicts]) == sample.biomedical
    print(
        f"\nas shipped: general below {low:.3f}, biomedical above {high:.3f}, between "
        f"{settings.ambiguous_default}; right: {balanced_accuracy(sample, right):.3f}"
    )
    print(f"{'':<20}{'tier 1':>8}{'right':>8}{'tier 2':>8}{'right':>8}{'all right':>12}")
    for source in sources_of(sample):
        rows = sample.source == source
        shares = ""
        for tier in (fused, ~fused):
            inside = rows & tier
            accuracy = f"{right[inside].mean():.3f}" if inside.any() else "-"
            shares += f"{inside.sum() / rows.sum():>8.3f}{accuracy:>8}"
        print(f"{source:<20}{shares}{right[rows].mean():>12.3f}")


def main() -> None:
    """Collect, route and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sample", type=int, default=40, help="documents a source, at most")
    parser.add_argument("--skip", type=int, default=0, help="pass over as many: another sample")
    options = parser.parse_args()

    by_source: dict[str, list[Labelled]] = {}
    for name in PUBLIC:
        if (options.data / name / "corpus.jsonl").is_file():
            by_source[name] = list(public(options.data, name))
        else:
            print(f"left out, not there: {options.data / name}")
    if not by_source:
        raise SystemExit("no public data set is there: give their folder with --data")
    for one in [*bundled(), *packages()]:
        by_source.setdefault(one.source, []).append(one)
    labelled = [
        one
        for documents in by_source.values()
        for one in drawn(without_repeats(documents), options.sample, options.skip)
    ]

    encoder = CachedEncoder(open_encoders("embedded")["eagle_text"], store_folder() / "cache")
    sketches = [
        sketch(one.document, list(chunk_documents([one.document], encoder.token_spans)))
        for one in labelled
    ]
    settings = DomainConfig()
    verdicts = route_documents(
        sketches, lambda texts: encoder.encode(texts, "document"), settings, load_lexicon()
    )
    sample = Sample(
        source=np.array([one.source for one in labelled]),
        biomedical=np.array([one.domain == "biomedical" for one in labelled]),
        half=np.array([hashed(one.group) % 2 for one in labelled]),
        fused=np.array([verdict.signals["fused"] for verdict in verdicts]),
    )
    print_scores(sample)
    print_cuts(sample, settings)
    print_router(sample, verdicts, settings)


if __name__ == "__main__":
    main()
