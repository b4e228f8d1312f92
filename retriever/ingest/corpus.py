"""A corpus, whatever it is kept in: a BEIR corpus in JSON lines, or a folder of files."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from retriever.files import BOM, InputError
from retriever.index.damage import reading
from retriever.ingest.chunk import Document
from retriever.ingest.folder import digest_of_folder, read_folder
from retriever.ingest.images import image_fault, image_name
from retriever.ingest.read import corpus_digest, read_documents
from retriever.ingest.readers import reader_of
from retriever.ingest.readers.source import Remark

__all__ = ["REMARKS", "Corpus", "Reading", "Sample", "counts", "read_remarks", "write_remarks"]

Progress = Callable[[str, int, int], object]

# Where an index keeps what was not read of its corpus.
REMARKS = "remarks.json"


@dataclass(frozen=True)
class Sample:
    """How many documents were taken of how many: those whose ids' SHA-256 come first."""

    documents: int
    of: int


@dataclass(frozen=True)
class Reading:
    """Documents with text, in order; what was left out of the rest; None for no sample."""

    documents: Sequence[Document]
    remarks: Sequence[Remark]
    sample: Sample | None = None

    def skipped(self) -> dict[str, int]:
        """Count what is not indexed, by reason."""
        return counts(self.remarks, "skipped")


@dataclass(frozen=True)
class Corpus:
    """Where documents come from.

    `path` is a file of JSON lines, a folder that holds `corpus.jsonl`, or else a folder of files
    of any format (or one such file). `sample` reads all and keeps that many documents.
    """

    path: Path
    sample: int | None = None

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of files, or one file that is no JSON lines.

        A folder with `queries.jsonl` is a gold set, whose corpus is missing.
        """
        if self.path.is_dir():
            return not any((self.path / f"{name}.jsonl").exists() for name in ("corpus", "queries"))
        reader = reader_of(self.path)
        if not self.path.is_file() or (reader and reader.function == "read_lines"):
            return False
        return reader is not None or not _begins_an_object(self.path)

    @cached_property
    def digest(self) -> str:
        """SHA-256, taken once, of all that it says. Raises InputError where there is no corpus."""
        digest = digest_of_folder(self.path) if self.is_folder else corpus_digest(self.path)
        if self.sample is None:
            return digest
        return hashlib.sha256(f"{digest} sample {self.sample}".encode()).hexdigest()

    def read(self, progress: Progress = lambda stage, total, done: None) -> Reading:
        """Read all documents. Raises InputError for a bad corpus, and for one without any text."""
        documents: list[Document] = []
        remarks: list[Remark] = []
        for item in self._items(progress):
            if isinstance(item, Remark):
                remarks.append(item)
            elif item.title.strip() or item.text.strip() or image_name(item):
                documents.append(item)
            else:
                remarks.append(Remark("skipped", item.path or item.document_id, "empty"))
        if not documents:
            raise InputError(
                f"no document has any text{_why(remarks)}", path=self.path, fix=self._remedy()
            )
        if not self.is_folder:
            progress("read", len(documents), len(documents))
        if self.sample is None:
            return Reading(documents, remarks)
        kept = sample(documents, self.sample)
        return Reading(kept, remarks, Sample(len(kept), len(documents)))

    def _items(self, progress: Progress) -> Iterator[Document | Remark]:
        if self.is_folder:
            return read_folder(self.path, progress)
        return read_documents(self.path, lambda document: image_fault(document, self.path))

    def _remedy(self) -> str:
        return "docs/readers.md says what is read" if self.is_folder else "check title and text"


def sample(documents: Sequence[Document], count: int) -> list[Document]:
    """Return the `count` documents whose ids have the smallest SHA-256, in their old order.

    A sample of 50 is part of the sample of 100, and a document stays in it or out of it whatever
    else the corpus holds, but for those at its border.
    """
    by_hash = sorted(documents, key=lambda d: hashlib.sha256(d.document_id.encode()).digest())
    kept = {document.document_id for document in by_hash[:count]}
    return [document for document in documents if document.document_id in kept]


def counts(remarks: Sequence[Remark], *kinds: str) -> dict[str, int]:
    """Count remarks of some kinds by reason, in order of reason."""
    found: Counter[str] = Counter()
    for remark in remarks:
        if remark.kind in kinds:
            found[remark.reason] += remark.count
    return dict(sorted(found.items()))


def write_remarks(file: Path, remarks: Sequence[Remark]) -> None:
    """Keep all remarks beside an index."""
    text = json.dumps([asdict(remark) for remark in remarks], ensure_ascii=False, indent=1)
    file.write_text(text, "utf-8")


def read_remarks(file: Path) -> tuple[Remark, ...]:
    """Return the remarks that `write_remarks` kept; none where an older index has no such file."""
    if not file.exists():
        return ()
    with reading(file):
        return tuple(Remark(**item) for item in json.loads(file.read_text("utf-8")))


def _begins_an_object(file: Path) -> bool:
    """Whether a file of no known suffix may be JSON lines."""
    with file.open("rb") as stream:
        return stream.read(4096).removeprefix(BOM).lstrip().startswith(b"{")


def _why(remarks: Sequence[Remark]) -> str:
    skipped = [remark for remark in remarks if remark.kind == "skipped"]
    if not skipped:
        return ""
    first = skipped[0]
    detail = f", {first.detail}" if first.detail else ""
    return f" ({len(skipped)} skipped, the first is {first.path}: {first.reason}{detail})"
