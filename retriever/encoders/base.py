"""What every encoder gives."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Encoder", "ImageEncoder", "Spans", "TextEncoder", "Vectors"]

Vectors = npt.NDArray[np.float32]
Spans = Sequence[tuple[int, int]]


class TextEncoder(Protocol):
    """A model that turns text into unit vectors.

    `fingerprint` changes whenever the same text could give another vector: weights, pooling,
    lengths. `token_spans` gives each text's tokens as (start, end) in characters.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def fingerprint(self) -> str: ...  # noqa: D102

    @property
    def dimension(self) -> int: ...  # noqa: D102

    def token_spans(self, texts: Sequence[str]) -> Sequence[Spans]: ...  # noqa: D102

    def encode_documents(self, texts: Sequence[str]) -> Vectors: ...  # noqa: D102

    def encode_queries(self, texts: Sequence[str]) -> Vectors: ...  # noqa: D102


class ImageEncoder(Protocol):
    """A model that turns images into unit vectors.

    One with a text tower has `encode_queries` too, which puts texts into the same space. Without
    it a query finds images by an image alone.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def fingerprint(self) -> str: ...  # noqa: D102

    @property
    def dimension(self) -> int: ...  # noqa: D102

    def encode_images(self, paths: Sequence[Path]) -> Vectors: ...  # noqa: D102


Encoder = TextEncoder | ImageEncoder
