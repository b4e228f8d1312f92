"""The hybrid retriever: one configurable object over an index, usable alone."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retriever.config import RetrieverConfig, load_config
    from retriever.files import InputError
    from retriever.index.store import Index
    from retriever.ingest.build import build_index
    from retriever.retriever import Retriever
    from retriever.types import Hit, Query, SearchResult

__all__ = [
    "Hit",
    "Index",
    "InputError",
    "Query",
    "Retriever",
    "RetrieverConfig",
    "SearchResult",
    "build_index",
    "load_config",
]

_HOME = {
    "Hit": "types",
    "Index": "index.store",
    "InputError": "files",
    "Query": "types",
    "Retriever": "retriever",
    "RetrieverConfig": "config",
    "SearchResult": "types",
    "build_index": "ingest.build",
    "load_config": "config",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import retriever` costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'retriever' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"retriever.{_HOME[name]}"), name)
