"""How a command's help looks: one plain word for every value, and no types of Python."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_args

import typer
from typer.core import TyperCommand

__all__ = ["Commands", "PlainCommand"]

F = TypeVar("F", bound=Callable[..., Any])

# What stands for a value whose definition says nothing by `metavar`: by option, else by type.
BY_OPTION = {
    "--alias": "NAME",
    "--bound": "WEIGHT=LOW:HIGH",
    "--config": "FILE",
    "--document": "ID",
    "--experiment": "NAME",
    "--file": "FILE",
    "--from-names": "FILE",
    "--gate": "FILE",
    "--gold": "DIR",
    "--image": "FILE",
    "--index": "DIR",
    "--kb": "NAME",
    "--memory": "MB",
    "--metric": "METRIC",
    "--objective": "METRIC",
    "--out": "DIR",
    "--overlay": "FILE",
    "--query": "ID",
    "--run": "FILE",
    "--sampler": "NAME",
    "--serve": "DIR",
    "--set": "PATH=VALUE",
    "--space": "FILE",
    "--split": "NAME",
    "--storage": "URL",
    "--study": "NAME",
    "--tag": "TAG",
    "--test": "NAME",
    "--test-split": "NAME",
    "--timeout": "SECONDS",
    "--to": "MB",
    "--topics": "FILE",
    "--umls": "DIR",
}
BY_TYPE = {int: "N", float: "X", str: "TEXT", Path: "PATH"}


class PlainCommand(TyperCommand):
    """A command whose help names each argument by a word in capitals, as its usage line does."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        for parameter in self.params:
            if parameter.metavar is None and not getattr(parameter, "is_flag", False):
                parameter.metavar = _word(parameter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the usage line after the command's name: `[OPTIONS] GOLD [RUN]...`."""
        return ["[OPTIONS]", *(_usage(p) for p in self.params if _is_argument(p))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, without their types, and the options."""
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            name, text = record[0], _in_words(record[1])
            if _is_argument(parameter):
                rows["Arguments"].append((str(parameter.metavar), text))
            else:
                rows["Options"].append((name, text))
        for title, found in rows.items():
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)


class Commands(typer.Typer):
    """A group of commands that all have plain help."""

    def command(self, name: str | None = None, **given: Any) -> Callable[[F], F]:
        """Return the decorator that makes a function a command."""
        return super().command(name, cls=PlainCommand, **given)


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _word(parameter: Any) -> str:
    if _is_argument(parameter):
        return str(parameter.name).upper()
    known = next((BY_OPTION[name] for name in parameter.opts if name in BY_OPTION), None)
    annotation = parameter.type_descriptor.annotation
    return known or BY_TYPE[next(iter(get_args(annotation)), annotation)]


def _usage(argument: Any) -> str:
    word = argument.metavar if argument.required else f"[{argument.metavar}]"
    return f"{word}..." if argument.nargs != 1 else str(word)


def _in_words(text: str) -> str:
    """Return a help text with its range, `x>=1` or `0<=x<=1`, in words."""
    text = re.sub(r"(-?[\d.]+)<=x<=([\d.]+)(?=\]|;)", r"from \1 to \2", text)
    return re.sub(r"x>=(\d+)(?=\]|;)", r"at least \1", text)
