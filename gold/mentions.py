"""Linking gold sets: mentions in context and the concept each one means, or none (NIL).

A directory with `mentions.jsonl`, a mention a line, and an optional `gold.yaml`:

    {"_id": "m1", "mention": "heart attack", "context": "... after a heart attack ...",
     "entity": "disease:myocardial-infarction", "metadata": {"type": "alias"}}

`entity` is an id of the lexicon that is linked to, null for NIL, and must be there; `context` may
be absent. `metadata.type` is what a report groups by.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from gold.corpus import metadata_field, text_field
from gold.faults import Fault, InputError, Sink, refuse
from gold.files import json_lines
from gold.ids import broken_character, check_ids, read_id
from gold.loading import gold_directory
from gold.settings import read_settings

MENTIONS_FILE: Final = "mentions.jsonl"
_DIGEST_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class GoldMention:
    """One line of `mentions.jsonl`; `entity_id` None is NIL: no concept of the lexicon is meant."""

    mention_id: str
    text: str
    context: str
    entity_id: str | None
    type: str = ""


@dataclass(frozen=True, slots=True)
class LinkingSet:
    """A linking gold set; `mentions` by id in the order of the file.

    `digest` is the SHA-256 (hex) of what they say, whatever the formatting and the order of lines.
    `split` is always `mentions`: there is one.
    """

    path: Path
    name: str
    version: str
    licence: str
    mentions: Mapping[str, GoldMention]
    digest: str
    split: str = "mentions"


def is_linking(path: Path | str) -> bool:
    """Tell whether a directory is a linking gold set."""
    return (Path(path) / MENTIONS_FILE).is_file()


def load_mentions(path: Path | str) -> LinkingSet:
    """Load a linking gold set.

    Raises `InputError` naming file, line and remedy for the first error; see `read_mentions`.
    """
    directory = gold_directory(path)
    settings = read_settings(directory, refuse)
    file = directory / MENTIONS_FILE
    mentions = {i: mention for i, (mention, _) in read_mentions(file, refuse).items()}
    if not mentions:
        raise InputError("no mention", file, fix="add mentions")
    content = [asdict(mentions[i]) for i in sorted(mentions)]
    text = json.dumps([_DIGEST_FORMAT, content], sort_keys=True, ensure_ascii=False)
    return LinkingSet(
        path=directory,
        name=settings.name or directory.resolve().name,
        version=settings.version,
        licence=settings.licence,
        mentions=mentions,
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )


def read_mentions(path: Path, sink: Sink) -> dict[str, tuple[GoldMention, int]]:
    """Read a file of mentions: mention_id -> (mention, line).

    Told to `sink`, line by line: an id that is missing, repeated or no column of a TREC file; a
    mention without text; an `entity` that is missing (NIL is null), no text, or no such column; a
    context that does not hold its mention.
    """
    found: dict[str, tuple[GoldMention, int]] = {}
    for line, record in json_lines(path, sink):
        mention_id = read_id(record, path, line, sink)
        if mention_id is None:
            continue
        if mention_id in found:
            message = f"the id {mention_id!r} stands in line {found[mention_id][1]} already"
            sink(Fault("duplicate-id", path, line, message, "every mention needs its own id"))
            continue
        text = text_field(record, "mention", path, line, sink)
        context = text_field(record, "context", path, line, sink)
        if not text.strip():
            message = f"mention {mention_id!r} has no text"
            sink(Fault("empty-query", path, line, message, 'give it as "mention"'))
        elif context and text not in context:
            message = f"the context of {mention_id!r} does not hold {text!r}"
            sink(Fault("mention-not-in-context", path, line, message, "spell both alike"))
        entity_id = _entity_id(record, path, line, sink)
        kind = metadata_field(record, path, line, sink).get("type", "")
        if not isinstance(kind, str):
            sink(Fault("bad-field", path, line, f'"type" is {kind!r:.60}', "expected a text"))
            kind = ""
        found[mention_id] = GoldMention(mention_id, text, context, entity_id, kind), line
    check_ids({i: line for i, (_, line) in found.items()}, path, sink, queries=True)
    return found


def _entity_id(record: dict[str, Any], path: Path, line: int, sink: Sink) -> str | None:
    value = record.get("entity")
    if "entity" not in record:
        message = 'no "entity"'
        sink(Fault("bad-field", path, line, message, "an id of the lexicon, or null for NIL"))
    elif value is not None and (not isinstance(value, str) or not value):
        message = f'"entity" is {value!r:.60}'
        sink(Fault("bad-field", path, line, message, "an id of the lexicon, or null for NIL"))
    elif value is not None and broken_character(value) is not None:
        message = f"the id {value!r} holds {broken_character(value)}"
        sink(Fault("id-whitespace", path, line, message, "no TREC file can hold it; rename it"))
    return value if isinstance(value, str) and value else None
