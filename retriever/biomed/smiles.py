"""SMILES strings in running text: a token is one when it looks like one and parses as one."""

import re

from retriever.encoders.molecule import MAX_CHARACTERS

__all__ = ["MAX_CHARACTERS", "smiles_tokens"]

MIN_CHARACTERS = 5

_TOKEN = re.compile(r"[^\s,;\"'`<>|{}“”‘’«»]{5,}")
_LABEL = re.compile(r"smiles[:=]", re.IGNORECASE)
_ALPHABET = re.compile(
    r"(?:\[[^\[\]]{1,24}\]|Cl|Br|[BCNOPSFIbcnops*]|\d|%\d\d|[-=#$:/\\.~@()])+", re.ASCII
)
# What no word has: a bond that is no hyphen or slash, a bracket, or a ring digit. Digits that are
# no ring (CO2, IL-2) do not parse: a ring must be opened and closed.
_SYNTAX = re.compile(r"[=#$\[(]|[A-Za-z\])](?:\d|%\d\d)", re.ASCII)
# A tracer or an ion in physiologists' writing: [11C]PIB, [18F]-FB, [Na+].
_LABELLED_NAME = re.compile(r"\[\d+m?[A-Z][a-z]?\]-?[A-Za-z]*", re.ASCII)
# Letters without carbon spell too much (P=N.S): they need a double bond within one molecule.
_CARBON = re.compile(r"C(?!l)|c|\[")
_DOUBLE_BOND = re.compile(r"[^.]*=[^.]*")


def smiles_tokens(text: str) -> tuple[str, ...]:
    """Return the distinct SMILES strings in a text, as they are written, in order of place.

    By the specification: a token of at least 5 characters with a ring digit, bond or bracket, no
    plain word, that parses as a SMILES. Punctuation around a token is no part of it. Beyond the
    rule, what parses by chance is left out: single atoms (`[Na+]`, a concentration), tracers
    (`[11C]PIB`), and letters without carbon unless they hold a double bond and are one molecule
    (`PI(P)`, `P=N.S`). Tokens over 2,000 characters are passed over.
    """
    candidates = dict.fromkeys(
        token for found in _TOKEN.finditer(text) if (token := _candidate(found.group()))
    )
    return tuple(token for token in candidates if _parses(token))


def _candidate(token: str) -> str:
    """Return the token without its surroundings if it is worth parsing, else nothing."""
    if not MIN_CHARACTERS <= len(token) <= MAX_CHARACTERS:
        return ""
    token = _LABEL.sub("", token, count=1) if _LABEL.match(token) else token
    token = _without_surroundings(token)
    if (
        len(token) < MIN_CHARACTERS
        or not _SYNTAX.search(token)
        or not _ALPHABET.fullmatch(token)
        or not (_CARBON.search(token) or _DOUBLE_BOND.fullmatch(token))
        or _LABELLED_NAME.fullmatch(token)
    ):
        return ""
    return token


def _without_surroundings(token: str) -> str:
    """Strip punctuation from both ends, and parentheses that the token does not itself pair."""
    token = token.lstrip("(").rstrip(".:?!*")
    while token.endswith(")") and token.count(")") > token.count("("):
        token = token[:-1].rstrip(".:?!*")
    return token


def _parses(token: str) -> bool:
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(token)
    return molecule is not None and molecule.GetNumAtoms() > 1
