"""Late interaction: a second look at a text through the token vectors of a sentence encoder.

The score of a pair is the mean over the query's tokens of the best cosine with any token of the
text (MaxSim: Khattab and Zaharia 2020, "ColBERT"). The encoder was trained for one vector a text,
not for this: it is no cross-encoder and is called by its own name everywhere.
"""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from retriever.encoders.base import Vectors
from retriever.encoders.cache import VectorCache
from retriever.encoders.cross import CHARACTERS_READ
from retriever.encoders.models import EncoderRecord
from retriever.encoders.text import load_from, model_fingerprint
from retriever.files import InputError

__all__ = ["LateInteraction", "max_sim", "packed", "unpacked"]

WRITE_AT_ONCE = 64
STEPS = 127


class LateInteraction:
    """Scores pairs by MaxSim; serves where a cross-encoder is asked for.

    Token vectors of texts are kept in `folder` by content, a byte a dimension: about 384 bytes a
    token with MiniLM. Texts are cut to 2,048 characters and `document_tokens`, and read one by
    one, so that what else is in a batch never reaches a score.
    """

    def __init__(
        self, record: EncoderRecord, *, model_set: str, digests: Path, folder: Path | None
    ) -> None:
        self._record = record
        self._model_set = model_set
        self._digests = digests
        self._folder = folder

    @property
    def name(self) -> str:
        """Name of the model and of what is done with it, as reports show it."""
        return f"{self._record.name} (late interaction)"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the record and the model's own files."""
        own = model_fingerprint(self._record, self._digests)
        return hashlib.sha256(f"late interaction 1 {own}".encode()).hexdigest()

    def logits(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return one score a text, from -1 to 1, in the order given; 0 for a text of no token."""
        asked = self._encode(query, self._record.query_tokens)
        if not len(asked):
            return np.zeros(len(texts))
        scores = [max_sim(asked, tokens) for tokens in self._tokens(texts)]
        return np.array(scores, dtype=np.float64)

    def _tokens(self, texts: Sequence[str]) -> list[Vectors]:
        keys = [self._key(text[:CHARACTERS_READ]) for text in texts]
        distinct = dict(zip(keys, (text[:CHARACTERS_READ] for text in texts), strict=True))
        cache = None
        if self._folder is not None:
            cache = VectorCache(self._folder / f"{self.fingerprint[:32]}.sqlite")
        known = cache.read(list(distinct)) if cache else {}
        missing = [key for key in distinct if key not in known]
        for start in range(0, len(missing), WRITE_AT_ONCE):
            part = missing[start : start + WRITE_AT_ONCE]
            made = [
                (key, packed(self._encode(distinct[key], self._record.document_tokens)))
                for key in part
            ]
            if cache:
                cache.write(made)
            known.update(made)
        dimension = int(self._model.config.hidden_size)
        return [unpacked(known[key], dimension) for key in keys]

    def _key(self, text: str) -> bytes:
        content = f"{self.fingerprint}\0tokens\0{text}".encode("utf-8", "surrogatepass")
        return hashlib.sha256(content).digest()

    def _encode(self, text: str, max_tokens: int) -> Vectors:
        """Return unit vectors (tokens, d) of a text's own tokens, the special ones left out."""
        import torch

        inputs = self._tokenizer(
            text,
            truncation=True,
            max_length=max_tokens,
            return_tensors="pt",
            return_special_tokens_mask=True,
        )
        own = ~inputs.pop("special_tokens_mask")[0].bool().numpy()
        with torch.inference_mode():
            states = self._model(**inputs.to(self._model.device)).last_hidden_state[0]
            unit = torch.nn.functional.normalize(states, dim=1).float().cpu().numpy()
        if not np.isfinite(unit).all():
            raise InputError(f"the model {self._record.name} gave a vector that is not finite")
        kept: Vectors = unit[own]
        return kept

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return load_from(self._record, self._model_set, AutoTokenizer, use_fast=True)

    @cached_property
    def _model(self) -> Any:
        import torch
        from transformers import AutoModel

        model = load_from(self._record, self._model_set, AutoModel, use_safetensors=True)
        return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def max_sim(query: Vectors, text: Vectors) -> float:
    """Mean over the query's tokens of the best cosine with a token of the text; 0 without any."""
    if not len(query) or not len(text):
        return 0.0
    best = (query @ text.T).max(axis=1)
    return float(best.astype(np.float64).mean())


def packed(vectors: Vectors) -> bytes:
    """Return unit vectors as a byte a dimension, each scaled to its own largest component."""
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=1e-12)
    steps: npt.NDArray[np.int8] = np.rint(vectors / largest * STEPS).astype(np.int8)
    return steps.tobytes()


def unpacked(content: bytes, dimension: int) -> Vectors:
    """Return the unit vectors (tokens, dimension) that `packed` wrote, to about half a per cent."""
    steps = np.frombuffer(content, dtype=np.int8).reshape(-1, dimension).astype(np.float32)
    length = np.linalg.norm(steps, axis=1, keepdims=True)
    unit: Vectors = steps / np.maximum(length, 1e-12)
    return unit
