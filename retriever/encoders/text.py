"""Sentence encoders through transformers alone (half the import time of sentence-transformers)."""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from retriever.encoders.base import Spans, Vectors
from retriever.encoders.models import EncoderRecord
from retriever.files import InputError, write_atomically

__all__ = ["TransformersEncoder", "load_from", "model_fingerprint"]

DOCUMENTS_AT_ONCE = 32


class TransformersEncoder:
    """A transformer whose token states are pooled (mean or CLS) and brought to unit length.

    Loaded when first used, on the GPU where there is one. Queries are encoded one by one, so that
    what else is in a batch never reaches their vectors; documents in batches of similar length.
    """

    def __init__(self, record: EncoderRecord, *, model_set: str, digests: Path) -> None:
        self._record = record
        self._model_set = model_set
        self._digests = digests

    @property
    def name(self) -> str:
        """Name of the model, as reports show it."""
        return self._record.name

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the record and the model's own files."""
        return model_fingerprint(self._record, self._digests)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._model.config.hidden_size)

    def token_spans(self, texts: Sequence[str]) -> Sequence[Spans]:
        """Return each text's tokens, without special tokens and uncut, as character spans."""
        backend = self._tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        encodings = backend.encode_batch(list(texts), add_special_tokens=False)
        return [encoding.offsets for encoding in encodings]

    def encode_documents(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors (n, d) of documents; text beyond the token limit is not seen."""
        by_length = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), DOCUMENTS_AT_ONCE):
            batch = by_length[start : start + DOCUMENTS_AT_ONCE]
            vectors[batch] = self._encode([texts[i] for i in batch], self._record.document_tokens)
        return vectors

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors (n, d) of queries."""
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for i, text in enumerate(texts):
            vectors[i] = self._encode([text], self._record.query_tokens)[0]
        return vectors

    def _encode(self, texts: list[str], max_tokens: int) -> Vectors:
        import torch

        inputs = self._tokenizer(
            texts, padding=True, truncation=True, max_length=max_tokens, return_tensors="pt"
        ).to(self._model.device)
        with torch.inference_mode():
            states = self._model(**inputs).last_hidden_state
            if self._record.pooling == "cls":
                pooled = states[:, 0]
            else:
                mask = inputs["attention_mask"][..., None].to(states.dtype)
                pooled = (states * mask).sum(1) / mask.sum(1)
            unit = torch.nn.functional.normalize(pooled, dim=1).float().cpu().numpy()
        result: Vectors = unit
        if not np.isfinite(result).all():
            raise InputError(f"the model {self.name} gave a vector that is not finite")
        return result

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


def model_fingerprint(record: EncoderRecord, digests: Path) -> str:
    """SHA-256 over what decides a model's output: its record and its own files."""
    folder = record.folder()
    said = record.model_dump(mode="json", exclude={"name", "source", "revision"})
    kinds = ("*.json", "*.txt", "*.model", "*.safetensors", "*.py")
    files = sorted(file for kind in kinds for file in folder.glob(kind))
    content = {path.name: _file_digest(path, digests) for path in files}
    return hashlib.sha256(json.dumps([said, content], sort_keys=True).encode()).hexdigest()


def load_from(record: EncoderRecord, model_set: str, kind: Any, **options: Any) -> Any:
    """Load a part of a model through transformers. Raises InputError naming model and fix."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        return kind.from_pretrained(
            str(record.folder()), trust_remote_code=record.trust_remote_code, **options
        )
    except (OSError, ValueError) as error:
        raise InputError(
            f"the model {record.name} ({record.source}) of the model set {model_set} cannot be "
            f"loaded: {str(error).splitlines()[0]}",
            fix="choose another model, or another model set, --set models=embedded",
        ) from error


def _file_digest(path: Path, digests: Path) -> str:
    """SHA-256 of a file; hashing weights takes longer than a search, so it is noted down."""
    stat = path.stat()
    key = f"{path.resolve()}:{stat.st_size}:{stat.st_mtime_ns}"
    try:
        known = json.loads(digests.read_text("utf-8"))
    except (OSError, ValueError):
        known = {}
    if isinstance(known, dict) and isinstance(known.get(key), str):
        return str(known[key])
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if isinstance(known, dict):
        # The note only saves time: where the store cannot be written, a search does without.
        with suppress(InputError):
            write_atomically(digests, json.dumps({**known, key: digest}, indent=1).encode())
    return digest
