"""The command `assay`. Everything heavy is imported by the command that needs it."""

import errno
import os
import signal
import sys
from contextlib import suppress
from typing import Annotated, NoReturn

import typer

from experiments.commands import (
    cache,
    compare,
    config,
    dashboard,
    demo,
    diagnose,
    evaluate,
    gold,
    headroom,
    index,
    leaderboard,
    lexicon,
    link,
    power,
    promote,
    search,
    space,
    sweep,
)
from experiments.commands.options import BAD_INPUT, FAULT, INTERRUPTED
from experiments.commands.plain_help import Commands
from experiments.commands.terminal import print_text, say
from reports.shortened import shorten_words

__all__ = ["app", "main", "run_command"]

_FIXES = {
    errno.ENOSPC: "make room there, or name another folder",
    errno.EROFS: "name a folder that can be written",
}
# Of an error: room for a path, and none for an id of ten thousand letters.
LONGEST_WORD = 300
GO_ON = "interrupted; run the same command again to go on"

app = Commands(
    name="assay",
    help="Evaluate and tune hybrid biomedical retrieval.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print_text(f"assay {version('retrieval-assay')}")
        raise typer.Exit


@app.callback()
def _assay(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


app.command("demo")(demo.demo)
app.add_typer(gold.app, name="gold")
app.command("index")(index.index)
app.command("search")(search.search)
app.command("evaluate")(evaluate.evaluate)
app.command("diagnose")(diagnose.diagnose)
app.command("headroom")(headroom.headroom)
app.command("dashboard")(dashboard.dashboard)
app.command("compare")(compare.compare)
app.command("power")(power.power)
app.command("promote")(promote.promote)
app.command("leaderboard")(leaderboard.leaderboard)
app.add_typer(sweep.app, name="sweep")
app.add_typer(space.app, name="space")
app.add_typer(lexicon.app, name="lexicon")
app.command("link")(link.link)
app.add_typer(config.app, name="config")
app.add_typer(cache.app, name="cache")


def main() -> None:
    """Run the command line as a process of its own; see `run_command` for how it ends.

    From the end of the command on Ctrl-C is ignored.
    """
    try:
        run_command()
    finally:
        # What is left is Python's own end, some tenths of a second with all libraries loaded. An
        # interrupt there would end finished work with a traceback, or by the signal itself.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _refuse_empty_place(arguments: list[str]) -> None:
    """Refuse `-o ""`, as of a variable that a script forgot to set: it would mean this folder."""
    for option, value in zip(arguments, [*arguments[1:], None], strict=False):
        if option == "--":
            return
        if option == "--out=" or (option in ("-o", "--out") and value == ""):
            _fail(f"{option.rstrip('=')} is empty (give {option.rstrip('=')} a place)")


def run_command() -> None:
    """Run the command line; bad input ends with one line on stderr and exit code 2.

    A fault of ours shows its traceback and ends with 70: 1 is a negative verdict.
    """
    _open_streams()
    try:
        _refuse_empty_place(sys.argv[1:])
        code = app(standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED:
            say(GO_ON)
        if code:
            sys.exit(code)
    except (KeyboardInterrupt, typer.Abort):
        say(GO_ON)
        sys.exit(INTERRUPTED)
    except (BrokenPipeError, SystemExit) as stopped:
        gone = stopped if isinstance(stopped, BrokenPipeError) else stopped.__context__
        if not isinstance(gone, BrokenPipeError):
            raise
        # The reader of our output has gone; what it wanted it has.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os._exit(0)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        fix = _FIXES.get(error.errno or 0)
        _fail(f"{place}{error.strerror or error}" + (f" ({fix})" if fix else ""))
    except Exception as error:  # noqa: BLE001 - the exit code of any fault is ours to choose
        if type(error).__name__ == "NoArgsIsHelpError":
            print_text(str(error))
            sys.exit(BAD_INPUT)
        if hasattr(error, "format_message"):  # how the command line says that it is misused
            _fail(error.format_message())
        if not _is_input_error(error):
            import traceback

            traceback.print_exc()
            _end(f"a fault of assay: {type(error).__name__}: {error}", FAULT)
        _fail(str(error))


def _open_streams() -> None:
    """Let stdout and stderr be there and take any text.

    A letter that their encoding lacks is written as its escape. Python has None for a stream that
    was closed by whoever started it.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # A file opened later would take the free number, and get the output of C libraries.
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _fail(message: str) -> NoReturn:
    _end(message, BAD_INPUT)


def _end(message: str, code: int) -> NoReturn:
    with suppress(OSError):  # the exit code says it where nothing can be written
        say("assay: " + shorten_words(" ".join(message.split()), LONGEST_WORD))
    sys.exit(code)


def _is_input_error(error: Exception) -> bool:
    """Tell bad input, said by any package, from a fault of ours, which keeps its traceback."""
    sources = ("retriever.files", "gold.faults", "reports.faults")
    loaded = [sys.modules[m] for m in sources if m in sys.modules]
    return isinstance(error, tuple(module.InputError for module in loaded))
