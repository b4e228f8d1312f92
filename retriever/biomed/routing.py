"""Which collections a biomedical query searches."""

from collections.abc import Sequence

from retriever.biomed.config import BiomedRouteConfig
from retriever.biomed.facts import Facts
from retriever.hooks import Catalog, Classification
from retriever.images import ImageFile

__all__ = [
    "BIOMEDICAL_TEXT",
    "CHEMICAL",
    "GENERAL_TEXT",
    "MEDCPT_TEXT",
    "PATHOLOGY",
    "RADIOLOGY",
    "VISUAL",
    "Router",
]

GENERAL_TEXT = "eagle_text"
BIOMEDICAL_TEXT = "eagle_text_biomed"
MEDCPT_TEXT = "eagle_text_medcpt"
CHEMICAL = "eagle_chemical"
RADIOLOGY = "eagle_medical_radiology"
PATHOLOGY = "eagle_medical_pathology"
VISUAL = "eagle_visual"


class Router:
    """The specification's order of plans, under one set of switches and over one index."""

    def __init__(self, part: BiomedRouteConfig, catalog: Catalog) -> None:
        self._part = part
        self._holds_structures = CHEMICAL in catalog.collections
        dual = part.default_dual_text_search
        if dual == "auto":
            dual = catalog.holds_alone(GENERAL_TEXT, (BIOMEDICAL_TEXT, MEDCPT_TEXT))
        self._texts: tuple[str, ...] = (BIOMEDICAL_TEXT,)
        if part.medcpt_dual_search:
            self._texts += (MEDCPT_TEXT,)
        if dual:
            self._texts += (GENERAL_TEXT,)

    def route(
        self, facts: Sequence[Facts], images: Sequence[ImageFile | None]
    ) -> list[Classification]:
        """Return the collections of each query, in order, and what to note."""
        return [
            self._route(of_query, image is not None)
            for of_query, image in zip(facts, images, strict=True)
        ]

    def _route(self, facts: Facts, has_image: bool) -> Classification:
        part, intent = self._part, facts.intent
        planned: list[str] = []
        events: list[str] = []
        if intent.workflow == "chemical":
            planned.append(CHEMICAL)
            if part.chemical_searches_text:
                planned += self._texts
            elif not facts.structures or not self._holds_structures:
                planned += self._texts
                events.append("route_added_text")
        else:
            planned += self._texts
            if part.mode != "text" and part.drug_hits_search_chemical and facts.boost_drugs:
                planned.append(CHEMICAL)
        if part.mode != "text":
            if facts.radiology:
                planned.append(RADIOLOGY)
            if facts.pathology and has_image:  # its encoder has no text tower
                planned.append(PATHOLOGY)
            combined = intent.workflow == "combination" and bool(intent.drugs)
            if has_image or part.mode == "visual" or combined:
                planned.append(VISUAL)
        return Classification(tuple(planned), tuple(events), visual=part.mode == "visual")
