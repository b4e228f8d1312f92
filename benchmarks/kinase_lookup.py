"""Hit@1 of the kinase-inhibitor look-up by query type, alone and among every other structure.

Title and text of the look-up alone: its metadata holds the answers. Decoys are the structures of
`compounds/structures.tsv` (approved drugs, a drug-name dictionary) whose salt-stripped parent is
none of the look-up's, by SMILES or by InChIKey (which sees one compound in two tautomers): one
document a distinct parent, its name as title, its SMILES as metadata.

    python benchmarks/kinase_lookup.py [--data FOLDER] [--without-decoys] [--json]
"""

import argparse
import csv
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gold import GoldSet, load
from retriever import Query, Retriever, build_index
from retriever.encoders.molecule import parent_smiles
from retriever.store import store_folder

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("ASSAY_DATA", ROOT / "../shared/data"))


def structures(data: Path) -> list[dict[str, str]]:
    """Return the rows of the table of compounds."""
    with (data / "compounds" / "structures.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def look_up(data: Path) -> tuple[list[dict[str, Any]], set[str]]:
    """Return the look-up's documents without metadata, and their parents' SMILES and InChIKeys."""
    documents = []
    parents: set[str | None] = {
        row["parent_inchikey"] for row in structures(data) if row["source"] == "pkidb"
    }
    for line in (data / "kinase_lookup" / "corpus.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        documents.append({key: record[key] for key in ("_id", "title", "text")})
        parents.add(parent_smiles(record["metadata"]["smiles"]))
    return documents, {parent for parent in parents if parent is not None}


def decoys(data: Path, taken: set[str]) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Return a document a distinct parent that is not `taken`, and what became of each row."""
    documents: dict[str, dict[str, Any]] = {}
    counts: Counter[str] = Counter()
    for number, row in enumerate(structures(data)):
        parent = parent_smiles(row["smiles"])
        if parent is None:
            counts["no structure"] += 1
        elif parent in taken or row["parent_inchikey"] in taken:
            counts["in the look-up"] += 1
        elif parent in documents:
            counts["same parent as another decoy"] += 1
        else:
            counts["decoy"] += 1
            documents[parent] = {
                "_id": f"decoy-{number}",
                "title": row["name"],
                "text": "",
                "metadata": {"smiles": row["smiles"]},
            }
    return list(documents.values()), counts


def hit_at_1(documents: Sequence[dict[str, Any]], gold: GoldSet) -> dict[str, tuple[int, int]]:
    """Index documents, ask every query, and return (first hits, queries) by query type."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in documents)
        (folder / "corpus.jsonl").write_text(text, "utf-8")
        cache = store_folder() / "cache" / "vectors"
        report = build_index(folder / "corpus.jsonl", folder / "index", cache=cache)
        retriever = Retriever.open(report.index, cache=cache)
        queries = list(gold.queries.values())
        results = retriever.search_many([Query(query.text) for query in queries])
        found: dict[str, tuple[int, int]] = {}
        for query, result in zip(queries, results, strict=True):
            grades = gold.qrels[query.query_id]
            hit = bool(result.hits) and grades.get(result.hits[0].document_id, 0) > 0
            hits, asked = found.get(query.type or "untyped", (0, 0))
            found[query.type or "untyped"] = (hits + hit, asked + 1)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--without-decoys", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for needed in ("kinase_lookup", "compounds"):
        if not (options.data / needed).is_dir():
            sys.exit(f"{options.data / needed} is absent: point ASSAY_DATA at the data sets")
    gold = load(options.data / "kinase_lookup")
    documents, parents = look_up(options.data)
    figures: dict[str, Any] = {"alone": hit_at_1(documents, gold)}
    counts: Counter[str] = Counter()
    if not options.without_decoys:
        others, counts = decoys(options.data, parents)
        figures["among decoys"] = hit_at_1([*documents, *others], gold)
    if options.json:
        print(json.dumps({"documents": len(documents), "structures": counts, "hits": figures}))
        return
    print(f"{len(documents)} documents; structures read: {dict(counts)}")
    for name, by_type in figures.items():
        for query_type, (hits, asked) in sorted(by_type.items()):
            print(f"{name}: {query_type}: Hit@1 {hits / asked:.4f} ({hits} of {asked})")


if __name__ == "__main__":
    main()
