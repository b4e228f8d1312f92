"""The bundled lexicon: whole, consistent, true where it can be checked, quiet in plain English."""

import csv
import os
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from retriever.biomed.lexicon import Lexicon, load_lexicon
from retriever.biomed.smiles import smiles_tokens
from retriever.encoders.molecule import parent_smiles

DATA = Path(os.environ.get("ASSAY_DATA", Path(__file__).resolve().parents[2] / "../shared/data"))


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return load_lexicon()


def test_counts_are_at_least_those_promised(lexicon: Lexicon) -> None:
    kinds = Counter(entity.id.partition(":")[0] for entity in lexicon.entities)
    assert set(kinds) == {"drug", "gene", "disease"}
    assert kinds["drug"] >= 150
    assert kinds["gene"] >= 100
    assert kinds["disease"] >= 60
    assert sum(bool(entity.smiles) for entity in lexicon.entities) >= 300


def test_ids_say_what_is_a_drug(lexicon: Lexicon) -> None:
    assert all(entity.drug == entity.id.startswith("drug:") for entity in lexicon.entities)


def test_no_name_stands_for_two_entities(lexicon: Lexicon) -> None:
    owners = defaultdict(set)
    for entity in lexicon.entities:
        for name in lexicon.names_of(entity.id):
            owners[name.casefold().replace("-", "").replace(" ", "")].add(entity.id)
    assert {name: ids for name, ids in owners.items() if len(ids) > 1} == {}


def test_every_name_is_found_as_its_own_entity(lexicon: Lexicon) -> None:
    for entity in lexicon.entities:
        for name in lexicon.names_of(entity.id):
            (match,) = lexicon.match(f"the {name}, too")
            assert (match.entity_id, match.term) == (entity.id, name)


def test_related_drugs_are_drugs_of_the_lexicon(lexicon: Lexicon) -> None:
    for entity in lexicon.entities:
        related = lexicon.related(entity.id)
        assert len(related) == len(entity.related_drugs), entity.id
        assert all(drug in lexicon and lexicon.entity(drug).drug for drug in related), entity.id


def test_every_structure_is_its_own_canonical_parent(lexicon: Lexicon) -> None:
    for entity in lexicon.entities:
        for smiles in entity.smiles:
            assert parent_smiles(smiles) == smiles, entity.id


def test_no_structure_stands_for_two_drugs(lexicon: Lexicon) -> None:
    structures = Counter(smiles for entity in lexicon.entities for smiles in entity.smiles)
    assert [smiles for smiles, count in structures.items() if count > 1] == []


def test_no_name_is_taken_for_a_structure(lexicon: Lexicon) -> None:
    names = [name for entity in lexicon.entities for name in lexicon.names_of(entity.id)]
    assert smiles_tokens(" ".join(names)) == ()


@pytest.mark.parametrize(
    ("name", "drug", "smiles"),
    [
        ("Tabrecta", "capmatinib", True),
        ("Tepmetko", "tepotinib", True),
        ("RAD001", "everolimus", True),
        ("Iressa", "gefitinib", True),
        ("Tagrisso", "osimertinib", True),
        ("Elunate", "fruquintinib", True),
        ("HMPL-504", "savolitinib", True),
        ("sulfatinib", "surufatinib", True),
        ("Sutent", "sunitinib", True),
        ("Cometriq", "cabozantinib", True),
        ("Lenvima", "lenvatinib", True),
        ("Stivarga", "regorafenib", True),
        ("Avastin", "bevacizumab", False),
        ("Tyvyt", "sintilimab", False),
    ],
)
def test_drug_is_known_by_brand_or_code(
    lexicon: Lexicon, name: str, drug: str, smiles: bool
) -> None:
    assert lexicon.drug_ids([name, drug]) == (f"drug:{drug}",)
    assert bool(lexicon.entity(f"drug:{drug}").smiles) is smiles


PLAIN = """
We met the max of all cats at rest and set the cast in a net kit: it aids the gist of a ret.
The src of an axl, an alk or a met is not said; a syk or a kit may be sold. I am at a loss.
Annual report: revenue rose 12 percent plus currency effects; the board met in June (Q3 2023).
PLEASE NOTE THAT ALL STAFF AT REST CAN SET THE MAX COST OF A CAT, ACE, SEGA OR LEGO GAME IN MAY.
Please submit the form, ask HR, and park in the north lot; MS Office, RA, PD, AD, AF and MI apply.
The patient in this case asked for a second opinion before the next appointment on Monday.
Our vision: select the best route, solo or in a group, and take the lead in Brazil and Japan.
"""


def test_plain_english_holds_no_entity(lexicon: Lexicon) -> None:
    assert [match.term for match in lexicon.match(PLAIN)] == []


def test_gene_is_found_in_its_own_case_alone(lexicon: Lexicon) -> None:
    found = [match.term for match in lexicon.match("MET KIT RET met kit ret Met Kit Ret")]
    assert found == ["MET", "KIT", "RET"]


@pytest.mark.data
@pytest.mark.skipif(not (DATA / "compounds").is_dir(), reason="public tables not at ASSAY_DATA")
def test_structures_are_those_of_public_tables(lexicon: Lexicon) -> None:
    from rdkit import Chem

    with (DATA / "compounds" / "drugbank_vocabulary.csv").open(encoding="utf-8") as stream:
        keys = {
            row["Common name"].casefold(): row["Standard InChI Key"]
            for row in csv.DictReader(stream)
            if row["Standard InChI Key"]
        }
    csv.field_size_limit(sys.maxsize)
    checked, differ = 0, []
    for entity in lexicon.entities:
        names = (name.casefold() for name in lexicon.names_of(entity.id))
        known = next((keys[name] for name in names if name in keys), None)
        for smiles in entity.smiles:
            if known is not None:
                checked += 1
                key = Chem.MolToInchiKey(Chem.MolFromSmiles(smiles))
                differ += [entity.name] if key != known else []
    assert checked > 300
    # Itraconazole is a mixture of isomers, held without stereochemistry; of vincristine two other
    # tables give the structure that is held.
    assert differ == ["itraconazole", "vincristine"]


@pytest.mark.data
@pytest.mark.skipif(not (DATA / "compounds").is_dir(), reason="public tables not at ASSAY_DATA")
def test_every_structure_is_its_drugs_in_one_public_table_at_least(lexicon: Lexicon) -> None:
    from rdkit import Chem

    known = defaultdict(set)
    with (DATA / "compounds" / "structures.tsv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream, delimiter="\t"):
            known[row["name"].casefold()].add(row["parent_inchikey"])
    checked, wrong = 0, []
    for entity in lexicon.entities:
        keys = {key for name in lexicon.names_of(entity.id) for key in known[name.casefold()]}
        for smiles in entity.smiles:
            checked += bool(keys)
            if keys and Chem.MolToInchiKey(Chem.MolFromSmiles(smiles)) not in keys:
                wrong.append(entity.name)
    assert checked > 330
    # These tables hold ixazomib's citrate, a prodrug; DrugBank has the acid that is held here.
    assert wrong == ["ixazomib"]
