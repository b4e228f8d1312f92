"""What a sweep is, as its study keeps it: enough for a worker anywhere to take part."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from importlib import metadata
from typing import TYPE_CHECKING, Any

from experiments.space import Space
from experiments.sweep.inert import Screening
from experiments.sweep.parameter import Parameter
from retriever import InputError, RetrieverConfig

if TYPE_CHECKING:
    from optuna import Study

__all__ = ["StudyPlan", "code_version", "refuse_mismatch"]

ATTRIBUTE = "assay"


@dataclass(frozen=True)
class StudyPlan:
    """All that a trial depends on.

    `config` is the whole base configuration; `asked` the digest of the space as it was asked for,
    `space` the one that is swept after the inert parameters have gone. `query_ids` are the queries
    that are tuned on. `max_drop`: how far the worst query type may fall below the default. `split`
    is the split of the gold set. `profiles` says whether rows of weights are tuned
    each for itself, after `shared_trials` trials of the others.
    `inert` and `deviation` are what the screening found (`experiments.sweep.inert`).
    """

    study: str
    config: Mapping[str, Any]
    asked: str
    space: Mapping[str, Any]
    objectives: tuple[str, ...]
    sampler: str
    seed: int
    gold: str
    split: str
    index: str
    code: str
    query_ids: tuple[str, ...]
    max_drop: float | None = None
    profiles: bool = False
    shared_trials: int = 0
    inert: Mapping[str, str] = field(default_factory=dict)
    deviation: float | None = None

    @property
    def base(self) -> RetrieverConfig:
        """The configuration that the first trial has and all others change."""
        return RetrieverConfig.model_validate(dict(self.config))

    def parameters(self) -> Space:
        """Return the space that is swept."""
        said = dict(self.space)
        parameters = tuple(
            Parameter(
                path=path,
                kind=one["kind"],
                low=one["low"],
                high=one["high"],
                log=one["log"],
                step=one["step"],
                choices=tuple(one["choices"]),
                when=tuple({k: tuple(v) for k, v in c.items()} for c in one["when"]),
                complement=one["complement"],
            )
            for path, one in said["parameters"]
        )
        return Space(said["name"], parameters, said["per_workflow"])

    def identity(self) -> dict[str, str]:
        """Return what must be equal for a study to be resumed, by a name to say it by."""
        return {
            "objective": ", ".join(self.objectives),
            "space": self.asked[:16],
            "configuration": _digest(self.config)[:16],
            "gold set": f"{self.gold[:16]} {self.split}",
            "index": self.index[:16],
            "code": self.code,
            "sampler": self.sampler,
            "seed": str(self.seed),
            "queries tuned on": f"{len(self.query_ids)}: {_digest(self.query_ids)[:16]}",
            "max drop": str(self.max_drop),
            "per profile": str(self.profiles),
        }

    def kept_on(self, study: "Study") -> None:
        """Write the plan on a study."""
        study.set_user_attr(ATTRIBUTE, json.dumps(asdict(self)))

    @staticmethod
    def is_on(study: "Study") -> bool:
        """Tell whether a study has a plan."""
        return ATTRIBUTE in study.user_attrs

    @classmethod
    def of(cls, study: "Study") -> "StudyPlan":
        """Read the plan of a study. Raises InputError for a study that is none of ours."""
        text = study.user_attrs.get(ATTRIBUTE)
        if text is None:
            raise InputError(
                f"the study {study.study_name} was not made by assay sweep", fix="name another"
            )
        said = json.loads(text)
        said.pop("conditional", None)  # of an earlier version; the spaces say it themselves
        said |= {name: tuple(said[name]) for name in ("objectives", "query_ids")}
        return cls(**said)

    def screened(self, found: Screening) -> "StudyPlan":
        """Return the plan with the space that is left after the screening."""
        return replace(
            self,
            space=space_record(found.space),
            inert={one.path: one.reason for one in found.inert},
            deviation=found.deviation,
        )


def space_record(space: Space) -> dict[str, Any]:
    """Return a space as a plan keeps it, in its order."""
    return {
        "name": space.name,
        "per_workflow": space.per_workflow,
        "parameters": [
            (
                p.path,
                {
                    "kind": p.kind,
                    "low": p.low,
                    "high": p.high,
                    "log": p.log,
                    "step": p.step,
                    "choices": list(p.choices),
                    "when": [{k: list(v) for k, v in one.items()} for one in p.when],
                    "complement": p.complement,
                },
            )
            for p in space.parameters
        ],
    }


def refuse_mismatch(wanted: StudyPlan, kept: StudyPlan) -> None:
    """Refuse to go on with a study that was made of something else. Raises InputError."""
    one, other = kept.identity(), wanted.identity()
    differs = [
        f"{name}: {one[name]}, now {other[name]}" for name in one if one[name] != other[name]
    ]
    if differs:
        raise InputError(
            f"the study {kept.study} was made otherwise ({'; '.join(differs)})",
            fix="name a new one with --study",
        )


def code_version(base: RetrieverConfig) -> str:
    """Return the version of what turns a configuration into figures."""
    from retriever.batch_run import VERSION
    from retriever.plugins import Subscribers

    plugins = Subscribers.of(base.namespace, dict(base.plugins)).identity
    package = metadata.version("retrieval-assay")
    return f"{package} pipeline {VERSION} plugins {_digest(plugins)[:12]}"


def _digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
