"""`assay lexicon`: build, prune and look at lexicons."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.options import NEGATIVE, Json
from experiments.commands.plain_help import Commands
from experiments.commands.terminal import print_json, print_text
from experiments.counting import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from retriever.biomed.lexicon import Entity
    from retriever.biomed.pruning import Dropped

app = Commands(help="Build, prune and look at lexicons.", no_args_is_help=True)

Lexicon = Annotated[
    Path | None,
    typer.Option("--lexicon", help="JSON, CSV or a UMLS folder; without it the bundled one."),
]
Overlays = Annotated[
    list[Path] | None, typer.Option("--overlay", help="Applied to it in order; may repeat.")
]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The JSON file to write.")]

# How many dropped terms the terminal shows; --json has them all.
SHOWN = 30


@app.command("build")
def build(
    out: Out,
    from_names: Annotated[
        list[Path] | None,
        typer.Option("--from-names", help="A list of names, an entity a line; may repeat."),
    ] = None,
    umls: Annotated[
        Path | None, typer.Option("--umls", help="A folder with MRCONSO.RRF and MRSTY.RRF.")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option("--corpus", help="A gold set or corpus: its documents' names.")
    ] = None,
    sources: Annotated[
        str, typer.Option("--sources", help="UMLS vocabularies to keep, MSH,RXNORM.")
    ] = "",
    types: Annotated[
        str, typer.Option("--types", help="Types to keep (UMLS, T121) or to give (names).")
    ] = "",
    drugs: Annotated[
        bool | None, typer.Option("--drugs/--no-drugs", help="Say of every name that it is a drug.")
    ] = None,
    shortest: Annotated[
        int, typer.Option("--shortest", min=1, help="Leave out names of fewer characters.")
    ] = 1,
    variants: Annotated[
        bool, typer.Option("--variants", help="Add generated spellings of every name.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a lexicon from lists of names, a UMLS release, or a corpus' own document names."""
    from retriever.biomed.lexicon import Lexicon
    from retriever.biomed.lexicon_sources import from_corpus, from_name_lists, write_lexicon
    from retriever.files import InputError

    given = [name for name in (from_names, umls, corpus) if name]
    if len(given) != 1:
        raise InputError("one source", fix="--from-names FILE, --umls DIR or --corpus FOLDER")
    if sources and not umls:
        raise InputError("--sources is about --umls", fix="leave it out")
    if drugs is not None and not from_names:
        raise InputError("--drugs is about --from-names", fix="leave it out")
    kept = _listed(types)
    entities: tuple[Entity, ...]
    skipped: Mapping[str, int]
    if umls:
        from retriever.biomed.umls import read_umls

        release = read_umls(umls, _listed(sources), kept)
        entities, skipped = release.entities, release.skipped
    elif from_names:
        built = from_name_lists(from_names, is_drug=drugs, semantic_types=kept, shortest=shortest)
        entities, skipped = built.entities, built.skipped
    else:
        assert corpus is not None  # noqa: S101 - one of three is given
        built = from_corpus(corpus)
        entities, skipped = built.entities, built.skipped
    made = Lexicon(entities)
    if variants:
        from retriever.biomed.variants import with_variants

        made = with_variants(made)
    write_lexicon(out, made.entities)
    found = {"lexicon": str(out), **_stats(made), "skipped": dict(sorted(skipped.items()))}
    if as_json:
        print_json(found)
        return
    print_text(
        f"{out}: {counted(found['entities'], 'record')}, {counted(found['terms'], 'term')}, "
        f"{counted(found['drugs'], 'drug')}"
    )
    for reason, count in found["skipped"].items():
        print_text(f"left out, {reason}: {count}")


@app.command("prune")
def prune(
    lexicon: Annotated[Path, typer.Argument(help="The lexicon: JSON, CSV or a UMLS folder.")],
    sample: Annotated[
        Path,
        typer.Option(
            "--sample", metavar="FILE", help='JSON lines: {"text", "mentions": [{"start", "end"}]}.'
        ),
    ],
    out: Out,
    types: Annotated[
        str, typer.Option("--types", help="Only mentions of these types count, Chemical.")
    ] = "",
    below: Annotated[
        float, typer.Option("--below", min=0, max=1, help="Drop terms of a precision below this.")
    ] = 0.5,
    occurrences: Annotated[
        int, typer.Option("--occurrences", min=1, help="Judge terms seen at least so often.")
    ] = 2,
    as_json: Json = False,
) -> None:
    """Drop the terms that an annotated sample shows to be ambiguous."""
    from retriever.biomed.lexicon import load_lexicon
    from retriever.biomed.lexicon_sources import write_lexicon
    from retriever.biomed.pruning import prune as pruned
    from retriever.biomed.pruning import read_sample

    whole = load_lexicon(lexicon)
    found = pruned(whole, read_sample(sample, _listed(types)), below=below, occurrences=occurrences)
    write_lexicon(out, found.lexicon.entities)
    if as_json:
        dropped = [_dropped(item) for item in found.dropped]
        stats = {"before": _stats(whole), "after": _stats(found.lexicon)}
        removed = list(found.removed)
        print_json({"lexicon": str(out), **stats, "dropped": dropped, "removed": removed})
        return
    for item in found.dropped[:SHOWN]:
        print_text(
            f"dropped {item.term!r}: {item.correct} of {item.occurrences} right "
            f"({', '.join(item.entity_ids)})"
        )
    if len(found.dropped) > SHOWN:
        print_text(f"and {len(found.dropped) - SHOWN} more: --json lists all")
    print_text(
        f"{out}: {counted(len(found.lexicon), 'record')}; {counted(len(found.dropped), 'term')} "
        f"dropped (precision below {below:g}, seen {counted(occurrences, 'time')} or more), "
        f"{counted(len(found.removed), 'record')} left without a name"
    )


@app.command("stats")
def stats(lexicon: Lexicon = None, overlays: Overlays = None, as_json: Json = False) -> None:
    """Count what a lexicon holds."""
    from retriever.biomed.lexicon import load_lexicon

    found = _stats(load_lexicon(lexicon, overlays or ()))
    if as_json:
        print_json(found)
        return
    import yaml

    print_text(yaml.safe_dump(found, sort_keys=False, allow_unicode=True).rstrip())


@app.command("show")
def show(
    term: Annotated[str, typer.Argument(help="A name, an alias or an id.")],
    lexicon: Lexicon = None,
    overlays: Overlays = None,
    as_json: Json = False,
) -> None:
    """Print the records that a term stands for, the preferred one first; exit code 1 for none."""
    from dataclasses import asdict

    from retriever.biomed.lexicon import load_lexicon

    known = load_lexicon(lexicon, overlays or ())
    ids = (term,) if term in known else known.entities_named(term)
    records = [{**asdict(known.entity(i)), "is_drug": known.entity(i).drug} for i in ids]
    if as_json:
        print_json({"term": term, "records": records})
    elif records:
        import yaml

        plain = [{k: list(v) if isinstance(v, tuple) else v for k, v in r.items()} for r in records]
        print_text(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True).rstrip())
    else:
        print_text(f"{term!r} is no term of the lexicon; assay link finds what is near it")
    if not records:
        raise typer.Exit(NEGATIVE)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part for part in map(str.strip, text.split(",")) if part)


def _stats(lexicon: Any) -> dict[str, Any]:
    """Count records, terms, drugs, structures, types, and terms of several records."""
    from collections import Counter

    from retriever.biomed.matcher import term_key

    entities = lexicon.entities
    owners: Counter[str] = Counter()
    for entity in entities:
        owners.update({term_key(name) for name in lexicon.names_of(entity.id)})
    types = Counter(kind for entity in entities for kind in entity.semantic_types)
    return {
        "entities": len(entities),
        "terms": len(owners),
        "drugs": sum(entity.drug for entity in entities),
        "with_structure": sum(bool(entity.smiles) for entity in entities),
        "with_related_drugs": sum(bool(entity.related_drugs) for entity in entities),
        "with_pathways": sum(bool(entity.pathways) for entity in entities),
        "terms_of_several_records": sum(count > 1 for count in owners.values()),
        "semantic_types": dict(sorted(types.items())),
        "fingerprint": lexicon.fingerprint,
    }


def _dropped(item: "Dropped") -> dict[str, Any]:
    return {
        "term": item.term,
        "entities": list(item.entity_ids),
        "occurrences": item.occurrences,
        "correct": item.correct,
        "precision": round(item.precision, 6),
    }
