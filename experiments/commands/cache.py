"""`assay cache`: what models have computed, kept on disk by content."""

from typing import Annotated

import typer

from experiments.commands.opening import vector_cache
from experiments.commands.options import Json
from experiments.commands.plain_help import Commands
from experiments.commands.terminal import print_json, print_text
from experiments.counting import counted

app = Commands(help="Look at the cache of model outputs, and prune it.", no_args_is_help=True)


@app.command("stats")
def stats(as_json: Json = False) -> None:
    """Print entries and size by model."""
    from experiments.cache_files import cache_stats

    found = cache_stats(vector_cache())
    if as_json:
        print_json(found)
        return
    for one in found["models"]:
        print_text(
            f"{one['file']}: {counted(one['entries'], 'entry')}, {one['bytes'] / 2**20:.1f} MB"
        )
    print_text(f"{found['folder']}: {found['bytes'] / 2**20:.1f} MB")


@app.command("prune")
def prune(
    megabytes: Annotated[
        float, typer.Option("--to", min=0, help="Megabytes to keep; models used last stay.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Remove whole models' files, those used longest ago first, until the rest fits."""
    from experiments.cache_files import prune_cache

    removed = prune_cache(vector_cache(), int(megabytes * 2**20))
    if as_json:
        print_json({"removed": removed})
        return
    for one in removed:
        print_text(f"removed {one['file']}: {one['bytes'] / 2**20:.1f} MB")
    if not removed:
        print_text("nothing to remove")
