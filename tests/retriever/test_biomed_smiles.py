"""What is a SMILES string in running text, and what only looks like one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever.biomed.smiles import MAX_CHARACTERS, smiles_tokens

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


@pytest.mark.parametrize(
    "token",
    [
        ASPIRIN,
        "CC(C)C",
        "C1CCCCC1",
        "C/C=C/C",
        "[Na+].[Cl-]",
        "CN1CCC[C@H]1c1cccnc1",
        "C[C@@H](N)C(=O)O",
        "O=S(O)(O)=S",
        "[O-][N+](=O)c1ccccc1",
        "c1ccc2c(c1)C%10CC%10C2",
        "[13CH3]C(=O)O",
        "N.N.Cl[Pt]Cl",
    ],
)
def test_smiles_is_found_when_it_stands_in_a_sentence(token: str) -> None:
    assert smiles_tokens(f"what is {token} used for") == (token,)


@pytest.mark.parametrize(
    "text",
    [
        "CCN CCO",
        "(CC=O) CC=O, CC=O.",
        "(pH7.4)",
        "PIK3CA IL-2 COX-2 CO2 NaCl (n=17) 5-HT p53 [1] C1 CC-90009 CHO-K1",
        "[Na+] [Cl-] [Ca2+] [14C] [11C]PIB [18F]-FDG [18F]FB",
        "P=N.S. p=n.s. P=0.05 (P<0.001) N=22 pO(2) PI(P) PI(3)P PI(4,5)P2",
        "S1P1 C-O-C N/A and/or CNS/PNS OC-11 C3-C5 C=O",
        "[see Warnings (5.1)] (Boxed Warning) [12,13] COOPER(S) SPINOFF",
        "C1CC",
        "c1ccccc",
        "C(C)(C)(C)(C)C",
        "",
    ],
)
def test_nothing_is_found_when_there_is_no_smiles(text: str) -> None:
    assert smiles_tokens(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        f"{ASPIRIN}.",
        f"({ASPIRIN})",
        f"(aspirin: {ASPIRIN}).",
        f"{ASPIRIN}?",
        f"“{ASPIRIN}”, please!",
        f"`{ASPIRIN}`;",
        f"SMILES:{ASPIRIN}",
        f"smiles={ASPIRIN}",
        f"{ASPIRIN}\n{ASPIRIN}",
        f"CCN,{ASPIRIN},CCO",
    ],
)
def test_punctuation_is_no_part_of_a_smiles(text: str) -> None:
    assert smiles_tokens(text) == (ASPIRIN,)


def test_tokens_come_in_order_each_once() -> None:
    assert smiles_tokens(f"CC(=O)O {ASPIRIN} C1CC1 CC(=O)O") == ("CC(=O)O", ASPIRIN, "C1CC1")


def test_token_over_the_limit_is_passed_over() -> None:
    longest = "CC(=O)O" + "C" * (MAX_CHARACTERS - 7)
    assert smiles_tokens(longest) == (longest,)
    assert smiles_tokens(longest + "C") == ()


@pytest.mark.parametrize(
    "text",
    ["(" * 50_000, "C(" * 900 + "C", "[" * 5_000, "C1" * 900, "C%" * 900, "%99" * 600, "=" * 1_999],
)
def test_hostile_text_gives_nothing(text: str) -> None:
    assert smiles_tokens(text) == ()


@settings(max_examples=150, deadline=None)
@given(st.text("CNOcno()[]=#123%.-+@H/\\ \n", max_size=40))
def test_any_text_gives_tokens_that_stand_in_it(text: str) -> None:
    for token in smiles_tokens(text):
        assert token in text
        assert smiles_tokens(f"see {token}, please") == (token,)


def test_nothing_is_printed_when_a_token_does_not_parse(capfd: pytest.CaptureFixture[str]) -> None:
    smiles_tokens("c1ccccc C1CC( CC(=O)(=O)(=O)C")
    assert capfd.readouterr() == ("", "")
