"""Drug labels in JSON, as openFDA's drug label endpoint and its downloads give them."""

from collections.abc import Iterator, Mapping
from typing import Any

from retriever.ingest.chunk import Document
from retriever.ingest.readers.blocks import Block, lay_out
from retriever.ingest.readers.label_sections import FIELDS, label_title
from retriever.ingest.readers.source import Remark, Source, listed

__all__ = ["is_label", "labels_in", "read_labels"]

# Not sections: what identifies a label, what repeats its text, and registration data.
_NO_SECTIONS = {
    *("id", "set_id", "version", "effective_time", "openfda", "spl_product_data_elements"),
    *("spl_unclassified_section_table", "package_label_principal_display_panel_table"),
}


def is_label(value: object) -> bool:
    """Whether a JSON value is one label record."""
    return isinstance(value, Mapping) and "set_id" in value and bool({"openfda", "id"} & {*value})


def labels_in(value: object) -> list[Any] | None:
    """Return the records of openFDA's answer, a list of labels or one label; None for others."""
    if isinstance(value, Mapping) and isinstance(value.get("results"), list):
        value = value["results"]
    if is_label(value):
        return [value]
    if isinstance(value, list) and value and any(is_label(item) for item in value):
        return value
    return None


def read_labels(source: Source, records: list[Any]) -> Iterator[Document | Remark]:
    """Yield a document a label; what is no label, or has no section, is skipped and counted."""
    strange: list[int] = []
    for number, record in enumerate(records, start=1):
        document = _document(source, record, number) if is_label(record) else None
        if document is None:
            strange.append(number)
        else:
            yield document
    if strange:
        detail = listed("results", strange)
        yield source.remark("skipped", "no label with a section", detail, len(strange))


def _document(source: Source, record: Mapping[str, Any], number: int) -> Document | None:
    names = record.get("openfda")
    names = names if isinstance(names, Mapping) else {}
    brands, generics = _texts(names.get("brand_name")), _texts(names.get("generic_name"))
    page = lay_out(_blocks(record), declared=label_title(brands, generics, ""))
    if not page.text:
        return None
    metadata: dict[str, Any] = {"source_format": "openfda", "set_id": str(record.get("set_id"))}
    if brands or generics:
        metadata["name"] = (brands or generics)[0]
    given = record.get("id")
    document_id = given if isinstance(given, str) and given.strip() else None
    return source.document(
        page.title, page.text, metadata, row=str(number), document_id=document_id
    )


def _blocks(record: Mapping[str, Any]) -> Iterator[Block]:
    """Yield the sections in the order of a label, then all others in the order of the file."""
    others = [key for key in record if key not in FIELDS and key not in _NO_SECTIONS]
    for key in [*FIELDS, *others]:
        texts = [] if key.endswith("_table") else _texts(record.get(key))
        if texts:
            yield Block(FIELDS.get(key) or key.replace("_", " ").capitalize(), 2)
            yield from (Block(text) for text in texts)


def _texts(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text.strip() for text in values if isinstance(text, str) and text.strip()]
