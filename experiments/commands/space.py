"""`assay space`: show and check spaces of a sweep."""

from typing import Annotated

import typer

from experiments.commands.opening import config_from
from experiments.commands.options import Config, Json, Sets
from experiments.commands.plain_help import Commands
from experiments.commands.terminal import print_json
from experiments.counting import counted

app = Commands(help="Show and check the spaces of a sweep.", no_args_is_help=True)

Source = Annotated[str, typer.Argument(help="A YAML file or the space that ships.")]


@app.command("show")
def show(space: Source = "default", as_json: Json = False) -> None:
    """Print a space with every parameter written out."""
    from experiments.space import load_space

    found = load_space(space)
    if as_json:
        print_json({"digest": found.digest, **found.to_json()})
        return
    import yaml

    typer.echo(f"# {counted(len(found.parameters), 'parameter')}, digest {found.digest[:16]}")
    typer.echo(yaml.safe_dump(found.to_json(), sort_keys=False, allow_unicode=True), nl=False)


@app.command("validate")
def validate(
    space: Source, config: Config = None, sets: Sets = None, as_json: Json = False
) -> None:
    """Check a space against the configuration tree."""
    from experiments.space import load_space
    from retriever.encoders.models import resolved

    found, base = load_space(space), resolved(config_from(config, sets))
    found.check(base, space)
    outside = found.outside(base)
    if as_json:
        print_json({"ok": True, "parameters": len(found.parameters), "outside": outside})
        return
    typer.echo(
        f"{space}: ok, {counted(len(found.parameters), 'parameter')}, digest {found.digest[:16]}"
    )
    for path, value in outside.items():
        typer.echo(f"{path}: the configuration's {value!r} lies outside the range")
