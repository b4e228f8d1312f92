"""`assay config`: show, compare and check configurations."""

import json
from typing import Annotated

import typer

from experiments.commands.opening import config_from
from experiments.commands.options import Config, Json, Sets
from experiments.commands.plain_help import Commands
from experiments.commands.terminal import print_json, print_text

app = Commands(help="Show, compare and check configurations.", no_args_is_help=True)


@app.command("show")
def show(config: Config = None, sets: Sets = None, as_json: Json = False) -> None:
    """Print the whole configuration with the fingerprint that a run of it records."""
    from retriever.config import difference
    from retriever.encoders.models import resolved

    loaded = config_from(config, sets)
    in_force = resolved(loaded)
    held = {path: holds for path, (_, holds) in difference(loaded, in_force).items()}
    if as_json:
        whole = loaded.model_dump(mode="json")
        print_json({"fingerprint": in_force.fingerprint, "config": whole, "in_force": held})
        return
    print_text(f"# fingerprint {in_force.fingerprint}")
    for path, holds in held.items():
        print_text(f"# {path}: null is {holds} with the models {loaded.models}")
    print_text(loaded.to_yaml().rstrip())


@app.command("diff")
def diff(
    one: Annotated[str, typer.Argument(help="A YAML file or a preset's name.")],
    other: Annotated[str, typer.Argument(help="A YAML file or a preset's name.")],
    as_json: Json = False,
) -> None:
    """Print the parameters in which two configurations differ, by the values in force."""
    from experiments.in_force import differences_in_force
    from retriever.config import load_config

    found = differences_in_force(load_config(one), load_config(other))
    if as_json:
        print_json(
            {
                path: {
                    "one": a.value,
                    "other": b.value,
                    "defaults": [s for s, held in (("one", a), ("other", b)) if held.is_default],
                }
                for path, (a, b) in found.items()
            }
        )
        return
    for path, both in found.items():
        before, after = (
            json.dumps(held.value) + (" (default)" if held.is_default else "") for held in both
        )
        print_text(f"{path}: {before} -> {after}")
    if not found:
        print_text("no difference")


@app.command("validate")
def validate(
    files: Annotated[list[str], typer.Argument(help="YAML files or presets' names.")],
) -> None:
    """Check configurations."""
    from retriever.encoders.models import resolved

    for file in files:
        fingerprint = resolved(config_from(file, None)).fingerprint
        print_text(f"{file}: ok, fingerprint {fingerprint[:16]}")
