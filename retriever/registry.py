"""The documents registry: what each index holds, by name and by scope.

SQLite by default, PostgreSQL by URL. One database serves many indexes, so every row carries its
`index_id`. Both databases give the same answers in the same order: names are folded before they
are stored, answers are sorted here by code point, and no collation of a server is relied on.
"""

import json
import math
import unicodedata
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa

from retriever.files import InputError
from retriever.types import Scope

__all__ = ["DocumentRecord", "Registry", "Scope", "ScopeResult", "fold_name", "sqlite_url"]

# Rows a statement: enough for the round trips to vanish, few enough to stream any corpus.
_BATCH = 2_000
# Seconds a writer waits for another; SQLite's own default of 5 is shorter than a large build.
_LOCK_TIMEOUT = 120
_BUILD = "build the index first"
_ANEW = "build the index anew"
_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
# Any number does, as long as every writer of a registry takes the same one.
_POSTGRES_WRITER_LOCK = 0x4153534159


@dataclass(frozen=True)
class DocumentRecord:
    """One document as the registry keeps it.

    `tags` and `collections` are sets: construction sorts them and drops repeats. `modality` is
    what an image shows, `text` for a document without one. `namespace` to
    `signals` say how ingest routed the document: the tier and rule that decided, its confidence
    in [0, 1] and the value of each signal. `signals` takes no part in the hash.
    """

    document_id: str
    name: str
    file_name: str = ""
    title: str = ""
    path: str = ""
    source_uri: str = ""
    kb_name: str = ""
    modality: str = "text"
    tags: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()
    namespace: str = ""
    domain: str = ""
    tier: int = 0
    rule: str = ""
    confidence: float = 0.0
    signals: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for kind in _SETS:
            values = _several(getattr(self, kind), f"{kind} of document {self.document_id!r}")
            object.__setattr__(self, kind, tuple(sorted(set(values))))


@dataclass(frozen=True)
class ScopeResult:
    """The documents in a scope and the collections they were ingested into, both sorted."""

    document_ids: tuple[str, ...]
    collections: tuple[str, ...]


def _keys(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, primary_key=True) for name in names]


_TEXTS = (
    *("name", "name_folded", "file_name", "title", "path", "source_uri", "kb_name", "modality"),
    *("namespace", "domain", "rule", "signals"),
)
_METADATA = sa.MetaData()
_DOCUMENTS = sa.Table(
    "documents",
    _METADATA,
    *_keys("index_id", "document_id"),
    *(sa.Column(name, sa.Text, nullable=False) for name in _TEXTS),
    sa.Column("tier", sa.Integer, nullable=False),
    sa.Column("confidence", sa.Double, nullable=False),
)
_TAGS = sa.Table("document_tags", _METADATA, *_keys("index_id", "document_id", "tag"))
_COLLECTIONS = sa.Table(
    "document_collections", _METADATA, *_keys("index_id", "document_id", "collection")
)
# Where each set of a record is kept, and the fields that have a column of their own, unchanged.
_SETS = {"tags": (_TAGS, "tag"), "collections": (_COLLECTIONS, "collection")}
_PLAIN = tuple(c.name for c in _DOCUMENTS.c if c.name not in {"index_id", "name_folded", "signals"})


def fold_name(name: str) -> str:
    """Return the form in which names are compared: caseless and composed.

    Names that Unicode calls canonical caseless matches (Unicode Standard, D145) fold alike.
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def sqlite_url(path: Path) -> sa.URL:
    """Return the URL of an SQLite file: as text, a path with `?` in it would read otherwise."""
    return sa.URL.create("sqlite", database=str(path.resolve()))


class Registry:
    """The documents of every index in one database; close it, or use it as a context manager.

    Nothing is opened before the first call, and each call is one transaction. Every call raises
    InputError where the database cannot be reached or does not hold a registry, and where a text
    has a NUL character or a lone surrogate, which no database keeps.
    """

    def __init__(self, url: sa.URL, missing: str = _BUILD) -> None:
        self._is_sqlite = url.get_backend_name() == "sqlite"
        file = url.database if self._is_sqlite else None
        # Opened when first used: by then the process may be in another folder.
        self._file = Path(file).resolve() if file and file != ":memory:" else None
        self._url = url.set(database=str(self._file)) if self._file else url
        self._missing = missing
        # How messages name the database: never with the password.
        self._place = url.render_as_string(hide_password=True)

    @classmethod
    def open(cls, url: str | sa.URL, *, missing: str = _BUILD) -> Self:
        """Return the registry at `sqlite:///PATH` or `postgresql://USER@HOST/DATABASE`.

        `missing` is the remedy named when the file is not there. Raises InputError for any other
        URL.
        """
        # Of a URL that is refused only the scheme is shown: the rest may hold a password.
        if isinstance(url, sa.URL):
            scheme, separator = url.drivername, "://"
        else:
            scheme, separator, _ = url.partition("://")
        driver = _DRIVERS.get(scheme.partition("+")[0])
        if driver is None or not separator:
            raise InputError(
                f"a registry cannot be at {scheme}{separator}{'...' if separator else ''}",
                fix="sqlite:///PATH or postgresql://USER@HOST/DATABASE",
            )
        try:
            return cls(sa.make_url(url).set(drivername=driver), missing)
        except ValueError as error:
            raise InputError(f"a registry cannot be at this {scheme} URL: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; a later call opens new ones."""
        if "_engine" in self.__dict__:
            self._engine.dispose()

    def replace(self, index_id: str, records: Iterable[DocumentRecord]) -> int:
        """Make `records` the documents of `index_id`, all or nothing; return their number.

        Records are streamed: an error on the way, or a kill, leaves what was there before. The
        tables, and the file of an SQLite database, are made where they are missing.

        Raises InputError for a document id that comes twice or a number that is not finite.
        """
        _check_text(index_id, "the index id")
        if self._file:
            self._file.parent.mkdir(parents=True, exist_ok=True)
        seen: set[str] = set()
        stream = iter(records)
        with self._writing() as connection:
            _METADATA.create_all(connection)
            _delete(connection, index_id)
            while batch := list(islice(stream, _BATCH)):
                for record in batch:
                    _check_record(record)
                    if record.document_id in seen:
                        raise InputError(f"document {record.document_id!r} comes twice")
                    seen.add(record.document_id)
                _insert(connection, index_id, batch)
            if not self._is_sqlite:
                # Until PostgreSQL has counted the new rows, it joins them by nested loops.
                connection.execute(
                    sa.text("ANALYZE documents, document_tags, document_collections")
                )
        return len(seen)

    def remove(self, index_id: str) -> int:
        """Remove every row of `index_id`; return the number of documents removed."""
        _check_text(index_id, "the index id")
        self._require_file()
        with self._writing() as connection:
            self._require_tables(connection)
            return _delete(connection, index_id)

    def count(self, index_id: str) -> int:
        """Return the number of documents of `index_id`, 0 for an index that is not known."""
        _check_text(index_id, "the index id")
        query = sa.select(sa.func.count()).where(_DOCUMENTS.c.index_id == index_id)
        with self._reading() as connection:
            return connection.execute(query).scalar_one()

    def get(self, index_id: str, document_ids: Sequence[str]) -> dict[str, DocumentRecord]:
        """Return the documents asked for, in the order asked; unknown ids are left out."""
        _check_text(index_id, "the index id")

        def rows_of(table: sa.Table) -> sa.MappingResult:
            wanted = self._among(table.c.document_id, document_ids)
            query = sa.select(table).where(table.c.index_id == index_id, wanted)
            return connection.execute(query).mappings()

        found: dict[str, dict[str, Any]] = {}
        with self._reading() as connection:
            for row in rows_of(_DOCUMENTS):
                sets: dict[str, list[str]] = {kind: [] for kind in _SETS}
                signals = json.loads(row["signals"])
                plain = {name: row[name] for name in _PLAIN}
                found[row["document_id"]] = {**plain, **sets, "signals": signals}
            for kind, (table, column) in _SETS.items():
                for row in rows_of(table):
                    found[row["document_id"]][kind].append(row[column])
            return {key: DocumentRecord(**found[key]) for key in document_ids if key in found}

    def find_by_name(self, index_id: str, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        r"""Return for each of `names` the ids, sorted, of the documents whose name contains it.

        Both sides are compared as `fold_name` gives them; `%`, `_` and `\` are characters like
        any other. The empty name is contained in every name.
        """
        _check_text(index_id, "the index id")
        folded = {name: fold_name(name) for name in _several(names, "names")}
        ids: dict[str, tuple[str, ...]] = {}
        with self._reading() as connection:
            # A statement a pattern: joined to a table of patterns, both databases take up to
            # seven times longer for the same comparisons.
            for pattern in dict.fromkeys(folded.values()):
                query = sa.select(_DOCUMENTS.c.document_id).where(
                    _DOCUMENTS.c.index_id == index_id,
                    _DOCUMENTS.c.name_folded.contains(pattern, autoescape=True),
                )
                ids[pattern] = tuple(sorted(connection.execute(query).scalars()))
        return {name: ids[pattern] for name, pattern in folded.items()}

    def scope(self, index_id: str, scope: Scope) -> ScopeResult:
        """Return the documents of `index_id` that are in `scope`, and their collections."""
        _check_text(index_id, "the index id")
        documents = sa.select(_DOCUMENTS.c.document_id).where(_DOCUMENTS.c.index_id == index_id)
        for column, values in (
            (_DOCUMENTS.c.kb_name, scope.kb_names),
            (_DOCUMENTS.c.document_id, scope.document_ids),
        ):
            if values:
                documents = documents.where(self._among(column, values))
        if scope.tags:
            tagged = sa.select(_TAGS.c.document_id).where(
                _TAGS.c.index_id == index_id, self._among(_TAGS.c.tag, scope.tags)
            )
            documents = documents.where(_DOCUMENTS.c.document_id.in_(tagged))
        collections = (
            sa.select(_COLLECTIONS.c.collection)
            .where(_COLLECTIONS.c.index_id == index_id, _COLLECTIONS.c.document_id.in_(documents))
            .distinct()
        )
        with self._reading() as connection:
            return ScopeResult(
                document_ids=tuple(sorted(connection.execute(documents).scalars())),
                collections=tuple(sorted(connection.execute(collections).scalars())),
            )

    def _among(self, column: sa.Column[str], values: Sequence[str]) -> sa.ColumnElement[bool]:
        """Return whether `column` is one of `values`: one parameter, whatever their number."""
        several = list(_several(values, f"{column.name}s"))
        if not self._is_sqlite:
            return column == sa.any_(sa.literal(several, sa.ARRAY(sa.Text)))
        listed = sa.func.json_each(json.dumps(several)).table_valued("value")
        return column.in_(sa.select(sa.cast(listed.c.value, sa.Text)))

    @cached_property
    def _engine(self) -> sa.Engine:
        engine = self._new_engine()
        # An index keeps its registry open as long as it lives; nobody closes that.
        weakref.finalize(self, engine.dispose)
        return engine

    def _new_engine(self) -> sa.Engine:
        if not self._is_sqlite:
            return sa.create_engine(self._url)
        engine = sa.create_engine(self._url, connect_args={"timeout": _LOCK_TIMEOUT})

        # The driver begins a transaction at the first change only, so that the reads before it, and
        # calls of several reads, would not see one state of the database.
        @sa.event.listens_for(engine, "begin")
        def begin(connection: sa.Connection) -> None:
            connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))

        return engine

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        """Yield a connection that sees one state of the database throughout."""
        self._require_file()
        options = {} if self._is_sqlite else {"isolation_level": "REPEATABLE READ"}
        try:
            with self._transaction(options) as connection:
                self._require_tables(connection)
                yield connection
        except InputError:
            raise
        except (ValueError, TypeError, LookupError) as error:
            # Even SQLite's message may quote bytes that are no text.
            raise InputError(f"damaged: {error}", path=self._place, fix=_ANEW) from error

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        """Yield the one connection that may write; other writers wait for it to end."""
        # With the lock taken at once, no two transactions read first and then block each other.
        with self._transaction({"begin": "BEGIN IMMEDIATE"}) as connection:
            if not self._is_sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_POSTGRES_WRITER_LOCK)))
            yield connection

    @contextmanager
    def _transaction(self, options: Mapping[str, Any]) -> Iterator[sa.Connection]:
        try:
            with self._engine.connect() as connection:
                connection.execution_options(**options)
                with connection.begin():
                    yield connection
        except sa.exc.DBAPIError as error:
            reason = str(error.orig).strip().partition("\n")[0]
            raise InputError(
                f"the registry failed: {reason}",
                path=self._place,
                fix=_ANEW if self._is_sqlite else "",
            ) from error

    def _require_file(self) -> None:
        """Refuse an SQLite file that is missing: opening it to read would make an empty one."""
        if self._file and not self._file.exists():
            raise InputError("no such registry", path=self._file, fix=self._missing)

    def _require_tables(self, connection: sa.Connection) -> None:
        if not sa.inspect(connection).has_table(_DOCUMENTS.name):
            raise InputError("this database holds no registry", path=self._place, fix=_BUILD)


def _delete(connection: sa.Connection, index_id: str) -> int:
    """Delete the rows of an index in every table; return the number of documents."""
    for table in (_TAGS, _COLLECTIONS):
        connection.execute(sa.delete(table).where(table.c.index_id == index_id))
    return connection.execute(
        sa.delete(_DOCUMENTS).where(_DOCUMENTS.c.index_id == index_id)
    ).rowcount


def _insert(connection: sa.Connection, index_id: str, batch: Sequence[DocumentRecord]) -> None:
    documents = [
        {
            **{name: getattr(record, name) for name in _PLAIN},
            "index_id": index_id,
            "name_folded": fold_name(record.name),
            "signals": json.dumps(dict(record.signals), sort_keys=True),
        }
        for record in batch
    ]
    connection.execute(sa.insert(_DOCUMENTS), documents)
    for kind, (table, column) in _SETS.items():
        rows = [
            {"index_id": index_id, "document_id": record.document_id, column: value}
            for record in batch
            for value in getattr(record, kind)
        ]
        if rows:
            connection.execute(sa.insert(table), rows)


def _check_record(record: DocumentRecord) -> None:
    """Raise InputError for what a database would refuse or bring back changed."""
    where = f"document {record.document_id!r}"
    texts = {name: getattr(record, name) for name in _PLAIN} | {s: s for s in record.signals}
    for name, value in texts.items():
        if isinstance(value, str):
            _check_text(value, f"{where}: {name}")
    for name, number in {"confidence": record.confidence, **record.signals}.items():
        if not math.isfinite(number):
            raise InputError(f"{where}: {name} is {number}, expected a finite number")


def _several(values: Sequence[str], what: str) -> Sequence[str]:
    """Return `values`, each checked; a lone string, which is a sequence too, is refused."""
    if isinstance(values, str):
        raise InputError(f"{what} is the text {values!r}", fix="give a list of texts")
    for value in values:
        _check_text(value, f"one of {what}")
    return values


def _check_text(text: str, what: str) -> None:
    """Raise InputError for a text that PostgreSQL or UTF-8 cannot hold."""
    at = text.find("\0")
    if at >= 0:
        raise InputError(f"{what} has a NUL character at {at}", fix="remove it from the source")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} has a lone surrogate at {error.start}", fix="decode the source as UTF-8"
        ) from error
