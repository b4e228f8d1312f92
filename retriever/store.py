"""Where what Assay computes is kept: one folder, `.assay` unless ASSAY_STORE names another.

ASSAY_REGISTRY is the URL of a database for the documents registries of indexes; without it each
index keeps a file of its own. It is an environment variable and no parameter, since it may hold a
password.
"""

import os
from pathlib import Path

__all__ = ["shared_registry", "store_folder"]


def store_folder() -> Path:
    """Return the folder of runs, indexes, caches and the tracking database; it may not exist."""
    return Path(os.environ.get("ASSAY_STORE") or ".assay")


def shared_registry() -> str | None:
    """Return the URL of the shared documents registry, None where each index has its own."""
    return os.environ.get("ASSAY_REGISTRY") or None
