"""Cross-encoders: one logit for a query and a text read together."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from retriever.encoders.models import EncoderRecord
from retriever.encoders.text import load_from, model_fingerprint
from retriever.files import InputError

__all__ = ["CHARACTERS_READ", "TransformersCrossEncoder"]

PAIRS_AT_ONCE = 32
CHARACTERS_READ = 2048


class TransformersCrossEncoder:
    """A sequence classifier with one output, on pairs in the order (query, text).

    Texts are cut to 2,048 characters, pairs to `document_tokens`. Loaded when first used.
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
        own = model_fingerprint(self._record, self._digests)
        return hashlib.sha256(f"cross {own}".encode()).hexdigest()

    def logits(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return one raw logit a text, in the order given."""
        import torch

        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found = np.empty(len(texts))
        for start in range(0, len(texts), PAIRS_AT_ONCE):
            batch = order[start : start + PAIRS_AT_ONCE]
            inputs = self._tokenizer(
                [query] * len(batch),
                [texts[i][:CHARACTERS_READ] for i in batch],
                padding=True,
                truncation="longest_first",
                max_length=self._record.document_tokens,
                return_tensors="pt",
            ).to(self._model.device)
            with torch.inference_mode():
                found[batch] = self._model(**inputs).logits[:, 0].double().cpu().numpy()
        return found

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return load_from(self._record, self._model_set, AutoTokenizer, use_fast=True)

    @cached_property
    def _model(self) -> Any:
        import torch
        from transformers import AutoModelForSequenceClassification as Classifier

        model = load_from(self._record, self._model_set, Classifier, use_safetensors=True)
        if model.config.num_labels != 1:
            raise InputError(
                f"{self.name} gives {model.config.num_labels} scores a pair, expected 1",
                fix="choose a cross-encoder with one output",
            )
        return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
