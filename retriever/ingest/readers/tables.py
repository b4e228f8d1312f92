"""Rows of a table as documents; the names of the columns say what each is."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retriever.files import InputError
from retriever.ingest.chunk import Document
from retriever.ingest.readers.source import RefusedFileError, Remark, Source, listed

__all__ = ["Columns", "documents_of"]

# By role, the names that a column of it may have; the first of a table that fits is it.
_ROLES: Mapping[str, tuple[str, ...]] = {
    "id": ("_id", "id", "document_id", "doc_id", "docid"),
    "title": ("title", "headline"),
    "name": ("name", "document_name"),
    "text": ("text", "abstract", "body", "content", "description", "summary"),
    "smiles": ("smiles", "canonical_smiles", "isomeric_smiles"),
    "tags": ("tags",),
    "kb_name": ("kb_name",),
    "source_uri": ("source_uri", "url", "uri"),
    "domain": ("domain",),
}
_MAX_COLUMNS = 2_000


@dataclass(frozen=True)
class Columns:
    """What each column of a table is: its place by role, and the others by name."""

    roles: Mapping[str, int]
    others: tuple[tuple[int, str], ...]
    width: int

    @classmethod
    def of(cls, header: Sequence[str]) -> "Columns":
        """Read a header. Raises RefusedFileError for one of more than 2,000 columns."""
        if len(header) > _MAX_COLUMNS:
            raise RefusedFileError("too large", f"{len(header)} columns, at most {_MAX_COLUMNS}")
        folded = ["_".join(name.casefold().split()) for name in header]
        roles = {}
        for role, names in _ROLES.items():
            place = next((folded.index(name) for name in names if name in folded), None)
            if place is not None:
                roles[role] = place
        taken = set(roles.values())
        others = tuple(
            (i, " ".join(name.split()) or f"column {i + 1}")
            for i, name in enumerate(header)
            if i not in taken
        )
        return cls(roles, others, len(header))

    def value(self, role: str, row: Sequence[str]) -> str:
        """Return a row's cell of that role, "" where the table or the row has none."""
        place = self.roles.get(role)
        return "" if place is None or place >= len(row) else row[place].strip()

    def text(self, row: Sequence[str]) -> str:
        """Return the row's text: its text column, then every other cell as `column: value`."""
        named = [(name, row[i].strip()) for i, name in self.others if i < len(row)]
        named += [(f"column {i + 1}", row[i].strip()) for i in range(self.width, len(row))]
        lines = [f"{name}: {value}" for name, value in named if value]
        return "\n".join([part for part in (self.value("text", row),) if part] + lines)

    def metadata(self, row: Sequence[str]) -> dict[str, Any]:
        """Return what the row says of the document: name, structure, tags and the like."""
        keys = ("name", "smiles", "kb_name", "source_uri", "domain")
        found: dict[str, Any] = {key: self.value(key, row) for key in keys}
        tags = [tag.strip() for tag in self.value("tags", row).replace("|", ";").split(";")]
        found["tags"] = [tag for tag in tags if tag]
        return {key: value for key, value in found.items() if value}


def documents_of(
    source: Source, rows: Iterable[Sequence[str]], *, sheet: str = ""
) -> Iterator[Document | Remark]:
    """Yield a document a row below the header, the first row that is not blank.

    Rows count from 1 with the header, as a spreadsheet shows them; a document without an id of
    its own is named `FILE#ROW`, or `FILE#SHEET!ROW`. Rows that are no document are skipped and
    counted, blank ones passed over.
    """
    columns: Columns | None = None
    refused: dict[str, list[int]] = {}
    for number, row in enumerate(rows, start=1):
        if not any(cell.strip() for cell in row):
            continue
        if columns is None:
            columns = Columns.of(row)
            continue
        place = f"{sheet}!{number}" if sheet else str(number)
        name = columns.value("name", row)
        try:
            yield source.document(
                columns.value("title", row) or name,
                columns.text(row),
                columns.metadata(row),
                row=place,
                document_id=columns.value("id", row) or None,
            )
        except InputError as error:
            refused.setdefault(str(error), []).append(number)
    if columns is None and not sheet:
        raise RefusedFileError("empty")
    for message, numbers in refused.items():
        detail = f"{listed('rows', numbers)}: {message}"
        yield source.remark("skipped", "bad row", detail, len(numbers))
