"""A world with images for tests: stand-in image encoders, and files they can read."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from stage_worlds import config_of
from worlds import HashedWords

from retriever import Retriever, build_index
from retriever.encoders.base import Encoder
from retriever.encoders.molecule import MorganStructures

RADIOLOGY, PATHOLOGY = "eagle_medical_radiology", "eagle_medical_pathology"
VISUAL, TEXT = "eagle_visual", "eagle_text_biomed"


class WordsAsPixels:
    """A stand-in image encoder: an "image" is a file of words, its vector that of the words.

    No text tower. Says in its name what it is.
    """

    def __init__(self, seed: int = 7) -> None:
        self._words = HashedWords(dimension=16, seed=seed)
        self.dimension = 16
        self.name = f"stand-in-words-as-pixels-{seed}"
        self.fingerprint = hashlib.sha256(self.name.encode()).hexdigest()
        self.calls = 0

    def encode_images(self, paths: Sequence[Path]) -> npt.NDArray[np.float32]:
        self.calls += len(paths)
        return self._words.encode_documents([path.read_text("utf-8") for path in paths])


class WordsAsPixelsAndText(WordsAsPixels):
    """The same with a text tower: a text lies where an image of its words would."""

    def encode_queries(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return self._words.encode_documents(texts)


def image_encoders() -> dict[str, Encoder]:
    """Encoders of every collection; that of pathology has no text tower."""
    return {
        "eagle_text": HashedWords(),
        TEXT: HashedWords(seed=1),
        "eagle_chemical": MorganStructures(),
        RADIOLOGY: WordsAsPixelsAndText(seed=3),
        PATHOLOGY: WordsAsPixels(seed=4),
        VISUAL: WordsAsPixelsAndText(seed=5),
    }


def write_images(folder: Path, images: Mapping[str, str]) -> None:
    """Write "images", each a file of words, by their paths in a folder."""
    for name, words in images.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(words, "utf-8")


def write_documents(folder: Path, documents: Sequence[Mapping[str, Any]]) -> Path:
    """Write `corpus.jsonl`; what is no id, title or text is metadata, biomedical by default."""
    folder.mkdir(parents=True, exist_ok=True)
    records = []
    for document in documents:
        metadata = {k: v for k, v in document.items() if k not in ("_id", "text", "title")}
        top = {"_id": document["_id"], "text": document["text"], "title": document.get("title", "")}
        records.append({**top, "metadata": {"domain": "biomedical", **metadata}})
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, records)), "utf-8")
    return folder


def open_image_world(
    folder: Path,
    documents: Sequence[Mapping[str, Any]],
    images: Mapping[str, str],
    overrides: Mapping[str, Any] | None = None,
    rerankers: Mapping[str, Any] | None = None,
) -> Retriever:
    """Build an index of documents and their images, and open it."""
    corpus = write_documents(folder / "corpus", documents)
    write_images(corpus, images)
    config, encoders = config_of(folder, overrides), image_encoders()
    build_index(corpus, folder / "index", config, encoders=encoders)
    return Retriever.open(
        folder / "index", config, encoders=encoders, rerankers=dict(rerankers or {})
    )
