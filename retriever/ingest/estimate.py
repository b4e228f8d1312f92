"""What an index would take, before any work: documents, chunks, minutes, megabytes.

All files are read, up to 1,000 documents cut, up to 24 taken as far as their chunks' places, and
up to 24 chunks embedded against the clock; the rest follows by the number of characters. Nothing
is written, the vector cache included.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from retriever.config import RetrieverConfig
from retriever.encoders.base import Encoder
from retriever.encoders.cache import CachedEncoder
from retriever.images import ImageFile
from retriever.ingest.chunk import Document, chunk_documents
from retriever.ingest.corpus import Corpus, Reading, sample
from retriever.ingest.rows import Row, rows_of
from retriever.plugins import Subscribers
from retriever.retriever import open_encoders
from retriever.stages.route import DEFAULT_COLLECTION

__all__ = ["Estimate", "estimate_index"]

Progress = Callable[[str, int, int], object]
# What gets a vector: a text, a structure or an image.
_Item = str | ImageFile

CUT_DOCUMENTS = 1_000
TRIED_DOCUMENTS = 24
TIMED_TEXTS = 24

# Measured on indexes of public sets: the chunk table and the BM25 index take about twice the
# text, the registry 0.8 kB a document; SQLite keeps two vectors of 1.5 kB a page of 4 kB.
_TEXT_FACTOR = 2.0
_REGISTRY_BYTES = 800
_CACHE_FACTOR = 4 / 3


@dataclass(frozen=True)
class Estimate:
    """What an index of a corpus would hold and cost.

    `chunks` counts structures too; `vectors` those of all collections, `cached` those of them that
    need no computing. `cut_documents` were cut and `tried_documents` taken further; the others
    follow. `seconds_per_text` is the mean time of `timed_texts` chunks, None where none had to be
    timed.
    """

    reading: Reading
    chunks: int
    vectors: int
    cached: int
    minutes: float
    index_mb: float
    cache_mb: float
    cut_documents: int
    tried_documents: int
    timed_texts: int
    seconds_per_text: float | None


def estimate_index(
    corpus: Path | str,
    config: RetrieverConfig | None = None,
    *,
    encoders: Mapping[str, Encoder] | None = None,
    cache: Path | str | None = None,
    sample_size: int | None = None,
    progress: Progress = lambda stage, total, done: None,
) -> Estimate:
    """Estimate the index that `build_index` would make of a corpus under `config`.

    Raises InputError as `build_index` does for a corpus that cannot be read or has no text.
    """
    config = config or RetrieverConfig()
    served = open_encoders(config.models) if encoders is None else encoders
    begin = time.perf_counter()
    reading = Corpus(Path(corpus), sample_size).read(progress)
    seconds_read = time.perf_counter() - begin

    bare = {name: CachedEncoder(encoder, None) for name, encoder in served.items()}
    general = bare[DEFAULT_COLLECTION]
    general.encode(["a first text loads the model"], "document")
    begin = time.perf_counter()
    cut = sample(reading.documents, CUT_DOCUMENTS)
    texts = [
        chunk.text
        for chunk in chunk_documents(
            cut,
            general.token_spans,
            max_tokens=config.index.chunk.max_tokens,
            overlap=config.index.chunk.overlap,
        )
    ]
    scale = _characters(reading.documents) / _characters(cut)
    seconds_read += scale * (time.perf_counter() - begin)

    tried = sample(cut, TRIED_DOCUMENTS)
    begin, before = time.perf_counter(), general.computed
    subscribers = Subscribers.of(config.namespace, dict(config.plugins))
    silent = lambda stage, total, done: None  # noqa: E731
    rows = rows_of(tried, config, bare, subscribers, silent, Path(corpus)).rows
    seconds_profile = (time.perf_counter() - begin) / len(tried)
    # A plugin may embed each document to profile it; what it embeds beside is no matter.
    profiled = min(1.0, (general.computed - before) / len(tried))
    costs = _costs(rows, served, None if cache is None else Path(cache))
    per_character = _characters(reading.documents) / _characters(tried)
    computing = costs.seconds * per_character
    # What is in the cache of the chunks' vectors is likely there of the documents' profiles too.
    profiling = costs.missing_share * len(reading.documents)
    profile_bytes = 4 * served[DEFAULT_COLLECTION].dimension * profiled
    text_bytes = scale * sum(len(text.encode()) for text in texts)
    return Estimate(
        reading=reading,
        chunks=round(scale * len(texts) * costs.chunks / max(1, costs.text_chunks)),
        vectors=round(per_character * costs.vectors),
        cached=round(per_character * costs.cached),
        minutes=(seconds_read + computing + profiling * seconds_profile) / 60,
        index_mb=(
            _TEXT_FACTOR * text_bytes
            + per_character * costs.vector_bytes
            + _REGISTRY_BYTES * len(reading.documents)
        )
        / 1e6,
        cache_mb=_CACHE_FACTOR
        * (per_character * costs.cache_bytes + profiling * profile_bytes)
        / 1e6,
        cut_documents=len(cut),
        tried_documents=len(tried),
        timed_texts=costs.timed_texts,
        seconds_per_text=costs.seconds_per_text,
    )


@dataclass(frozen=True)
class _Costs:
    """What the vectors of some rows take; seconds are extrapolated from the texts timed."""

    chunks: int
    text_chunks: int
    vectors: int
    cached: int
    vector_bytes: int
    cache_bytes: int
    seconds: float
    missing_share: float
    timed_texts: int
    seconds_per_text: float | None


def _costs(rows: Sequence[Row], served: Mapping[str, Encoder], cache: Path | None) -> _Costs:
    by_model: dict[str, list[_Item]] = {}
    encoder_of: dict[str, Encoder] = {}
    vectors = vector_bytes = 0
    for row in rows:
        for name in row.collections:
            model = served[name].fingerprint
            encoder_of[model] = served[name]
            by_model.setdefault(model, []).append(row.image or row.structure or row.chunk.text)
            vectors += 1
            vector_bytes += 4 * served[name].dimension
    missing = distinct = cache_bytes = timed = 0
    seconds = spent = 0.0
    for model, items in by_model.items():
        absent = CachedEncoder(encoder_of[model], cache).missing(items)
        missing += len(absent)
        distinct += len(set(items))
        cache_bytes += 4 * encoder_of[model].dimension * len(absent)
        if absent:
            # Every few of them, so that long and short ones are timed alike.
            part = absent[:: max(1, len(absent) // TIMED_TEXTS)][:TIMED_TEXTS]
            took = _seconds(encoder_of[model], part)
            seconds += took * _length(absent) / _length(part)
            timed += len(part)
            spent += took
    share = missing / distinct if distinct else 0.0
    return _Costs(
        chunks=len(rows),
        text_chunks=sum(not row.structure and row.image is None for row in rows),
        vectors=vectors,
        cached=round(vectors * (1 - share)),
        vector_bytes=vector_bytes,
        cache_bytes=cache_bytes,
        seconds=seconds,
        missing_share=share,
        timed_texts=timed,
        seconds_per_text=spent / timed if timed else None,
    )


def _seconds(encoder: Encoder, items: Sequence[_Item]) -> float:
    """Time one call of a model; nothing of it is kept."""
    bare = CachedEncoder(encoder, None)
    begin = time.perf_counter()
    if bare.reads_images:
        bare.encode_images([item for item in items if isinstance(item, ImageFile)])
    else:
        bare.encode([item for item in items if isinstance(item, str)], "document")
    return time.perf_counter() - begin


def _characters(documents: Sequence[Document]) -> int:
    """Count characters; one more a document, since an image may have none."""
    return sum(len(document.title) + len(document.text) + 1 for document in documents)


def _length(items: Sequence[_Item]) -> int:
    return sum(len(item) if isinstance(item, str) else 1 for item in items)
