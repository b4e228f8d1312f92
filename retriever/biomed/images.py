"""Which collection an image belongs to: declared, else by the words of its caption and path."""

from collections.abc import Mapping, Sequence

from retriever.biomed.config import BiomedRouteConfig
from retriever.biomed.image_words import any_of
from retriever.biomed.routing import PATHOLOGY, RADIOLOGY, VISUAL
from retriever.files import InputError
from retriever.hooks import ImageProfile
from retriever.ingest.chunk import Document

__all__ = ["MODALITIES", "classify_images"]

MODALITIES: Mapping[str, str] = {"radiology": RADIOLOGY, "pathology": PATHOLOGY, "visual": VISUAL}


def classify_images(
    documents: Sequence[Document], words: BiomedRouteConfig
) -> list[ImageProfile | None]:
    """Return the modality of each document's image, and its collection.

    `metadata.modality` declares it. Else the list decides of which more different words stand in
    title, text and path; at a tie the one whose word comes first; `visual` where there is none.
    Raises InputError for a modality that is none of the three.
    """
    found: list[ImageProfile | None] = []
    for document in documents:
        modality = _declared(document) or _by_words(document, words)
        found.append(ImageProfile(MODALITIES[modality], modality))
    return found


def _declared(document: Document) -> str | None:
    value = document.metadata.get("modality")
    if value is None or value == "":
        return None
    name = value.strip().casefold() if isinstance(value, str) else ""
    if name not in MODALITIES:
        raise InputError(
            f"metadata.modality of document {document.document_id!r} is {value!r:.60}",
            fix=f"{', '.join(MODALITIES)}, or rename the key where it means something else",
        )
    return name


def _by_words(document: Document, words: BiomedRouteConfig) -> str:
    place = f"{document.path} {document.file_name} {document.metadata.get('image', '')}"
    # In a path, what looks like one word is several: ct_chest-01.png.
    content = f"{document.title} {document.text} {place.replace('_', ' ')}"
    ranked = []
    lists = {"radiology": words.radiology_words, "pathology": words.pathology_words}
    for modality, phrases in lists.items():
        hits = list(any_of(phrases).finditer(content))
        if hits:
            different = {hit.group().casefold() for hit in hits}
            ranked.append((-len(different), hits[0].start(), modality))
    return min(ranked)[2] if ranked else "visual"
