"""`assay leaderboard`: every run of an MLflow experiment, best first."""

from typing import Annotated, Any

import typer

from experiments.commands.options import Json
from experiments.commands.terminal import print_json
from experiments.counting import counted
from reports.shortened import shortened


def leaderboard(
    metric: Annotated[str, typer.Option("--metric", help="What to order by.")] = "ndcg@10",
    experiment: Annotated[str, typer.Option("--experiment", help="MLflow experiment.")] = "assay",
    most: Annotated[int, typer.Option("--most", min=1, help="Runs to list by gold set.")] = 20,
    as_json: Json = False,
) -> None:
    """List the runs of an experiment by gold set, best first. Only runs of one set compare."""
    from experiments.tracking.leaderboard import boards

    found = boards(experiment, metric, most)
    if as_json:
        print_json(found)
        return
    from rich.table import Table

    from experiments.screen import screen

    console = screen()
    for board in found["boards"]:
        runs = counted(board["runs"], "run")
        table = Table(
            title=f"{shortened(board['gold'])} ({board['digest'][:12]}), {runs}",
            title_justify="left",
            box=None,
        )
        for name in ("", found["metric"], "run", "MLflow run", "configuration", "when"):
            table.add_column(name, justify="right" if name in ("", found["metric"]) else "left")
        for row in board["rows"]:
            table.add_row(*_cells(row))
        console.print(table)
        if board["runs"] > len(board["rows"]):
            console.print(f"{counted(board['runs'] - len(board['rows']), 'more run')}: --most")
    if not found["boards"]:
        console.print(f"no run has a figure of {found['metric']}")
    for reason, count in found["left_out"].items():
        console.print(f"{counted(count, 'run')} left out: {reason}")


def _cells(row: dict[str, Any]) -> list[str]:
    aliases = "".join(f" @{alias}" for alias in row["aliases"])
    return [
        str(row["rank"]),
        f"{row['value']:.4f}",
        f"{shortened(row['name'])}{aliases}",
        row["run_id"],
        (row["config"] or row["kind"])[:12],
        row["created"],
    ]
