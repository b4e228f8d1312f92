"""One batch under one configuration: what its stages read, and how a stage is remembered."""

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from retriever.config import RetrieverConfig
from retriever.encoders.base import Vectors
from retriever.encoders.cache import CachedCrossEncoder, CachedEncoder
from retriever.files import InputError
from retriever.images import ImageFile
from retriever.index.store import Index
from retriever.memo import Asked, Memo, Node, key_of
from retriever.plugins import Subscribers
from retriever.stages.recall import Encoded
from retriever.types import (
    Batch,
)

__all__ = ["BatchRun"]

T = TypeVar("T")

# Raise the number when the same inputs give another result than before.
VERSION = "1"


class BatchRun:
    """One batch under one configuration: its models, and how a stage of it runs."""

    def __init__(
        self,
        index: Index,
        encoders: Mapping[str, CachedEncoder],
        rerankers: Mapping[str, CachedCrossEncoder],
        memo: Memo,
        batch: Batch,
        config: RetrieverConfig,
    ) -> None:
        self.index = index
        self.encoders = encoders
        self.rerankers = rerankers
        self.memo = memo
        self.config = config
        self.queries = batch.queries
        self.images = batch.images
        self.subscribers = Subscribers.of(config.namespace, dict(config.plugins))
        self.identity = self.subscribers.identity
        self.timings: dict[str, float] = {}
        # What this batch has asked its models for, by model and text, whatever the memo keeps.
        self.vectors: dict[str, dict[str | ImageFile, Vectors]] = {}
        self.encoded: dict[str, Node[Encoded]] = {}
        fingerprint = self.index.manifest.fingerprint
        self.root = Node(key_of("root", VERSION, fingerprint, batch.key), batch.texts)
        self.asked = memo.asked(self.root.key)

    def encoder(self, collection: str) -> CachedEncoder:
        """Return the encoder of a collection; InputError where none serves it."""
        encoder = self.encoders.get(collection)
        if encoder is None:
            raise InputError(
                f"no encoder serves the collection {collection}",
                fix="choose a model set that names it",
            )
        return encoder

    def hooked(
        self,
        name: str,
        part: str,
        function: Callable[..., T],
        *inputs: Node[Any],
        section: str = "",
    ) -> Node[T]:
        """Run a stage that calls a hook: the plugins are part of its key."""
        key = key_of(section, self.identity, self.subscribers.part(part))
        return self.stage(name, key, function, *inputs)

    def stage(
        self,
        name: str,
        section: str,
        function: Callable[..., T],
        *inputs: Node[Any],
        timed: str | None = None,
    ) -> Node[T]:
        """Run one stage, or take its result from the memo."""
        key = key_of(name, section, *(node.key for node in inputs))
        return self.timed(
            timed or name, key, lambda: function(*(node.value for node in inputs)), self.asked[name]
        )

    def timed(
        self, name: str, key: str, compute: Callable[[], T], asked: Asked | None = None
    ) -> Node[T]:
        """Take a result from the memo or compute it, and note the milliseconds under `name`."""
        begin = time.perf_counter()
        node = self.memo.get(key, compute, asked)
        self.timings[name] = self.timings.get(name, 0.0) + 1000 * (time.perf_counter() - begin)
        return node
