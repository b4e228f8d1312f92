"""Markdown (CommonMark with tables), rendered by markdown-it and read as HTML."""

import re
from collections.abc import Iterator
from typing import Any

from retriever.ingest.chunk import Document
from retriever.ingest.readers.html_page import page_of
from retriever.ingest.readers.source import RefusedFileError, Remark, Source, decode

__all__ = ["read"]

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M)
_MAX_FRONT_MATTER = 64_000


def read(source: Source) -> Iterator[Document | Remark]:
    """Yield the one document of a Markdown file.

    YAML between two lines `---` at its top is its metadata: `id`, `title`, and any key of a corpus
    document's metadata. Raises RefusedFileError for a file without text or with broken YAML.
    """
    from markdown_it import MarkdownIt

    text, remarks = decode(source, source.path.read_bytes())
    yield from remarks
    metadata, body = _front_matter(text.replace("\r\n", "\n"))
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(body)
    document_id, title = metadata.pop("id", None), str(metadata.pop("title", None) or "")
    page = page_of(html, declared=title)
    if not page.text and not page.title:
        raise RefusedFileError("empty")
    yield source.document(
        page.title,
        page.text,
        metadata,
        document_id=None if document_id is None else str(document_id),
    )


def _front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the metadata of the text and the text below it."""
    import yaml

    match = _FRONT_MATTER.match(text)
    if match is None or len(match[1]) > _MAX_FRONT_MATTER:
        return {}, text
    try:
        # An alias could say one list a billion times.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(match[1])):
            raise RefusedFileError("broken", "its front matter uses YAML aliases")
        said = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = str(error).splitlines()[0]
        raise RefusedFileError("broken", f"its front matter is no YAML: {line}") from error
    if not isinstance(said, dict):
        return {}, text  # two rules with prose between them
    return {str(key): _plain(value) for key, value in said.items()}, text[match.end() :]


def _plain(value: Any) -> Any:
    """Return a YAML value as JSON has it: dates and the like as text."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return str(value)
