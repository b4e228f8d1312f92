"""HTML pages, parsed by Beautiful Soup over lxml."""

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from retriever.ingest.chunk import Document
from retriever.ingest.readers.blocks import Page, lay_out
from retriever.ingest.readers.markup import Event, blocks_of
from retriever.ingest.readers.source import RefusedFileError, Remark, Source, decode

if TYPE_CHECKING:
    from bs4 import BeautifulSoup

__all__ = ["page_of", "read"]

# No text of the page: code, what replaces it, menus, and the parts of forms.
_DROPPED = (
    *("script", "style", "noscript", "template", "nav", "iframe", "object", "embed", "svg"),
    *("canvas", "button", "select", "textarea", "dialog"),
)
# Metadata that a page may carry, `<meta name="kb_name" content="labels">`.
_METADATA = ("name", "kb_name", "source_uri", "smiles", "domain", "tags")
_IDS = ("id", "dc.identifier", "dcterms.identifier")


def read(source: Source) -> Iterator[Document | Remark]:
    """Yield the one document of an HTML file.

    The encoding is what the page says; `<main>` alone is read where there is one. Raises
    RefusedFileError for a file without text.
    """
    content = source.path.read_bytes()
    if not content.strip():
        raise RefusedFileError("empty")
    # A page says its encoding in a byte-order mark or in its head; else it is plain text.
    remarks: tuple[Remark, ...] = ()
    page: bytes | str = content
    if b"charset" not in content[:4096].lower():
        page, remarks = decode(source, content)
    soup = _parse(page)
    yield from remarks
    said = _metadata(soup)
    laid_out = _page(soup)
    if not laid_out.text and not laid_out.title:
        raise RefusedFileError("empty", "no text beside its code")
    tags = [tag.strip() for tag in said.pop("tags", "").split(",") if tag.strip()]
    document_id = said.pop("id", None)
    yield source.document(
        laid_out.title,
        laid_out.text,
        {**said, "tags": tags} if tags else said,
        document_id=document_id,
    )


def page_of(html: str, *, declared: str = "") -> Page:
    """Lay out a piece of HTML; `declared` is its title, if it is known from elsewhere."""
    return _page(_parse(html), declared)


def _parse(html: bytes | str) -> "BeautifulSoup":
    from bs4 import BeautifulSoup

    with warnings.catch_warnings():
        # That a page looks like XML, or a text like a file name, is no news to act on.
        warnings.simplefilter("ignore")
        return BeautifulSoup(html, "lxml")


def _page(soup: "BeautifulSoup", declared: str = "") -> Page:
    title = soup.title.get_text() if soup.title else ""
    root = soup.find("main") or soup.body or soup
    return lay_out(blocks_of(_events(root)), title, declared=declared)


def _events(root: Any) -> Iterator[Event]:
    """Walk a tree of Beautiful Soup without recursion, however deep it is."""
    from bs4.element import NavigableString, Tag

    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, Event):
            yield node
        elif isinstance(node, Tag):
            if node.name in _DROPPED or node.has_attr("hidden"):
                continue
            yield Event("start", node.name)
            stack.append(Event("end", node.name))
            stack.extend(reversed(node.contents))
        elif type(node) is NavigableString:  # its subclasses are comments, doctypes, CDATA
            yield Event("text", str(node))


def _metadata(soup: "BeautifulSoup") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for tag in soup.find_all("meta"):
        name, content = str(tag.get("name") or "").lower(), str(tag.get("content") or "").strip()
        if content:
            found.setdefault(name, content)
    ids = [found[key] for key in _IDS if key in found]
    said: dict[str, Any] = {key: found[key] for key in _METADATA if key in found}
    return said | ({"id": ids[0]} if ids else {})
