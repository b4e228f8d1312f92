"""Documents that carry an image: `metadata.image`, a path from the corpus's folder."""

from collections.abc import Sequence
from pathlib import Path

from retriever.files import InputError
from retriever.hooks import ImageProfile
from retriever.images import ImageFile
from retriever.ingest.chunk import Document
from retriever.plugins import Subscribers

__all__ = ["image_fault", "image_file", "image_name", "profile_images"]


def image_name(document: Document) -> str:
    """Return the path of a document's image as its metadata gives it, "" for none.

    Raises InputError for one that is no text.
    """
    name = document.metadata.get("image") or ""
    if not isinstance(name, str):
        raise InputError(
            f"metadata.image of document {document.document_id!r} is {name!r:.60}",
            fix="a path from the corpus's folder",
        )
    return name


def image_file(document: Document, corpus: Path) -> ImageFile:
    """Return a document's image. Raises InputError where the file is not there."""
    named_by = f"{corpus}: document {document.document_id!r}"
    return ImageFile.of(_place(document, corpus), named_by=named_by)


def image_fault(document: Document, corpus: Path) -> str:
    """Say why a document's image cannot be read; "" where it can, and where there is none."""
    try:
        if image_name(document):
            with _place(document, corpus).open("rb") as stream:
                stream.read(1)
    except InputError as error:
        return str(error)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        shown = f"document {document.document_id!r}: the image {image_name(document)!r}"
        return f"{shown} cannot be read: {reason}"
    return ""


def _place(document: Document, corpus: Path) -> Path:
    root = corpus if corpus.is_dir() else corpus.parent
    return root / image_name(document)


def profile_images(
    documents: Sequence[Document], subscribers: Subscribers
) -> list[ImageProfile | None]:
    """Return where each document's image belongs; None without one, or where no plugin says."""
    held = [i for i, document in enumerate(documents) if image_name(document)]
    found: list[ImageProfile | None] = [None] * len(documents)
    asked = [documents[i] for i in held]
    answers = subscribers.first("classify_image", len(held), "ingest", documents=asked)
    for i, answer in zip(held, answers, strict=True):
        found[i] = answer
    return found
