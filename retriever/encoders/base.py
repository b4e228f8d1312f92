"""What every text encoder gives."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Spans", "TextEncoder", "Vectors"]

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
