"""`assay link`: which record of the lexicon a mention means."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.opening import config_from
from experiments.commands.options import Config, Json, Sets
from experiments.commands.terminal import print_json, print_text
from reports.shortened import shortened

if TYPE_CHECKING:
    from retriever.biomed.linking import Linked, Mention

__all__ = ["link"]


def link(
    text: Annotated[str | None, typer.Argument(help="One mention, as it stands in a text.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help='Mentions, a line each: text, or {"mention", "context"}.'
        ),
    ] = None,
    context: Annotated[
        str,
        typer.Option("--context", help="The text around the mention; it defines abbreviations."),
    ] = "",
    lexicon: Annotated[
        Path | None,
        typer.Option(
            "--lexicon", help="JSON, CSV or a UMLS folder; without it the configured one."
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Candidates to show.")] = 5,
    config: Config = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Link mentions to records of the lexicon, or to none (NIL)."""
    from experiments.linking import open_linker
    from retriever.biomed.linking import Mention
    from retriever.files import InputError

    if (text is None) == (file is None):
        raise InputError("one mention, or a file of them", fix="assay link TEXT, or --file FILE")
    if file is not None and context:
        raise InputError("--context is about one mention", fix='give "context" in the file')
    asked = config_from(config, sets)
    if lexicon is not None:
        asked = asked.with_overrides({"plugins.biomed.lexicon.path": str(lexicon)})
    mentions = _mentions(file) if file is not None else [Mention(text or "", context)]
    if not all(mention.text.strip() for mention in mentions):
        raise InputError("a mention is blank", fix="give its text")
    linker = open_linker(asked)
    found = [linker.link(mention) for mention in mentions]
    if as_json:
        print_json(
            {"lexicon": linker.lexicon.fingerprint, "mentions": [_shown(f, k) for f in found]}
        )
        return
    for answer in found:
        _print(answer, k)


def _mentions(file: Path) -> "list[Mention]":
    """Read a file of mentions: JSON lines where its name says so, else a mention a line.

    Raises InputError for a JSON object among plain mentions, which nobody means as one.
    """
    from retriever.biomed.linking import Mention
    from retriever.files import InputError, read_json_lines

    found = []
    if file.suffix.lower() == ".jsonl":
        for line, record in read_json_lines(file):
            mention, context = record.get("mention"), record.get("context") or ""
            if not isinstance(mention, str) or not isinstance(context, str) or not mention.strip():
                fix = '{"mention": "...", "context": "..."}'
                raise InputError("expected a mention", path=file, line=line, fix=fix)
            found.append(Mention(mention, context))
    else:
        try:
            text = file.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError("not UTF-8", path=file, fix="re-save as UTF-8") from error
        lines = [(n, line.strip()) for n, line in enumerate(text.split("\n"), start=1)]
        objects = [number for number, line in lines if _is_object(line)]
        if objects:
            raise InputError(
                "a JSON object in a file of plain mentions",
                path=file,
                line=objects[0],
                fix=f"name JSON lines so: {file.with_suffix('.jsonl').name}",
            )
        found = [Mention(line) for _, line in lines if line]
    if not found:
        raise InputError("no mention", path=file, fix="one a line")
    return found


def _is_object(line: str) -> bool:
    if not line.startswith("{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _shown(answer: "Linked", k: int) -> dict[str, Any]:
    return {
        "mention": answer.mention,
        "entity": answer.entity_id,
        "candidates": [
            {"rank": rank, **asdict(candidate)}
            for rank, candidate in enumerate(answer.candidates[:k], start=1)
        ],
    }


def _print(answer: "Linked", k: int) -> None:
    print_text(f"{shortened(answer.mention)}: {answer.entity_id or 'NIL'}")
    for rank, candidate in enumerate(answer.candidates[:k], start=1):
        term = "" if candidate.term == candidate.name else f" as {shortened(candidate.term)!r}"
        score = "" if candidate.bm25 is None else f", bm25 {candidate.bm25:.2f}"
        score += "" if candidate.logit is None else f", logit {candidate.logit:.2f}"
        print_text(
            f"{rank:>3}. {candidate.entity_id}  {shortened(candidate.name)}{term}  "
            f"[{candidate.way}, similarity {candidate.similarity:.2f}{score}]"
        )
    if not answer.candidates:
        print_text("     no candidate")
