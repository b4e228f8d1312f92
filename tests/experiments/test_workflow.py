"""The workflow of docs/compare.md: its very commands in a checkout, as a runner calls them."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from warm_assay import warm_assay
from worlds import write_gold

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "compare.md").read_text("utf-8")
# The one command that is not run as it stands: the package under test is on PATH already.
INSTALL = "pip install retrieval-assay"
BASE_BRANCH = "main"
BASE = "namespace: general\nmerge: {weights: {dense: 0.8, bm25: 0.2}}\n"
GATE = "rules:\n  - {rule: max_drop, metric: ndcg@10, at_most: 0.05}\n"
# A question, its answer in other words, and another text in the words of the question.
TRIPLES = [
    (
        "what helps against a heart attack",
        "Myocardial infarction is treated with aspirin and reperfusion.",
        "The heart of chess is attack: what helps against a slow opponent.",
    ),
    (
        "pills for high blood pressure",
        "Antihypertensive tablets such as amlodipine lower arterial tension.",
        "High demand put pressure on the mill that pills wool, and blood ran cold.",
    ),
    (
        "low sugar after insulin",
        "Hypoglycaemia may follow an injection of the hormone in diabetes.",
        "After a low harvest the price of sugar rose; insulin was not on sale there.",
    ),
    (
        "tumour of the kidney",
        "Renal cell carcinoma is resected or given sunitinib.",
        "The chef served kidney pie of the house; a guest spoke of the tumour in politics.",
    ),
]


def workflow() -> dict[str, Any]:
    start = DOCS.index("    # .github/workflows/search.yml")
    block = re.match(r"(?:    .*\n|\n)+", DOCS[start:] + "\n")
    assert block is not None
    text = "\n".join(line.removeprefix("    ") for line in block[0].splitlines())
    return yaml.safe_load(text)


def filled(text: str, values: Mapping[str, str]) -> str:
    """Put values in the place of `${{ ... }}`; one that has none is a fault of the test."""
    return re.sub(r"\$\{\{\s*(.*?)\s*\}\}", lambda match: values[match[1]], text)


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"]
    subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, timeout=60
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a gold set, a configuration and a gate on its base branch."""
    origin = tmp_path / "origin"
    texts = {f"d{i}": answer for i, (_, answer, _) in enumerate(TRIPLES)}
    texts |= {f"x{i}": decoy for i, (_, _, decoy) in enumerate(TRIPLES)}
    queries = {f"q{i}": question for i, (question, _, _) in enumerate(TRIPLES)}
    qrels = {f"q{i}": {f"d{i}": 1} for i, _ in enumerate(TRIPLES)}
    write_gold(origin / "search" / "gold", texts, queries, qrels)
    (origin / "search" / "my.yaml").write_text(BASE)
    (origin / "search" / "gate.yaml").write_text(GATE)
    git(origin, "init", "-q", "-b", BASE_BRANCH)
    git(origin, "add", ".")
    git(origin, "commit", "-qm", "base")
    return origin


def test_no_comparison_is_no_fault_of_the_comment(tmp_path: Path) -> None:
    (job,) = workflow()["jobs"].values()
    (step,) = (step for step in job["steps"] if "gh pr comment" in step.get("run", ""))
    command = filled(step["run"], {"github.event.number": "7"})
    done = subprocess.run(["bash", "-e", "-c", command], cwd=tmp_path, check=False, timeout=60)
    assert done.returncode == 0
    assert step["continue-on-error"]  # a fork's token


@pytest.fixture(scope="module")
def assay_on_path() -> Iterator[Path]:
    """Return a folder with a command `assay`."""
    with warm_assay() as folder:
        yield folder


def run_steps(folder: Path, *tools: Path) -> list[tuple[str, int, str]]:
    """Run the `run:` steps as a runner does: after a failure only those that say always()."""
    (job,) = workflow()["jobs"].values()
    values = {
        "github.workspace": str(folder),
        "github.base_ref": BASE_BRANCH,
        "github.event.number": "7",
        "github.token": "token",
    }
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([*map(str, tools), os.environ["PATH"]]),
        **{name: filled(value, values) for name, value in job["env"].items()},
    }
    done: list[tuple[str, int, str]] = []
    for step in job["steps"]:
        failed = any(code for _, code, _ in done)
        if "run" not in step or (failed and step.get("if") != "always()"):
            continue
        command = filled(step["run"], values)
        if command == INSTALL:
            command = "command -v assay"
        more = {name: filled(value, values) for name, value in step.get("env", {}).items()}
        found = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=folder,
            env={**environment, **more},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        done.append((command, found.returncode, found.stdout + found.stderr))
    return done


@pytest.mark.skipif(
    shutil.which("git") is None or shutil.which("bash") is None, reason="needs git and bash"
)
@pytest.mark.parametrize(
    ("weights", "passes", "is_first"),
    [("{dense: 0.85, bm25: 0.15}", True, False), ("{dense: 0.0, bm25: 1.0}", False, True)],
)
def test_steps_of_the_workflow_judge_a_change_of_weights(
    repository: Path,
    tmp_path: Path,
    assay_on_path: Path,
    weights: str,
    passes: bool,
    is_first: bool,
) -> None:
    if is_first:  # the base branch has no configuration yet
        git(repository, "rm", "-q", "search/my.yaml")
        git(repository, "commit", "-qm", "no configuration")
    checkout, tools = tmp_path / "checkout", tmp_path / "tools"
    git(tmp_path, "clone", "-q", str(repository), str(checkout))
    git(checkout, "checkout", "-qb", "change")
    (checkout / "search" / "my.yaml").write_text(
        f"namespace: general\nmerge: {{weights: {weights}}}\n"
    )
    # A change that would loosen its own gate.
    (checkout / "search" / "gate.yaml").write_text(GATE.replace("0.05", "1.0"))
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "other weights")
    tools.mkdir()
    gh = tools / "gh"
    gh.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/comment; test -s "$5" && test -n "$GH_TOKEN"\n'
    )
    gh.chmod(0o755)

    steps = run_steps(checkout, tools, assay_on_path)
    codes = {command.partition(" -")[0]: code for command, code, _ in steps}
    assert all(code in (0, 1) for code in codes.values()), steps
    assert codes["assay compare before search/my.yaml"] == (0 if passes else 1), steps
    assert [code for command, code in codes.items() if "assay compare" not in command] == [0] * 4
    posted = (tmp_path / "comment").read_text().split()
    assert posted == ["pr", "comment", "7", "--body-file", "comparison/comparison.md"]
    text = (checkout / "comparison" / "comparison.md").read_text()
    assert ("## ✅" if passes else "## ❌") in text
    assert "merge.weights" in text
    assert (checkout / "comparison" / "junit.xml").is_file()


def test_workflow_names_paths_and_permissions_that_its_steps_need() -> None:
    found = workflow()
    # YAML 1.1 reads the key `on` as true.
    assert found[True]["pull_request"]["paths"] == ["search/**"]
    assert found["permissions"]["pull-requests"] == "write"
    (job,) = found["jobs"].values()
    (checkout,) = (s for s in job["steps"] if str(s.get("uses", "")).startswith("actions/checkout"))
    assert checkout["with"]["fetch-depth"] == 0  # the worktree needs the base branch
    assert [s["run"] for s in job["steps"] if s.get("run", "").startswith("pip ")] == [INSTALL]
