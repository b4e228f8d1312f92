"""Headings: which part of an article or a drug label each stretch of a text belongs to.

Names are those of the parts themselves, so that a cue such as `indications_and_usage` or
`warnings` finds them: structured abstracts and articles by IMRaD, labels by the headings of US
prescribing information (21 CFR 201.56 and 201.57) and of the European summary of product
characteristics.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

__all__ = ["Section", "known_section", "section_name", "split_sections"]


@dataclass(frozen=True)
class Section:
    """A stretch of a text, `text[start:end]` in characters, its heading included.

    `name` is "" before the first heading. A heading that announces two parts ("Methods and
    results") gives both names, in order, with a space between.
    """

    name: str
    start: int
    end: int


_ALIASES = {
    "abstract": "abstract, summary",
    "introduction": """introduction, background, context, rationale, importance, objective,
        objectives, study objective, aim, aims, purpose, hypothesis""",
    "methods": """methods, method, methodology, materials, material, patients, subjects,
        participants, study participants, setting, settings, design, study design, study selection,
        data sources, data source, data extraction, interventions, intervention, measurements,
        main outcome measure, main outcome measures, main outcomes, measures, experimental design,
        statistical analysis""",
    "results": "results, result, main results, findings, principal findings, data synthesis",
    "discussion": "discussion",
    "conclusion": """conclusion, conclusions, interpretation, relevance, significance,
        implications""",
    "references": "references, bibliography",
    "acknowledgements": "acknowledgements, acknowledgments, acknowledgement, acknowledgment",
    "funding": "funding",
    "trial_registration": "trial registration, clinical trial registration",
    "boxed_warning": "boxed warning, boxed warnings",
    "indications_and_usage": """indications and usage, indications, indication, usage,
        therapeutic indications""",
    "dosage": """dosage and administration, dosage, dosing, posology,
        posology and method of administration""",
    "dosage_forms_and_strengths": "dosage forms and strengths",
    "contraindications": "contraindications, contraindication",
    "warnings": """warnings and precautions, warnings, warning,
        special warnings and precautions for use""",
    "precautions": "precautions",
    "adverse_reactions": """adverse reactions, adverse reaction, adverse events, side effects,
        undesirable effects""",
    "drug_interactions": """drug interactions, drug interaction, interactions,
        interaction with other medicinal products and other forms of interaction""",
    "use_in_specific_populations": "use in specific populations",
    "pregnancy": "pregnancy, fertility pregnancy and lactation",
    "pediatric_use": "pediatric use, paediatric use",
    "geriatric_use": "geriatric use",
    "drug_abuse_and_dependence": "drug abuse and dependence",
    "overdosage": "overdosage, overdose",
    "description": "description",
    "clinical_pharmacology": "clinical pharmacology",
    "mechanism_of_action": "mechanism of action",
    "pharmacodynamics": "pharmacodynamics, pharmacodynamic properties",
    "pharmacokinetics": "pharmacokinetics, pharmacokinetic properties",
    "nonclinical_toxicology": "nonclinical toxicology, preclinical safety data",
    "clinical_studies": "clinical studies",
    "how_supplied": "how supplied, how supplied storage and handling",
    "patient_counseling_information": "patient counseling information",
}
_NAMES = {
    " ".join(alias.split()): name
    for name, aliases in _ALIASES.items()
    for alias in aliases.split(",")
}

_ABSTRACT_PARTS = {
    *("abstract", "introduction", "methods", "results", "discussion", "conclusion"),
    *("funding", "trial_registration"),
}

_WORDS = re.compile(r"[^\W_]+")
# What stands before the words of a heading: "5", "5.1", "II.", "B)".
_NUMBERED = re.compile(r"(\d{1,2}(?:\.\d{1,2}){0,3}|(?:[IVX]{1,5}|[A-Z])(?=[.)]))[.)]?[ \t]+(?=\S)")
_MARKDOWN = re.compile(r" {0,3}(#{1,6})[ \t]+(.+)")
_JOIN = re.compile(r"\s*(?:,\s*(?i:and)\b|[,/&]|\b(?i:and)\b)\s*")
_LONGEST_LINE = 80
# What a heading in capitals does not hold, but table rows, structures and names of genes do.
_NO_WORDS = re.compile(r"[\d=#@|\[\]]")
# One word in capitals that is a nucleotide sequence or a SMILES string, not a heading.
_CODE = re.compile(r"[ACGTUN]+|[BCFHINOPS]+")


def _alternatives(names: Iterable[str]) -> str:
    one = "|".join(r"[\s,/]+".join(name.split()) for name in sorted(names, key=len, reverse=True))
    return rf"(?:{one})(?:{_JOIN.pattern}(?:{one}))*"


_RUN_IN = re.compile(
    r"(?:(?P<line>^)[ \t]*|(?:(?<=[.!?]\s)|(?<=[.!?][)\]\"']\s))\s*)"
    r"(?P<heading>(?:(?P<number>\d{1,2}(?:\.\d{1,2})*)\.?\s+)?"
    rf"(?:(?P<colon>(?i:{_alternatives(_NAMES)}))\s?:(?=\s)"
    rf"|(?P<capitals>{_alternatives(map(str.upper, _NAMES))})"
    # Before one of these the capitals are those of a sentence, "WARNINGS SHOULD BE READ".
    r"(?=\s+[A-Z0-9(\[])(?!\s+(?:AND|ARE|BY|FOR|FROM|IN|IS|MAY|OF|ON|OR|SHOULD|TO|WAS|WERE|WITH)\b)"
    r"))",
    re.MULTILINE,
)


@dataclass(frozen=True)
class _Heading:
    """`name` is None where the words are not known; `depth` is that of Markdown, else 0."""

    start: int
    name: str | None
    slug: str
    number: str = ""
    depth: int = 0

    def contains(self, other: "_Heading") -> bool:
        """Whether `other` heads a part of what this one heads: 5.1 in 5, ### below ##."""
        if self.number and other.number.startswith(f"{self.number}."):
            return True
        return 0 < self.depth < other.depth


def section_name(heading: str) -> str:
    """Return the normalised name of a heading; one that is not known gives its words.

    "5.1 Warnings & Precautions:" gives `warnings`, "Study sites" gives `study_sites`.
    """
    return known_section(heading) or _slug(_without_number(heading.strip())[1])


def known_section(heading: str) -> str | None:
    """Return the normalised name of a heading that is known, None for any other."""
    return _known_name(_without_number(heading.strip())[1])


def split_sections(text: str) -> list[Section]:
    """Split `text` at its headings into sections that cover it without gaps, in order.

    A heading is a Markdown heading; a line of its own that is a known heading, in any case,
    numbered or not; a short line in capitals; or a known heading at the start of a line or a
    sentence that a colon ends ("Methods: ") or that is in capitals ("RESULTS We found"), as
    structured abstracts have it. One that is not known and stands below a known one (5.1 in 5, ###
    below ##) belongs to it. Neighbours of one name are one section; a text without headings is
    one section named "".
    """
    above: list[_Heading] = []
    starts = [(0, "")]
    for heading in sorted(_headings(text), key=lambda heading: heading.start):
        while above and not above[-1].contains(heading):
            above.pop()
        inherited = above[-1].name if above else None
        named = heading if heading.name or not inherited else replace(heading, name=inherited)
        above.append(named)
        starts.append((heading.start, named.name or named.slug))
    if len(starts) > 1 and not text[: starts[1][0]].strip():
        starts[:2] = [(0, starts[1][1])]
    kept = [at for i, at in enumerate(starts) if i == 0 or at[1] != starts[i - 1][1]]
    ends = [start for start, _ in kept[1:]] + [len(text)]
    return [Section(name, start, end) for (start, name), end in zip(kept, ends, strict=True)]


def _headings(text: str) -> Iterator[_Heading]:
    """Yield the headings of `text`, one a place."""
    places: set[int] = set()
    start = 0
    for line in text.split("\n"):
        heading = _line_heading(line, start)
        if heading:
            places.add(start)
            yield heading
        start += len(line) + 1
    for match in _RUN_IN.finditer(text):
        start = match.start("heading")
        words = match["colon"] or match["capitals"]
        name = _known_name(words) or ""
        # Within a line "Side effects: " opens a list more often than a section of a label.
        doubtful = not (
            words.isupper() or (words[0].isupper() and {*name.split()} <= _ABSTRACT_PARTS)
        )
        if text.rfind("\n", 0, start) + 1 in places or (match["line"] is None and doubtful):
            continue
        yield _Heading(start, name, _slug(words), match["number"] or "")


def _line_heading(line: str, start: int) -> _Heading | None:
    """Return the heading that `line`, which starts at `start`, is as a whole."""
    markdown = _MARKDOWN.match(line)
    if not markdown and len(line) > _LONGEST_LINE:
        return None
    number, words = _without_number(markdown[2] if markdown else line.strip())
    name, slug = _known_name(words), _slug(words)
    is_heading = (name and not words.endswith(tuple(".,;!?"))) or _is_capitals(words)
    if not slug or not (markdown or is_heading):
        return None
    return _Heading(start, name, slug, number, len(markdown[1]) if markdown else 0)


def _without_number(heading: str) -> tuple[str, str]:
    """Return the number of a heading, "" for none, and the words after it."""
    numbered = _NUMBERED.match(heading)
    return (numbered[1], heading[numbered.end() :]) if numbered else ("", heading)


def _is_capitals(line: str) -> bool:
    """Whether a line that is no known heading reads as one: a few words, all in capitals."""
    words = re.findall(r"[^\W\d_]+", line)
    if not words or not line.isupper() or line.endswith(tuple(".,;!?")):
        return False
    if _NO_WORDS.search(line):
        return False
    longest = max(map(len, words))
    return (
        len(words) <= 10
        and 5 <= longest <= 20
        and not (len(words) == 1 and _CODE.fullmatch(words[0]))
    )


def _known_name(words: str) -> str | None:
    """Return the name of a known heading, or of each part of "Methods and results".

    "WARNING: LACTIC ACIDOSIS", as labels have it, counts by what precedes the colon.
    """
    whole = _NAMES.get(_normal(words))
    if whole:
        return whole
    if words.isupper() and ":" in words:
        return _known_name(words.partition(":")[0])
    names = [_NAMES.get(_normal(part)) for part in _JOIN.split(words)]
    return " ".join(dict.fromkeys(name for name in names if name)) if all(names) else None


def _normal(words: str) -> str:
    return " ".join(_WORDS.findall(words.casefold().replace("&", " and ")))


def _slug(words: str) -> str:
    return "_".join(_WORDS.findall(words.casefold()))
