"""Other spellings of a term: word order, hyphens, plurals, British and American, Greek letters.

They serve the lexicon (linking, and matching where asked for) and never the index of a corpus:
what a document says is searched as it was written.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from retriever.biomed.lexicon import Lexicon
from retriever.biomed.matcher import SHORT, term_key

__all__ = ["compact", "variants", "with_variants"]

# Families are applied on top of one another this often: "tumours of the kidney" is two steps from
# "renal tumors" and three from "kidney tumor".
ROUNDS: Final = 3
MOST: Final = 24

# An organ as noun and as adjective; a term says either ("infarction of myocardium").
_ADJECTIVES: Final = {
    "artery": "arterial",
    "bladder": "vesical",
    "bone": "osseous",
    "brain": "cerebral",
    "colon": "colonic",
    "cornea": "corneal",
    "esophagus": "esophageal",
    "eye": "ocular",
    "heart": "cardiac",
    "intestine": "intestinal",
    "kidney": "renal",
    "liver": "hepatic",
    "lung": "pulmonary",
    "muscle": "muscular",
    "myocardium": "myocardial",
    "nerve": "neural",
    "ovary": "ovarian",
    "pancreas": "pancreatic",
    "pericardium": "pericardial",
    "prostate": "prostatic",
    "rectum": "rectal",
    "retina": "retinal",
    "skin": "cutaneous",
    "stomach": "gastric",
    "thymus": "thymic",
    "thyroid": "thyroidal",
    "uterus": "uterine",
    "vein": "venous",
}
_NOUNS: Final = {adjective: noun for noun, adjective in _ADJECTIVES.items()}

# (British, American). A pattern is anchored where its American form also stands inside words that
# both spell alike (chemotherapy, academia, petrol).
_SPELLINGS: Final = (
    (r"aemi(?=[ac])", r"(?<=[^ad])emi(?=[ac]\b|as\b)", "aemi", "emi"),
    (r"\bhaem", r"\bhem(?=[ao])", "haem", "hem"),
    (r"oedema", r"(?<!o)edema", "oedema", "edema"),
    (r"\boestr", r"\bestr(?=[aio])", "oestr", "estr"),
    (r"oesophag", r"(?<!o)esophag", "oesophag", "esophag"),
    (r"rrhoea", r"rrhea", "rrhoea", "rrhea"),
    (r"pnoea", r"pnea", "pnoea", "pnea"),
    (r"tumour", r"tumor(?!i)", "tumour", "tumor"),
    (r"humour", r"humor(?!a)", "humour", "humor"),
    (r"colour", r"color(?!e)", "colour", "color"),
    (r"behaviour", r"behavior", "behaviour", "behavior"),
    (r"paediatr", r"pediatr", "paediatr", "pediatr"),
    (r"anaesth", r"anesth", "anaesth", "anesth"),
    (r"gynaec", r"gynec", "gynaec", "gynec"),
    (r"orthopaed", r"orthoped", "orthopaed", "orthoped"),
    (r"\bfoet", r"\bfet(?=al|us)", "foet", "fet"),
    (r"\bcoeliac", r"\bceliac", "coeliac", "celiac"),
    (r"\bcaec", r"\bcec(?=al|um)", "caec", "cec"),
    (r"\bfaec", r"\bfec(?=al|es)", "faec", "fec"),
    (r"sulph", r"sulf", "sulph", "sulf"),
    (r"fibre", r"fiber", "fibre", "fiber"),
    (r"\blitre", r"\bliter", "litre", "liter"),
    (r"isation\b", r"ization\b", "isation", "ization"),
    (r"neurone\b", r"neuron\b", "neurone", "neuron"),
)
_BRITISH: Final = tuple((re.compile(a), new) for _, a, new, _ in _SPELLINGS)
_AMERICAN: Final = tuple((re.compile(b), new) for b, _, _, new in _SPELLINGS)
_GREEK: Final = {
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "δ": "delta",
    "ε": "epsilon",
    "κ": "kappa",
    "λ": "lambda",
    "μ": "mu",
    "ω": "omega",
}
_GREEK_WORD: Final = re.compile(rf"(?<![a-z])({'|'.join(_GREEK.values())})(?![a-z])")
_LETTER: Final = {word: letter for letter, word in _GREEK.items()}
_OF: Final = re.compile(r"(?P<head>.+?) of (?:the )?(?P<rest>.+)")
_INVERTED: Final = re.compile(r"(?P<head>[^,]+), (?P<rest>[^,]+)")
_JOINT: Final = re.compile(r"(?<=\w)-(?=\w)")
_SPLIT_NUMBER: Final = re.compile(r"(?<=[^\W\d_])[ -]?(?=\d)")
# Words that end in s and are no plural, and terms whose last word is not the head.
_NO_PLURAL: Final = re.compile(r"(?:ss|us|is|os|(?<![imn])as|[^a-z])$|, | of ")


def variants(term: str) -> tuple[str, ...]:
    """Return other spellings of a term, in lower case, nearest first, 24 at most, never the term.

    `infarction of the myocardium`: `myocardial infarction`, `myocardium infarction`, ...;
    `Carcinoma, Hepatocellular`: `hepatocellular carcinoma`, ...; `IL-6`: `il6`, `il 6`;
    `leukaemias`: `leukemias`, `leukaemia`, `leukemia`. They are guesses: nothing says that anyone
    writes them so, or that they mean nothing else.
    """
    first = " ".join(term.lower().split())
    found = {first: None}
    edge = [first]
    for _ in range(ROUNDS):
        edge = [new for old in edge for new in _one_step(old) if new not in found]
        edge = list(dict.fromkeys(edge))
        found.update(dict.fromkeys(edge))
        if len(found) > MOST:
            break
    return tuple(found)[1 : MOST + 1]


def compact(term: str) -> str:
    """Return a term without hyphens and spaces, Greek letters as words: `TGF-β 1` is tgfbeta1.

    Two terms that are equal so are one written in two ways, nearly always.
    """
    spelt = "".join(_GREEK.get(character, character) for character in term_key(term))
    return spelt.replace("-", "").replace(" ", "")


def with_variants(lexicon: Lexicon) -> Lexicon:
    """Return the lexicon with variants of all names as further aliases.

    A variant that any entity has as its own term, that two entities would share, or that has up to
    three characters (it would be matched in one case alone) is left out.
    """
    own = {term_key(name) for e in lexicon.entities for name in (e.name, *e.aliases)}
    wanted: dict[str, list[str]] = {}
    owner: dict[str, str] = {}
    for entity in lexicon.entities:
        for name in lexicon.names_of(entity.id):
            if len(name) <= SHORT:
                continue
            for variant in variants(name):
                key = term_key(variant)
                if key in own or len(variant) <= SHORT:
                    continue
                if owner.setdefault(key, entity.id) == entity.id:
                    wanted.setdefault(entity.id, []).append(variant)
                else:
                    owner[key] = ""  # shared: nobody's
    return Lexicon(
        tuple(
            replace(entity, aliases=(*entity.aliases, *_kept(wanted[entity.id], owner, entity.id)))
            if entity.id in wanted
            else entity
            for entity in lexicon.entities
        )
    )


def _kept(found: list[str], owner: dict[str, str], entity_id: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in found if owner[term_key(name)] == entity_id))


def _one_step(term: str) -> Iterator[str]:
    for family in _FAMILIES:
        yield from family(term)


def _spelling(term: str) -> Iterator[str]:
    for rules in (_AMERICAN, _BRITISH):
        spelt = term
        for pattern, new in rules:
            spelt = pattern.sub(new, spelt)
        yield spelt


def _order(term: str) -> Iterator[str]:
    """`infarction of myocardium` and `infarction, myocardial` as `myocardial infarction`."""
    if match := _INVERTED.fullmatch(term):
        yield f"{match['rest']} {match['head']}"
    if match := _OF.fullmatch(term):
        head, rest = match["head"], match["rest"]
        if adjective := _ADJECTIVES.get(rest):
            yield f"{adjective} {head}"
        yield f"{rest} {head}"
    first, space, rest = term.partition(" ")
    for words in (_NOUNS, _ADJECTIVES):
        if space and first in words:
            yield f"{words[first]} {rest}"


def _hyphens(term: str) -> Iterator[str]:
    if "-" in term:
        yield _JOINT.sub(" ", term)
        yield _JOINT.sub("", term)
    if _SPLIT_NUMBER.search(term):
        for joint in ("-", " ", ""):
            yield _SPLIT_NUMBER.sub(joint, term)


def _plural(term: str) -> Iterator[str]:
    """Put the last word in the other number; Latin and Greek plurals are left alone."""
    if len(term) <= SHORT or not term[-1].isalpha():
        return
    if term.endswith("ies"):
        yield f"{term[:-3]}y"
    elif term.endswith(("sses", "xes", "ches", "shes")):
        yield term[:-2]
    elif term.endswith("s") and not _NO_PLURAL.search(term):
        yield term[:-1]
    elif term.endswith("y") and term[-2] not in "aeiou":
        yield f"{term[:-1]}ies"
    elif term.endswith("x"):
        yield f"{term}es"
    elif not term.endswith("s") and not _NO_PLURAL.search(term):
        yield f"{term}s"


def _greek(term: str) -> Iterator[str]:
    if not term.isascii():
        yield "".join(_GREEK.get(character, character) for character in term)
    yield _GREEK_WORD.sub(lambda match: _LETTER[match.group()], term)


# A tuple of functions in order of nearness.
_FAMILIES: Final[tuple[Callable[[str], Iterator[str]], ...]] = (
    _order,
    _hyphens,
    _plural,
    _spelling,
    _greek,
)
