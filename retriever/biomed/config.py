"""The biomedical plugin's settings, a part a stage; mounted at `plugins.biomed`."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from retriever.biomed.domain import DomainConfig
from retriever.config import ConfigPath, Name, Section

__all__ = ["PROFILES", "BiomedConfig", "LexiconConfig", "LinkingConfig", "ProfileWeights"]

Weight = Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]


class LexiconConfig(Section):
    """Which lexicon, and the overlays that add, change or remove its records. null: the bundled.

    `variants` adds generated spellings of every name: plurals, British and American, word order.
    """

    path: ConfigPath | None = None
    overlays: tuple[ConfigPath, ...] = ()
    variants: bool = False


class LinkingConfig(Section):
    """Entity linking: how many candidates, below which similarity a mention is NIL.

    `cross_encoder` is the policy whose model of the model set ranks the candidates; null: none.
    """

    candidates: Annotated[int, Field(ge=1, le=1000)] = 50
    nil_below: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.7
    cross_encoder: Literal["domain", "general"] | None = None


class IngestConfig(DomainConfig):
    """Which collections a document enters. Biomedical text may enter the general one, too."""

    biomedical_also_general: bool = False
    biomedical_also_medcpt: bool = False


class BiomedRouteConfig(Section):
    """The switches of routing.

    `default_dual_text_search: auto` searches the general text collection where it holds documents
    that no biomedical collection holds. `radiology_words` and `pathology_words` say that a query
    asks for images of that kind, and what an image shows by its caption and path.
    """

    default_dual_text_search: Literal["auto"] | bool = "auto"
    medcpt_dual_search: bool = False
    chemical_searches_text: bool = True
    drug_hits_search_chemical: bool = True
    mode: Literal["text", "hybrid", "visual"] = "hybrid"
    radiology_words: tuple[str, ...] = (
        "x-ray",
        "radiograph",
        "radiography",
        "CT",
        "CT scan",
        "MRI",
        "ultrasound",
        "mammogram",
        "mammography",
        "PET scan",
        "PET-CT",
    )
    pathology_words: tuple[str, ...] = (
        "histology",
        "histopathology",
        "biopsy",
        "biopsies",
        "H&E",
        "hematoxylin",
        "haematoxylin",
        "immunohistochemistry",
        "whole-slide",
        "whole slide",
        "cytology",
        "photomicrograph",
    )


class ExpandConfig(Section):
    """For which collections the dense text gets the suffix of entities.

    None by default: with the embedded model it cost nDCG on both sets it was measured on
    (docs/results.md).
    """

    expand_collections: tuple[Name, ...] = ()
    terms: Annotated[int, Field(ge=0, le=100)] = 12


class EntityFilterConfig(Section):
    """Tier 1 keeps only chunks of the query's drugs, where the intent asks for them.

    Off by default: it cost nDCG on both sets it was measured on (docs/results.md).
    """

    entity_filter: bool = False


class SupplementConfig(Section):
    """The search of documents that a query's drugs name."""

    enabled: bool = True
    related_drugs: Annotated[int, Field(ge=0, le=100)] = 4


class ProfileWeights(Section):
    """One row of tier-2 weights."""

    w_ce: Weight
    w_rank: Weight
    w_entity: Weight
    w_section: Weight
    w_xdrug_penalty: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


def _row(ce: float, rank: float, entity: float, section: float, xdrug: float) -> ProfileWeights:
    return ProfileWeights(
        w_ce=ce, w_rank=rank, w_entity=entity, w_section=section, w_xdrug_penalty=xdrug
    )


PROFILES: Mapping[str, ProfileWeights] = {
    "default": _row(0.50, 3.0, 0.25, 0.15, 2.0),
    "regulatory": _row(0.30, 3.0, 0.20, 0.35, 2.5),
    "drug_entity": _row(0.35, 3.0, 0.35, 0.10, 3.0),
    "chemical": _row(0.25, 3.0, 0.40, 0.10, 3.0),
    "combination": _row(0.35, 3.0, 0.35, 0.10, 2.5),
}


class ProfilesConfig(Section):
    """Rows of weights by workflow; `general` takes `default`."""

    default: ProfileWeights = PROFILES["default"]
    regulatory: ProfileWeights = PROFILES["regulatory"]
    drug_entity: ProfileWeights = PROFILES["drug_entity"]
    chemical: ProfileWeights = PROFILES["chemical"]
    combination: ProfileWeights = PROFILES["combination"]


class ScoringConfig(Section):
    """Tier 2. `chemical_floor` scales the structure's cosine by the weights, or takes it bare."""

    profiles: ProfilesConfig = Field(default_factory=ProfilesConfig)
    chemical_floor: Literal["weighted", "bare"] = "weighted"


class BiomedConfig(Section):
    """Everything the plugin can be told."""

    lexicon: LexiconConfig = Field(default_factory=LexiconConfig)
    ingest: IngestConfig = Field(default_factory=IngestConfig)
    route: BiomedRouteConfig = Field(default_factory=BiomedRouteConfig)
    expand: ExpandConfig = Field(default_factory=ExpandConfig)
    rerank_plan: EntityFilterConfig = Field(default_factory=EntityFilterConfig)
    supplement: SupplementConfig = Field(default_factory=SupplementConfig)
    rerank_merged: ScoringConfig = Field(default_factory=ScoringConfig)
    linking: LinkingConfig = Field(default_factory=LinkingConfig)
