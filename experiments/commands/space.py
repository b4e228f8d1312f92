"""`assay space`: show and check spaces of a sweep."""

from dataclasses import asdict
from typing import Annotated

import typer

from experiments.commands.opening import config_from
from experiments.commands.options import BAD_INPUT, Config, Json, Sets
from experiments.commands.plain_help import Commands
from experiments.commands.terminal import print_json, print_text, say
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

    print_text(f"# {counted(len(found.parameters), 'parameter')}, digest {found.digest[:16]}")
    print_text(yaml.safe_dump(found.to_json(), sort_keys=False, allow_unicode=True).rstrip())


@app.command("validate")
def validate(
    space: Source, config: Config = None, sets: Sets = None, as_json: Json = False
) -> None:
    """Check a space against the configuration tree; list every fault of it."""
    from experiments.space import load_space
    from experiments.sweep.space_faults import SpaceFault
    from retriever.encoders.models import resolved

    base = resolved(config_from(config, sets))
    faults: list[SpaceFault] = []
    found = load_space(space, faults.append)
    found.check(base, space, faults.append)
    faults.sort(key=lambda fault: fault.line or 0)
    outside = found.outside(base) if not faults else {}
    if as_json:
        problems = [asdict(fault) for fault in faults]
        many = len(found.parameters)
        print_json({"ok": not faults, "parameters": many, "outside": outside, "problems": problems})
    if faults:
        if not as_json:
            for fault in faults:
                say(str(fault.as_error()))
            say(f"assay: {space}: not valid, {counted(len(faults), 'fault')}")
        raise typer.Exit(BAD_INPUT)
    if as_json:
        return
    print_text(
        f"{space}: ok, {counted(len(found.parameters), 'parameter')}, digest {found.digest[:16]}"
    )
    for path, value in outside.items():
        print_text(f"{path}: the configuration's {value!r} lies outside the range")
