"""A UMLS release: `MRCONSO.RRF` (names) with `MRSTY.RRF` (semantic types), read as streams.

    MRCONSO  CUI|LAT|TS|LUI|STT|SUI|ISPREF|AUI|SAUI|SCUI|SDUI|SAB|TTY|CODE|STR|SRL|SUPPRESS|CVF|
    MRSTY    CUI|TUI|STN|STY|ATUI|CVF|

English rows that are not suppressed count, everything else is passed over and counted. One record
a concept: its name is the row that UMLS prefers (TS P, STT PF, ISPREF Y; else the first), all
other strings are aliases, each once whatever its case.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from retriever.biomed.lexicon import Entity
from retriever.files import InputError

__all__ = ["DRUG_TYPES", "UmlsRelease", "read_umls"]

# Pharmacologic Substance, Antibiotic, Clinical Drug.
DRUG_TYPES: Final = frozenset({"T121", "T195", "T200"})

_CONSO_COLUMNS: Final = 18
_STY_COLUMNS: Final = 6


@dataclass
class _Concept:
    name: str = ""
    preferred: bool = False
    names: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class UmlsRelease:
    """The concepts of a release, in order of CUI, and what was passed over, by reason."""

    entities: tuple[Entity, ...]
    skipped: Counter[str]


def read_umls(
    path: Path, sources: Collection[str] = (), types: Collection[str] = ()
) -> UmlsRelease:
    """Read a folder that holds the two files, or `MRCONSO.RRF` itself with the other beside it.

    `sources` keeps the rows of some vocabularies (SAB: MSH, RXNORM), `types` the concepts with any
    of some semantic types (TUI: T121); empty: all. Without `MRSTY.RRF` no concept has a type,
    `types` is refused, and a drug is told by its name alone. Raises InputError naming file and
    line for a row with another number of columns, and for a release that leaves nothing.
    """
    conso = path / "MRCONSO.RRF" if path.is_dir() else path
    sty = conso.with_name("MRSTY.RRF")
    if not conso.is_file():
        raise InputError("no such file", path=conso, fix="give the folder of MRCONSO.RRF")
    if types and not sty.is_file():
        raise InputError("no such file, and types are asked for", path=sty)
    type_of = _types(sty) if sty.is_file() else {}
    skipped: Counter[str] = Counter()
    concepts: dict[str, _Concept] = {}
    wanted_sources, wanted_types = frozenset(sources), frozenset(types)
    for row in _rows(conso, _CONSO_COLUMNS):
        cui, text = row[0], row[14].strip()
        if row[1] != "ENG":
            skipped["not English"] += 1
        elif row[16] not in ("N", ""):
            skipped["suppressed"] += 1
        elif wanted_sources and row[11] not in wanted_sources:
            skipped["another source"] += 1
        elif wanted_types and not wanted_types.intersection(type_of.get(cui, {})):
            skipped["another type"] += 1
        elif not text:
            skipped["empty string"] += 1
        else:
            concept = concepts.setdefault(cui, _Concept())
            best = row[2] == "P" and row[4] == "PF" and row[6] == "Y"
            if not concept.name or (best and not concept.preferred):
                concept.name, concept.preferred = text, best
            concept.names.setdefault(text.casefold(), text)
    if not concepts:
        raise InputError("no row is left", path=conso, fix="check sources and types")
    entities = (_entity(cui, concepts[cui], type_of.get(cui, {})) for cui in sorted(concepts))
    return UmlsRelease(tuple(entities), skipped)


def _entity(cui: str, concept: _Concept, types: dict[str, str]) -> Entity:
    own = concept.name.casefold()
    return Entity(
        id=cui,
        name=concept.name,
        aliases=tuple(text for key, text in concept.names.items() if key != own),
        semantic_types=tuple(types.values()),
        is_drug=not DRUG_TYPES.isdisjoint(types) if types else None,
    )


def _types(path: Path) -> dict[str, dict[str, str]]:
    """Types by concept: TUI -> its name."""
    found: dict[str, dict[str, str]] = {}
    for row in _rows(path, _STY_COLUMNS):
        found.setdefault(row[0], {})[row[1]] = row[3]
    return found


def _rows(path: Path, columns: int) -> Iterator[list[str]]:
    """Yield the cells of each row; a row ends with a bar."""
    try:
        with path.open("rb") as stream:
            for line, raw in enumerate(stream, start=1):
                row = raw.decode("utf-8").rstrip("\r\n")
                if not row:
                    continue
                cells = row.split("|")
                if len(cells) != columns + 1 or cells[-1]:
                    raise InputError(
                        f"expected {columns} columns, each followed by |, got {len(cells) - 1}",
                        path=path,
                        line=line,
                        fix="give the file as UMLS ships it",
                    )
                yield cells
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8", path=path, fix="give the file as UMLS ships it") from error
