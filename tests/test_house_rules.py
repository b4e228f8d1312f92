"""What holds for the repository as a whole."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {"torch", "transformers", "ranx", "mlflow", "pandas", "scipy", "faiss", "sqlalchemy"}


@pytest.mark.parametrize("arguments", [["--help"], ["config", "show"], ["gold", "--help"]])
def test_light_commands_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from experiments.cli import main\n"
        f"sys.argv = ['assay', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_search_imports_only_what_it_needs(assay, tmp_path: Path) -> None:
    from worlds import write_corpus

    write_corpus(tmp_path / "c", {"a": "egfr inhibitor"})
    index = tmp_path / "index"
    assert assay("index", tmp_path / "c", "-o", index).code == 0
    code = (
        "import sys\n"
        "from experiments.cli import main\n"
        f"sys.argv = ['assay', 'search', {str(index)!r}, 'egfr']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "unwanted = {'sentence_transformers', 'ranx', 'mlflow', 'pandas', 'bm25s'}\n"
        "print(sorted(unwanted & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "a" in done.stdout
    assert done.stderr.splitlines()[-1] == "[]"


def test_every_installed_version_is_pinned() -> None:
    from importlib.metadata import distributions

    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    bootstrap = {"pip", "setuptools", "wheel", "retrieval-assay"}
    names = {
        d.metadata["Name"].lower().replace("_", "-").replace(".", "-") for d in distributions()
    }
    assert names - bootstrap - {name.replace(".", "-") for name in pinned} == set()
