"""Drug labels in XML: HL7 Structured Product Labeling, as DailyMed and the FDA publish it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from retriever.ingest.chunk import Document
from retriever.ingest.readers.blocks import Block, lay_out
from retriever.ingest.readers.label_sections import LOINC, heading_blocks, label_title
from retriever.ingest.readers.markup import Event, blocks_of
from retriever.ingest.readers.source import RefusedFileError, Remark, Source

if TYPE_CHECKING:
    from lxml.etree import _Element

__all__ = ["read"]

_NAMESPACE = "{urn:hl7-org:v3}"
_PRODUCTS = ("manufacturedProduct", "manufacturedMedicine")
_GENERICS = ("genericMedicine",)


def read(source: Source) -> Iterator[Document | Remark]:
    """Yield the one document of a label: its sections with headings by title and LOINC code.

    Id and set id are the label's own, its name is the product's. The highlights, which repeat the
    sections, are left out. Raises RefusedFileError for XML that is broken, that declares entities,
    or that is no label.
    """
    root = _parse(source)
    if root.tag != f"{_NAMESPACE}document":
        raise RefusedFileError("no reader", f"XML of the kind {_local(root)}, not a drug label")
    brands, generics = _names(root, _PRODUCTS), _names(root, _GENERICS)
    said = root.find(f"{_NAMESPACE}title")
    fallback = "" if said is None else _words(said)
    page = lay_out(_sections(root), declared=label_title(brands, generics, fallback))
    if not page.text:
        raise RefusedFileError("empty", "the label has no section with text")
    metadata: dict[str, Any] = {"source_format": "spl"}
    if brands or generics:
        metadata["name"] = (brands or generics)[0]
    if set_id := _root_of(root, "setId"):
        metadata["set_id"] = set_id
    yield source.document(page.title, page.text, metadata, document_id=_root_of(root, "id"))


def _parse(source: Source) -> "_Element":
    """Parse XML that nobody vouches for: nothing is fetched, no entity is expanded."""
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    content = source.path.read_bytes()
    if not content.strip():
        raise RefusedFileError("empty")
    try:
        tree = etree.fromstring(content, parser).getroottree()
    except etree.XMLSyntaxError as error:
        raise RefusedFileError("broken", f"no XML: {error.msg}") from error
    subset: Any = tree.docinfo.internalDTD
    if subset is not None and next(subset.iterentities(), None) is not None:
        raise RefusedFileError("refused", "its DOCTYPE declares entities")
    return tree.getroot()


def _sections(root: "_Element") -> Iterator[Block]:
    """Yield the blocks of all sections in order, each below its parent."""
    body = root.find(f"{_NAMESPACE}component/{_NAMESPACE}structuredBody")
    if body is None:
        return
    # Sections to come, the next one last, with their level and the section they are within.
    stack = [(section, 2, "") for section in reversed(_children(body))]
    while stack:
        section, level, inside = stack.pop()
        title, code = section.find(f"{_NAMESPACE}title"), section.find(f"{_NAMESPACE}code")
        words = "" if title is None else _words(title)
        coded = LOINC.get(str(code.get("code")), "") if code is not None else ""
        headings, name = heading_blocks(words, coded, level, inside)
        text = section.find(f"{_NAMESPACE}text")
        prose = list(blocks_of(_events(text))) if text is not None else []
        within = _children(section)
        if prose or within:
            yield from headings
        yield from prose
        stack += [(child, level + 1, name) for child in reversed(within)]


def _children(node: "_Element") -> list["_Element"]:
    return node.findall(f"{_NAMESPACE}component/{_NAMESPACE}section")


def _events(text: "_Element") -> Iterator[Event]:
    """Walk the text of a section, without recursion."""
    stack: list[Event | _Element] = [text]
    while stack:
        node = stack.pop()
        if isinstance(node, Event):
            yield node
            continue
        if not isinstance(node.tag, str):  # a comment or a processing instruction
            continue
        yield Event("start", _local(node))
        if node.text:
            yield Event("text", node.text)
        stack.append(Event("end", _local(node)))
        for child in reversed(node):
            if child.tail:
                stack.append(Event("text", child.tail))
            stack.append(child)


def _names(root: "_Element", parents: tuple[str, ...]) -> list[str]:
    found = [
        _words(name)
        for parent in parents
        for name in root.iterfind(f".//{_NAMESPACE}{parent}/{_NAMESPACE}name")
    ]
    return list(dict.fromkeys(name for name in found if name))


def _root_of(root: "_Element", tag: str) -> str | None:
    node = root.find(f"{_NAMESPACE}{tag}")
    return None if node is None else node.get("root")


def _words(node: "_Element") -> str:
    return " ".join("".join(map(str, node.itertext())).split())


def _local(node: "_Element") -> str:
    return str(node.tag).rpartition("}")[2]
