"""Structures: SDF and SMILES files, read by RDKit, a document a molecule."""

from collections.abc import Iterator
from typing import Any

from retriever.ingest.chunk import Document
from retriever.ingest.readers.source import RefusedFileError, Remark, Source, decode, listed
from retriever.ingest.readers.tables import Columns

__all__ = ["read_sdf", "read_smiles"]


def read_sdf(source: Source) -> Iterator[Document | Remark]:
    """Yield a document for each record of an SDF file that RDKit can read.

    Its structure is `metadata.smiles`; its properties are read as the columns of a table, its name
    is the record's first line, else a property that names it. Others are skipped and counted.
    """
    from rdkit import Chem, rdBase

    if not source.path.stat().st_size:
        raise RefusedFileError("empty")
    bad: list[int] = []
    number = 0
    with rdBase.BlockLogs(), source.path.open("rb") as stream:
        for number, molecule in enumerate(Chem.ForwardSDMolSupplier(stream), start=1):
            if molecule is None or not molecule.GetNumAtoms():
                bad.append(number)
                continue
            properties = {
                str(key): str(value)
                for key, value in molecule.GetPropsAsDict(autoConvertStrings=False).items()
            }
            named = molecule.GetProp("_Name") if molecule.HasProp("_Name") else ""
            smiles = Chem.MolToSmiles(molecule)
            yield _document(source, number, smiles, " ".join(named.split()), properties)
    if bad and len(bad) == number:
        raise RefusedFileError("broken", f"no structure that RDKit can read among {number}")
    if bad:
        yield _unreadable(source, "records", bad)


def read_smiles(source: Source) -> Iterator[Document | Remark]:
    """Yield a document for each line `SMILES name` of a file; a header line is passed over.

    Lines whose first word is no structure are skipped and counted.
    """
    from rdkit import Chem, rdBase

    text, remarks = decode(source, source.path.read_bytes())
    yield from remarks
    bad: list[int] = []
    lines = 0
    with rdBase.BlockLogs():
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.split(maxsplit=1)
            if not words or line.lstrip().startswith("#"):
                continue
            if not lines and words[0].casefold() in ("smiles", "canonical_smiles"):
                continue
            lines += 1
            molecule = Chem.MolFromSmiles(words[0])
            if molecule is None or not molecule.GetNumAtoms():
                bad.append(number)
                continue
            name = " ".join(words[1].split()) if len(words) > 1 else ""
            yield _document(source, number, words[0], name, {})
    if len(bad) == lines:
        raise RefusedFileError("broken", f"no structure that RDKit can read among {lines}")
    if bad:
        yield _unreadable(source, "lines", bad)


def _document(
    source: Source, number: int, smiles: str, name: str, properties: dict[str, str]
) -> Document:
    columns, row = Columns.of(list(properties)), list(properties.values())
    title = name or columns.value("title", row) or columns.value("name", row)
    metadata: dict[str, Any] = columns.metadata(row) | {"smiles": smiles}
    if title:
        metadata.setdefault("name", title)
    # A structure without name and properties is still a document: what it says is its SMILES.
    text = columns.text(row) or f"SMILES: {smiles}"
    document_id = columns.value("id", row) or None
    return source.document(title, text, metadata, row=str(number), document_id=document_id)


def _unreadable(source: Source, what: str, numbers: list[int]) -> Remark:
    detail = listed(what, numbers)
    return source.remark("skipped", "no structure", detail, len(numbers))
