"""What a run was made of. Two evaluations of one identity write the same bytes, so one is enough.

Timings apart, a run follows from the gold set with its images, the index, the configuration (the
metrics asked for are part of it), the models, what the plugins know, and the code. Its record holds
a digest of each.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gold import GoldSet, Run
    from retriever import Retriever
    from retriever.config import EvaluationConfig

__all__ = ["Identity", "code_digest", "identity_of", "identity_of_file"]

# What each part was, by name, as a SHA-256 in hexadecimal.
Identity = Mapping[str, str]

# Packages of ours, and libraries, whose code turns a configuration into figures.
OURS = ("gold", "retriever", "experiments")
LIBRARIES = ("numpy", "faiss-cpu", "bm25s", "torch", "transformers", "ranx", "rdkit")


def identity_of(gold: "GoldSet", retriever: "Retriever") -> Identity:
    """Return the identity of an evaluation of this retriever on this gold set, before it is run."""
    from retriever.plugins import Subscribers

    config = retriever.config
    subscribers = Subscribers.of(config.namespace, dict(config.plugins))
    return {
        "gold": gold.digest,
        # The gold set says where an image is, not what it shows.
        "images": _digest([_file_digest(file) for file in _images(gold)]),
        "index": retriever.index.manifest.fingerprint,
        "config": config.fingerprint,
        "models": _digest(retriever.model_fingerprints()),
        "plugins": _digest(subscribers.identity),
        "code": code_digest(),
    }


def identity_of_file(gold: "GoldSet", run: "Run", settings: "EvaluationConfig") -> Identity:
    """Return the identity of a scoring of somebody's run on this gold set."""
    corpus = gold.path / "corpus.jsonl"
    return {
        "gold": gold.digest,
        # Which documents there are decides the classes, their texts the coverage of terms.
        "corpus": _file_digest(corpus) if corpus.is_file() else "",
        "run": _digest([run.name, run.format, run.repaired, run.rankings]),
        "config": settings.fingerprint,
        "code": code_digest(),
    }


@cache
def code_digest() -> str:
    """Return a digest of our own source files and of the versions of the libraries under them."""
    found = hashlib.sha256()
    for package in OURS:
        root = Path(__file__).parents[1] / package
        for file in sorted(root.rglob("*.py")):
            found.update(f"{package}/{file.relative_to(root).as_posix()}\0".encode())
            found.update(hashlib.sha256(file.read_bytes()).digest())
    for name in LIBRARIES:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            version = "absent"
        found.update(f"{name} {version}\0".encode())
    return found.hexdigest()


def _images(gold: "GoldSet") -> list[Path]:
    """Return the images of the queries that are there; one that is not fails in the search."""
    files = (gold.path / query.image for query in gold.queries.values() if query.image)
    return [file for file in files if file.is_file()]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _file_digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
