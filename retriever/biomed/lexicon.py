"""The lexicon: drugs, genes, diseases and their names, read from files, mended by overlays.

JSON: an array of records `{"id", "name", "aliases", "semantic_types", "is_drug", "related_drugs",
"pathways", "smiles"}`, of which only id and name are required. CSV: the same columns under a
header line, lists separated by `|`. UMLS: a folder with `MRCONSO.RRF`. An overlay, JSON, changes
records by id and leaves the base alone: `{"add": [records], "change": [{"id": ..., field: value}],
"remove": [ids]}`, applied in the order remove, change, add.
"""

import csv
import difflib
import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import BeforeValidator, ConfigDict, StringConstraints, TypeAdapter, ValidationError

from retriever.biomed.matcher import Match, TermMatcher
from retriever.files import InputError

__all__ = ["DRUG_SUFFIXES", "NAME_PREFIX", "Entity", "Lexicon", "load_lexicon"]

# How the international names of antibodies, kinase and PARP inhibitors, statins and biguanides end.
DRUG_SUFFIXES = ("mab", "nib", "tinib", "rafenib", "parib", "stat", "formin")

# A drug that the lexicon does not know stands for itself under this prefix.
NAME_PREFIX = "name:"


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


@dataclass(frozen=True, slots=True)
class Entity:
    """A record of the lexicon.

    `is_drug` None leaves the question to the name. `related_drugs` holds ids or names of drugs;
    `smiles` one or more structures of the substance.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    id: Text
    name: Text
    aliases: tuple[Text, ...] = ()
    semantic_types: tuple[Text, ...] = ()
    is_drug: bool | None = None
    related_drugs: tuple[Text, ...] = ()
    pathways: tuple[Text, ...] = ()
    smiles: Annotated[tuple[Text, ...], BeforeValidator(_listed)] = ()

    @property
    def drug(self) -> bool:
        """Whether the record says so, or has no type at all and is named like a drug."""
        if self.is_drug is not None:
            return self.is_drug
        return not self.semantic_types and self.name.casefold().endswith(DRUG_SUFFIXES)


@dataclass(frozen=True)
class Lexicon:
    """Entities in order of id. Nothing is indexed until the first text is matched.

    Where several entities share a name, matching finds the one that has it as its own name before
    those that have it as an alias, and then the first by id.
    """

    is_shared: ClassVar[bool] = True  # results point to it, and the memo does not count it

    entities: tuple[Entity, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "entities", tuple(sorted(self.entities, key=lambda e: e.id)))
        if len(self._by_id) != len(self.entities):
            raise ValueError("two entities share an id")

    def __len__(self) -> int:
        return len(self.entities)

    def __contains__(self, entity_id: object) -> bool:
        return entity_id in self._by_id

    def entity(self, entity_id: str) -> Entity:
        """Return the record of an id. Raises KeyError for an unknown one."""
        return self._by_id[entity_id]

    def match(self, text: str) -> tuple[Match, ...]:
        """Return the entities that a text mentions, in order of place, none overlapping."""
        return self._matcher.match(text)

    def drugs_in(self, text: str) -> tuple[str, ...]:
        """Return the ids of the distinct drugs in a text, by first place."""
        mentioned = dict.fromkeys(match.entity_id for match in self.match(text))
        return tuple(entity_id for entity_id in mentioned if self._by_id[entity_id].drug)

    def entities_named(self, name: str) -> tuple[str, ...]:
        """Return the ids of all entities of which the whole `name` is a name or alias."""
        return self._matcher.entities_named(name)

    def names_of(self, entity_id: str) -> tuple[str, ...]:
        """Return an entity's name and then its aliases, without repeats.

        An id made from an unknown name (`name:...`) has that name alone.
        """
        if entity_id.startswith(NAME_PREFIX):
            return (entity_id.removeprefix(NAME_PREFIX),)
        entity = self._by_id[entity_id]
        return tuple(dict.fromkeys((entity.name, *entity.aliases)))

    def drug_ids(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the drugs that names stand for, distinct, by first place.

        Names compare whole and by the case rule of matching. An unknown name stands for itself,
        `name:` and the name in folded case; an id of this lexicon stands for itself.
        """
        return tuple(dict.fromkeys(self._drug_id(name) for name in names if name.strip()))

    def related(self, entity_id: str) -> tuple[str, ...]:
        """Return the ids of the drugs that an entity's record calls related, in its order."""
        return self.drug_ids(self._by_id[entity_id].related_drugs)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all records in order of id, as canonical JSON, in hexadecimal."""
        digest = hashlib.sha256()
        for entity in self.entities:
            # Not asdict, which copies every list: a million terms take a minute.
            values = {name: getattr(entity, name) for name in _FIELDS}
            record = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
            digest.update(record.encode() + b"\n")
        return digest.hexdigest()

    @cached_property
    def _by_id(self) -> Mapping[str, Entity]:
        return {entity.id: entity for entity in self.entities}

    @cached_property
    def _matcher(self) -> TermMatcher:
        return TermMatcher(
            [(e.name, e.id) for e in self.entities]
            + [(alias, e.id) for e in self.entities for alias in e.aliases]
        )

    def _drug_id(self, name: str) -> str:
        if name in self._by_id or name.startswith(NAME_PREFIX):
            return name
        named = (i for i in self.entities_named(name) if self._by_id[i].drug)
        return next(named, NAME_PREFIX + " ".join(name.split()).casefold())


def load_lexicon(source: Path | None = None, overlays: Sequence[Path] = ()) -> Lexicon:
    """Read a lexicon (None: the bundled one), then apply overlays in order.

    A source is a .json or .csv file, or a UMLS folder (or its MRCONSO.RRF). Raises InputError
    naming the file, the line of a CSV or the record of a JSON, and the nearest known id where one
    was misspelt.
    """
    entities = _loaded(source)
    for path in overlays:
        entities = _overlaid(entities, path)
    return Lexicon(tuple(entities.values()))


def _loaded(source: Path | None) -> dict[str, Entity]:
    if source is None:
        file = resources.files("retriever.biomed") / "data" / "lexicon.json"
        records = _json_records(file.read_text("utf-8"), "bundled lexicon")
    elif source.suffix.lower() == ".json":
        records = _json_records(_read(source), source)
    elif source.suffix.lower() == ".csv":
        records = _csv_records(_read(source), source)
    elif source.is_dir() or source.suffix.lower() == ".rrf":
        from retriever.biomed.umls import read_umls

        return {entity.id: entity for entity in read_umls(source).entities}
    else:
        raise InputError(
            "is no lexicon", path=source, fix="give a .json or .csv file, or a UMLS folder"
        )
    return _collected(records, source or "bundled lexicon")


# ---------------------------------------------------------------------------------------- records

_ADAPTER = TypeAdapter(Entity)
_FIELDS = tuple(field.name for field in fields(Entity))
_LISTS = ("aliases", "semantic_types", "related_drugs", "pathways", "smiles")


class _Record(NamedTuple):
    """What stands at one place of a file: `record 3` of a JSON, a line of a CSV."""

    place: str
    line: int | None
    values: object


def _fault(record: _Record, message: str, path: object, fix: str = "") -> InputError:
    where = "" if record.line is not None else f"{record.place}: "
    return InputError(f"{where}{message}", path=path, line=record.line, fix=fix)


def _entity(record: _Record, path: object) -> Entity:
    values = record.values
    if not isinstance(values, dict):
        raise _fault(record, "is no object", path)
    for name in values:
        if name not in _FIELDS:
            raise _fault(record, f"{name!r} is no field", path, _nearest(name, _FIELDS))
    try:
        entity = _ADAPTER.validate_python(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        given = "" if first["type"] == "missing" else f", not {first['input']!r}"
        raise _fault(record, f"{field}: {first['msg']}{given}", path) from error
    if entity.id.startswith(NAME_PREFIX):
        raise _fault(record, f"an id may not begin with {NAME_PREFIX!r}", path)
    return entity


def _collected(records: Iterable[_Record], path: object) -> dict[str, Entity]:
    entities: dict[str, Entity] = {}
    places: dict[str, str] = {}
    for record in records:
        entity = _entity(record, path)
        if entity.id in entities:
            message = f"the id {entity.id!r} stands already in {places[entity.id]}"
            raise _fault(record, message, path, "one record an id; further names are aliases")
        entities[entity.id] = entity
        places[entity.id] = record.place
    return entities


def _overlaid(base: Mapping[str, Entity], path: Path) -> dict[str, Entity]:
    parts = _json(_read(path), path)
    if not isinstance(parts, dict):
        raise InputError("is no overlay", path=path, fix='{"add": [], "change": [], "remove": []}')
    for key, value in parts.items():
        if key not in ("add", "change", "remove"):
            raise InputError(f"{key!r} is no part of an overlay: add, change, remove", path=path)
        if not isinstance(value, list):
            raise InputError(f"{key} is no list", path=path)
    entities = dict(base)
    for number, entity_id in enumerate(parts.get("remove", ()), start=1):
        del entities[_known(entity_id, f"remove {number}", entities, path)]
    for number, values in enumerate(parts.get("change", ()), start=1):
        change = _Record(f"change {number}", None, values)
        if not isinstance(values, dict):
            raise _fault(change, "is no object", path)
        entity_id = _known(values.get("id"), change.place, entities, path)
        whole = {**asdict(entities[entity_id]), **values}
        entities[entity_id] = _entity(change._replace(values=whole), path)
    for number, values in enumerate(parts.get("add", ()), start=1):
        addition = _Record(f"add {number}", None, values)
        entity = _entity(addition, path)
        if entity.id in entities:
            raise _fault(addition, f"the id {entity.id!r} is taken", path, "use change instead")
        entities[entity.id] = entity
    return entities


def _known(entity_id: object, place: str, entities: Mapping[str, Entity], path: Path) -> str:
    if not isinstance(entity_id, str):
        raise InputError(f"{place}: expected an id, not {entity_id!r}", path=path)
    if entity_id not in entities:
        raise InputError(
            f"{place}: the id {entity_id!r} is unknown",
            path=path,
            fix=_nearest(entity_id, list(entities)),
        )
    return entity_id


def _nearest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else ""


# ------------------------------------------------------------------------------------------ files


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8", path=path, fix="re-save as UTF-8") from error


def _json(text: str, path: object) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg}", path=path, line=error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", path=path) from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object: {values}")
    return values


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _json_records(text: str, path: object) -> Iterator[_Record]:
    values = _json(text, path)
    if not isinstance(values, list):
        raise InputError("expected an array of records", path=path, fix='[{"id": .., "name": ..}]')
    for number, record in enumerate(values, start=1):
        entity_id = record.get("id") if isinstance(record, dict) else None
        name = "" if entity_id is None else f" ({entity_id})"
        yield _Record(f"record {number}{name}", None, record)


def _csv_records(text: str, path: Path) -> Iterator[_Record]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(rows, [])]
        _check_header(header, path)
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            record = _Record(f"line {rows.line_num}", rows.line_num, None)
            if len(row) != len(header):
                raise _fault(
                    record,
                    f"expected {len(header)} columns, got {len(row)}",
                    path,
                    "put quotes around a cell that holds a comma",
                )
            cells = zip(header, row, strict=True)
            yield record._replace(values={k: _cell(k, v) for k, v in cells if v.strip()})
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", path=path, line=rows.line_num) from error


def _check_header(header: list[str], path: Path) -> None:
    columns = f"the columns are {', '.join(_FIELDS)}"
    for name in header:
        if name not in _FIELDS:
            raise InputError(
                f"{name!r} is no column", path=path, line=1, fix=_nearest(name, _FIELDS) or columns
            )
        if header.count(name) > 1:
            raise InputError(f"the column {name!r} stands twice", path=path, line=1)
    for name in ("id", "name"):
        if name not in header:
            raise InputError(f"the column {name!r} is missing", path=path, line=1, fix=columns)


def _cell(column: str, cell: str) -> str | list[str]:
    if column in _LISTS:
        return [part for part in map(str.strip, cell.split("|")) if part]
    return cell.strip()
