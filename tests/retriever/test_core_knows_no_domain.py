"""The engine knows no domain: it imports no plugin and hardly ever speaks of medicine."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORE = ROOT / "retriever"
PLUGIN = "biomed"
# Words of the domain that stand in Core, by file, and why. Data, names and defaults; no decision.
ALLOWED = {
    # The default namespace, collection and tokeniser are names like any other.
    "config.py": {"biomed", "biomedical", "eagle_text_biomed"},
    "encoders/models.py": {"biomed"},
    "presets/models/biomed.yaml": {"biomed", "eagle_text_biomed"},
    "presets/models/embedded-late.yaml": {"eagle_text_biomed"},
    "presets/models/embedded.yaml": {"eagle_text_biomed"},
    "presets/seed.yaml": {"biomed", "drug_entity", "eagle_text_biomed"},
    "index/tokens.py": {"_biomedical", "biomedical"},
    # Keys of the printed explanation, which stay; `drugs` is the assembly's field behind them.
    "explain.py": {"drug", "drugs", "w_xdrug", "w_xdrug_penalty", "xdrug"},
    "hooks.py": {"drugs"},
    "stages/understand.py": {"drugs"},
    # Section names are data of documents; the encoder of structures tells its figures.
    "ingest/sections.py": {"drug", "drug_abuse_and_dependence", "drug_interactions"},
    # Formats of labels: the names of their fields and headings.
    "ingest/readers/label_sections.py": {"drug", "drug_abuse_and_dependence", "drug_interactions"},
    "ingest/readers/openfda.py": {"drug"},
    "ingest/readers/spl.py": {"drug"},
    "encoders/molecule.py": {"drug", "drug-name", "drugs"},
}


def core_files() -> list[Path]:
    files = [*CORE.rglob("*.py"), *CORE.rglob("*.yaml")]
    return [file for file in sorted(files) if file.relative_to(CORE).parts[0] != PLUGIN]


def domain_words(text: str) -> set[str]:
    return set(re.findall(r"[\w-]*(?:biomed|drug)[\w-]*", text.casefold()))


def test_domain_words_are_found_inside_names() -> None:
    assert domain_words("import retriever.biomed; x = DrugList or my_drug-name # medicine") == {
        "biomed",
        "druglist",
        "my_drug-name",
    }


def test_core_speaks_of_the_domain_only_where_it_is_allowed() -> None:
    found = {
        file.relative_to(CORE).as_posix(): words
        for file in core_files()
        if (words := domain_words(file.read_text("utf-8")))
    }
    new = {name: words - ALLOWED.get(name, set()) for name, words in found.items()}
    assert {name: words for name, words in new.items() if words} == {}
    # What is no longer there is taken off the list.
    old = {name: words - found.get(name, set()) for name, words in ALLOWED.items()}
    assert {name: words for name, words in old.items() if words} == {}


def test_import_rule_names_every_part_of_core() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    rule = next(r for r in rules["contracts"] if r["forbidden_modules"] == [f"retriever.{PLUGIN}"])
    parts = {
        f"retriever.{entry.stem}"
        for entry in CORE.iterdir()
        if (entry.suffix == ".py" or (entry / "__init__.py").is_file()) and entry.stem != PLUGIN
    }
    assert set(rule["source_modules"]) == parts - {"retriever.__init__"}


def test_no_part_of_core_names_the_plugins_package() -> None:
    # Also as text: an import by name would pass the import rule.
    named = [file.name for file in core_files() if f"retriever.{PLUGIN}" in file.read_text("utf-8")]
    assert named == []
