"""Where what Assay computes is kept: one folder, `.assay` unless ASSAY_STORE names another."""

import os
from pathlib import Path

__all__ = ["store_folder"]


def store_folder() -> Path:
    """Return the folder of runs, indexes, caches and the tracking database; it may not exist."""
    return Path(os.environ.get("ASSAY_STORE") or ".assay")
