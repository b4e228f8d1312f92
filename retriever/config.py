"""Every tunable in one frozen tree: a section a stage, read from YAML and written back to it.

A stage is handed its own section and nothing else, and the section's fingerprint is part of the
key under which the stage's result is remembered.
"""

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from retriever.files import InputError
from retriever.plugin_sections import PluginSections
from retriever.strict_yaml import load_yaml, read_yaml

__all__ = [
    "PRESETS",
    "ConfigPath",
    "Record",
    "RetrieverConfig",
    "Section",
    "difference",
    "load_config",
    "parse_sets",
]

PRESETS = ("default", "seed")

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
Depth = Annotated[int, Field(ge=1, le=100_000)]
K = TypeVar("K")
V = TypeVar("V")
# A mapping that cannot be changed in place, since results are remembered by its content.
Frozen = Annotated[Mapping[K, V], AfterValidator(MappingProxyType), PlainSerializer(dict)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")]
ListName = Annotated[str, Field(pattern=r"^([A-Za-z0-9_.-]+:)?(dense|bm25)$")]


def _beside(path: Path, info: ValidationInfo) -> Path:
    """Return a path made absolute from the folder of the file it stands in, else from here."""
    folder: Path = (info.context or {}).get("folder", Path())
    return (folder / path).absolute()


# A relative path in a file means beside that file, wherever the command is run.
ConfigPath = Annotated[Path, AfterValidator(_beside)]


class Record(BaseModel):
    """Frozen data read from a file; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class Section(Record):
    """A part of the configuration."""

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON of this part's values, in hexadecimal.

        Worked out once an object: every stage of every search asks for it.
        """
        return _digest(self.model_dump(mode="json"))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy, the fingerprint left out: the copy may hold other values."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("fingerprint", None)
        return copied


class ChunkConfig(Section):
    """How documents are cut. `max_tokens: null` keeps each document whole, as one chunk."""

    max_tokens: Annotated[int, Field(ge=16)] | None = 256
    overlap: Annotated[int, Field(ge=0)] = 32

    @model_validator(mode="after")
    def _overlap_fits(self) -> Self:
        if self.max_tokens is not None and self.overlap > self.max_tokens // 2:
            raise ValueError("overlap must be at most half of max_tokens")
        return self


class BM25Config(Section):
    """The lexical index: tokens and the two constants of the formula."""

    tokenizer: Literal["biomedical", "plain", "whitespace"] = "biomedical"
    k1: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] = 1.5
    b: Share = 0.75
    idf: Literal["lucene", "robertson"] = "lucene"


class IndexConfig(Section):
    """What belongs to an index: changing any of it builds another index."""

    chunk: ChunkConfig = Field(default_factory=ChunkConfig)
    bm25: BM25Config = Field(default_factory=BM25Config)


class RouteConfig(Section):
    """Which collections a query searches, in which ways, and how many hits of each count.

    `parent_doc_retrieval` appends neighbours of a dense list's first hits; never for a query with
    an entity.
    """

    recall_top_k: Depth = 100
    recall_top_k_by_collection: Frozen[Name, Depth] = Field(default_factory=dict)
    dense_search: bool = True
    bm25_search: bool = True
    exploratory_search_collections: tuple[Name, ...] = ()
    parent_doc_retrieval: bool = False

    @model_validator(mode="after")
    def _searches_something(self) -> Self:
        if not (self.dense_search or self.bm25_search):
            raise ValueError("dense_search and bm25_search are both off: nothing would be searched")
        return self


class RecallConfig(Section):
    """How deep every list is searched; the lists are then cut, so depth costs no new search."""

    search_depth: Depth = 200


class FuseConfig(Section):
    """How a dense list takes words into account: combined = alpha dense + (1 - alpha) sparse.

    Only in `hybrid_text_collections`, and only where the query has no BM25 list on the collection
    (both would count words twice), unless `fuse_with_bm25_plan`.
    """

    alpha: Share = 0.6
    sparse_method: Literal["overlap", "bm25"] = "overlap"
    hybrid_text_collections: tuple[Name, ...] = ("eagle_text_biomed", "eagle_text_medcpt")
    fuse_with_bm25_plan: bool = False


class RerankPlanConfig(Section):
    """Tier 1, on the lists that a plugin names.

    `replace` orders by the cosine of the raw query, `blend` by w dense + (1 - w) combined, `off`
    leaves the order; null is what the model set says. The entity filter is the plugin's and stays
    whatever the mode.
    """

    mode: Literal["replace", "blend", "off"] | None = None
    w: Share = 0.5

    @field_validator("mode", mode="before")
    @classmethod
    def _off_is_a_word(cls, mode: Any) -> Any:
        return "off" if mode is False else mode  # YAML reads a bare off as false


class InjectConfig(Section):
    """How many chunks of the supplement are brought to the top when the pool lacks them.

    The pool is the first `rerank_pool` text hits: what tier 2 scores.
    """

    min_new: Annotated[int, Field(ge=0, le=1000)] = 2
    rerank_pool: Depth = 100


class RerankMergedConfig(Section):
    """Tier 2. `rerank_policy: null` means the domain's where a plugin has one, else general."""

    rerank_policy: Literal["domain", "general", "none"] | None = None


class MergeConfig(Section):
    """How the lists become one.

    `weights` names a list (`eagle_text:dense`) or a search (`dense`, `bm25`); what is not named
    weighs 1. A list of weight 0 is left out.

    `minmax_over` says over what scores are brought to [0, 1]: each list alone, or all lists of one
    model (of one encoder, or BM25) together, as if their collections were one. Alone, the best of
    a small collection scores as much as the best of a large one (docs/results.md).
    """

    method: Literal["minmax", "rrf"] = "minmax"
    minmax_over: Literal["list", "model"] = "model"
    rrf_k: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)] = 60
    rrf_key: Literal["source_chunk_id", "node_id"] = "source_chunk_id"
    weights: Frozen[ListName, Weight] = Field(default_factory=dict)


class TrimConfig(Section):
    """How much of the final ranking a search shows.

    Images follow the text hits, but for `image_slots` of those shown.
    """

    final_top_k: Depth = 5
    image_slots: Annotated[int, Field(ge=0, le=100_000)] = 0

    @model_validator(mode="after")
    def _slots_fit(self) -> Self:
        if self.image_slots > self.final_top_k:
            raise ValueError("image_slots must be at most final_top_k")
        return self


class EvaluationConfig(Section):
    """How a run is scored. No stage reads it.

    `relevant_from: null` takes what the gold set says (1 where it says nothing). A query passes by
    its first `cutoff` results; one that brings its own `k` by those.
    """

    split: Name = "test"
    depth: Depth = 100
    cutoff: Depth = 5
    metrics: tuple[str, ...] = (
        "hit@5",
        "mrr@10",
        "ndcg@10",
        "recall@100",
        "map@100",
        "judged@10",
        "coverage@5",
    )
    relevant_from: Annotated[int, Field(ge=1)] | None = None
    resamples: Annotated[int, Field(ge=100, le=1_000_000)] = 10_000
    seed: Annotated[int, Field(ge=0)] = 0


class RetrieverConfig(Section):
    """The whole tree. Immutable; `with_overrides` makes another."""

    namespace: Name = "biomed"
    models: str = "embedded"
    index: IndexConfig = Field(default_factory=IndexConfig)
    route: RouteConfig = Field(default_factory=RouteConfig)
    recall: RecallConfig = Field(default_factory=RecallConfig)
    fuse: FuseConfig = Field(default_factory=FuseConfig)
    rerank_plan: RerankPlanConfig = Field(default_factory=RerankPlanConfig)
    merge: MergeConfig = Field(default_factory=MergeConfig)
    inject: InjectConfig = Field(default_factory=InjectConfig)
    rerank_merged: RerankMergedConfig = Field(default_factory=RerankMergedConfig)
    trim: TrimConfig = Field(default_factory=TrimConfig)
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig)
    plugins: PluginSections = Field(default_factory=dict, validate_default=True)

    @field_validator("namespace")
    @classmethod
    def _namespace_is_known(cls, namespace: str) -> str:
        from retriever.plugins import namespaces

        if namespace not in namespaces():
            raise ValueError(f"no plugin serves it; known: {', '.join(namespaces())}")
        return namespace

    @model_validator(mode="after")
    def _something_is_ranked(self) -> Self:
        searched = [("dense", self.route.dense_search), ("bm25", self.route.bm25_search)]
        weights = [self.merge.weights.get(name, 1) for name, on in searched if on]
        named = [weight for name, weight in self.merge.weights.items() if ":" in name]
        if not any(weights) and not any(named):
            raise ValueError(
                "merge.weights gives 0 to every search that is on: nothing would be ranked"
            )
        return self

    @model_validator(mode="after")
    def _search_is_deep_enough(self) -> Self:
        deepest = max([self.route.recall_top_k, *self.route.recall_top_k_by_collection.values()])
        if deepest > self.recall.search_depth:
            raise ValueError(
                f"recall.search_depth is {self.recall.search_depth}, less than the largest "
                f"recall_top_k {deepest}: raise it to at least that"
            )
        return self

    def with_overrides(self, overrides: Mapping[str, Any]) -> "RetrieverConfig":
        """Return this configuration with dotted paths replaced, `{"merge.rrf_k": 20}`.

        Sections that no path touches are the same objects, checked once. Raises InputError for an
        unknown path or a value out of range.
        """
        values = _shallow(self)
        for path, value in overrides.items():
            _set_at(values, path, value)
        return _parse(values, source=None)

    def flattened(self) -> dict[str, Any]:
        """Every leaf by its dotted path, in the order of the tree."""
        return dict(_leaves(self.model_dump(mode="json")))

    def to_yaml(self) -> str:
        """Return the whole tree as YAML that `load_config` reads back to an equal one."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def load_config(source: str | Path | None = None, sets: Sequence[str] = ()) -> RetrieverConfig:
    """Read a configuration from a YAML file or by a preset's name, then apply `key=value` sets.

    A file says only what differs from the default preset; `preset: NAME` in it starts elsewhere.
    Paths in a file are relative to its folder, others to the current one; they are kept absolute.
    Raises InputError naming the file, the key and the nearest known one.
    """
    name = "default" if source is None else str(source)
    if name in PRESETS and not Path(name).is_file():
        text = (resources.files("retriever.presets") / f"{name}.yaml").read_text("utf-8")
        base = RetrieverConfig().model_dump(mode="json")
        config = _parse(_merged(base, read_yaml(text, name), name), source=name)
    else:
        path = Path(name)
        try:
            text = path.read_text("utf-8-sig")
        except OSError as error:
            raise InputError(
                f"cannot be read: {error.strerror}",
                path=path,
                fix=f"give a YAML file or a preset: {', '.join(PRESETS)}",
            ) from error
        except UnicodeDecodeError as error:
            raise InputError("not UTF-8", path=path, fix="re-save as UTF-8") from error
        values = read_yaml(text, path)
        preset = load_config(_preset_name(values.pop("preset", "default"), path))
        merged = _merged(preset.model_dump(mode="json"), values, path)
        config = _parse(merged, source=path, folder=path.parent)
    return config.with_overrides(parse_sets(sets)) if sets else config


def parse_sets(sets: Sequence[str]) -> dict[str, Any]:
    """Read `key=value` texts, the values as YAML, into overrides by dotted path."""
    overrides: dict[str, Any] = {}
    for item in sets:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--set {item!r} is not key=value", fix="--set merge.rrf_k=20")
        overrides[key.strip()] = _scalar(value, item)
    return overrides


def difference(one: RetrieverConfig, other: RetrieverConfig) -> dict[str, tuple[Any, Any]]:
    """Leaves that differ: path -> (value in one, value in other); None where absent.

    An empty mapping is no leaf where the other side has leaves below it: those are shown.
    """
    a, b = one.flattened(), other.flattened()
    paths = [*a, *(path for path in b if path not in a)]
    filled = {path.rpartition(".")[0] for path in paths}
    return {p: (a.get(p), b.get(p)) for p in paths if a.get(p) != b.get(p) and p not in filled}


def _preset_name(value: object, path: Path) -> str:
    if value not in PRESETS:
        raise InputError(
            f"preset {value!r} is unknown", path=path, fix=f"one of {', '.join(PRESETS)}"
        )
    return str(value)


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _scalar(text: str, item: str) -> Any:
    return load_yaml(text, f"--set {item}") if text.strip() else text


def _merged(base: dict[str, Any], values: dict[str, Any], source: object) -> dict[str, Any]:
    """Lay `values` over `base`; a mapping whose keys are data (weights) is replaced whole."""
    result = dict(base)
    for key, value in values.items():
        below = result.get(key)
        if isinstance(below, dict) and below and isinstance(value, dict) and not _is_data(key):
            result[key] = _merged(below, value, source)
        else:
            result[key] = value
    return result


def _is_data(key: str) -> bool:
    return key in ("weights", "recall_top_k_by_collection")


def _set_at(values: dict[str, Any], path: str, value: Any) -> None:
    keys, at = path.split("."), values
    for depth, key in enumerate(keys):
        is_new_leaf = depth == len(keys) - 1 and depth > 0 and _is_data(keys[depth - 1])
        if key not in at and not is_new_leaf:
            raise _unknown(".".join(keys[: depth + 1]), [*keys[:depth]], at, source=None)
        if depth == len(keys) - 1:
            at[key] = value
            return
        below = at[key]
        if not isinstance(below, BaseModel | Mapping):
            raise InputError(
                f"{'.'.join(keys[: depth + 1])} is a value and has no {keys[depth + 1]!r} below it"
            )
        if not isinstance(below, _Opened):
            below = at[key] = _shallow(below)
        at = below


class _Opened(dict[str, Any]):
    """A copy of a section's fields that overrides may write to."""


def _shallow(values: BaseModel | Mapping[str, Any]) -> _Opened:
    """Return a section's fields, those below it as they are."""
    if isinstance(values, BaseModel):
        held = vars(values)
        return _Opened({name: held[name] for name in type(values).model_fields})
    return _Opened(values)


def _unknown(
    path: str, above: Sequence[str], known: Mapping[str, Any], source: object
) -> InputError:
    near = difflib.get_close_matches(path.rpartition(".")[2], list(known), n=1, cutoff=0.5)
    if near:
        fix = f"did you mean {'.'.join([*above, near[0]])}?"
    else:
        everything = dict(_leaves(RetrieverConfig().model_dump(mode="json")))
        leaf = path.rpartition(".")[2]
        same = [known_path for known_path in everything if known_path.rpartition(".")[2] == leaf]
        here = f"known here: {', '.join(known)}" if known else "nothing stands below it"
        fix = f"did you mean {same[0]}?" if same else here
    return InputError(f"{path} is no parameter", path=source, fix=fix)


def _parse(
    values: Mapping[str, Any], source: object, folder: Path | None = None
) -> RetrieverConfig:
    try:
        return RetrieverConfig.model_validate(values, context={"folder": folder or Path()})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = [str(part) for part in first["loc"]]
        if first["type"] == "extra_forbidden":
            known: Any = RetrieverConfig().model_dump(mode="json")
            for part in where[:-1]:
                known = known.get(part, {}) if isinstance(known, dict) else {}
            raise _unknown(".".join(where), where[:-1], known, source) from error
        if where and where[-1] == "[key]":
            fix = "write dense, bm25, COLLECTION:dense or COLLECTION:bm25"
            raise InputError(
                f"{'.'.join(where[:-2])}: {where[-2]!r} is no name",
                path=source,
                fix=fix if where[-3] == "weights" else "letters, digits, _ . and - make a name",
            ) from error
        message = first["msg"].removeprefix("Value error, ")
        place = ".".join(where)
        given = "" if isinstance(first["input"], dict) else f", not {first['input']!r}"
        raise InputError(f"{place}: {message}{given}" if place else message, path=source) from error


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
