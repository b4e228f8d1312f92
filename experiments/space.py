"""The space of a sweep: which parameters move, how far, and under which conditions.

A YAML file names dotted paths of the configuration:

    name: mine
    parameters:
      merge.method: {choices: [minmax, rrf]}
      merge.rrf_k: {low: 1.0, high: 200.0, log: true, when: {merge.method: rrf}}
      inject.min_new: {low: 0, high: 10}
      merge.weights.dense: {low: 0.0, high: 1.0, complement: merge.weights.bm25}
      route.parent_doc_retrieval: switch

Whole numbers make an integer range, others a float range. `when` names values of other parameters
(a list of alternatives where any may hold). `complement` is a second path that is given 1 minus the
value. Braces stand for several paths: `a.{b,c}.d`.
"""

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from experiments.sweep.parameter import Condition, Parameter, label
from experiments.sweep.space_faults import Sink, SpaceFault, fault_of, refuse
from experiments.sweep.space_file import read_parameters
from retriever import InputError, RetrieverConfig

__all__ = ["SPACES", "Space", "load_space", "space_from"]

SPACES = ("default",)


@dataclass(frozen=True)
class Space:
    """A checked space: parameters stand after those their conditions name.

    `per_workflow` is the path below which a parameter touches the queries of one workflow alone.
    """

    name: str
    parameters: tuple[Parameter, ...]
    per_workflow: str | None = None
    per_workflow_line: int | None = field(default=None, compare=False)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON of the parameters, in hexadecimal."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the space as a file says it; `load_space` of that gives an equal one."""
        said: dict[str, Any] = {"name": self.name}
        if self.per_workflow:
            said["per_workflow"] = self.per_workflow
        return {**said, "parameters": {p.path: p.to_json() for p in self.parameters}}

    def __getitem__(self, path: str) -> Parameter:
        for parameter in self.parameters:
            if parameter.path == path:
                return parameter
        raise KeyError(path)

    def workflow_of(self, parameter: Parameter) -> str | None:
        """Return the workflow whose queries alone a parameter touches; None for shared ones."""
        if self.per_workflow and parameter.path.startswith(f"{self.per_workflow}."):
            return parameter.path[len(self.per_workflow) + 1 :].partition(".")[0]
        return None

    def is_active(self, parameter: Parameter, values: Mapping[str, Any]) -> bool:
        """Tell whether a parameter is read under the values of those before it."""
        return not parameter.when or any(
            all(values.get(path) in allowed for path, allowed in one.items())
            for one in parameter.when
        )

    def overrides(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the overrides that a trial's stored values stand for."""
        found: dict[str, Any] = {}
        for parameter in self.parameters:
            if parameter.path in stored:
                value = parameter.value_of(stored[parameter.path])
                found[parameter.path] = value
                if parameter.complement:
                    found[parameter.complement] = 1.0 - value
        return found

    def at(self, base: RetrieverConfig) -> dict[str, Any]:
        """Return what a study stores for a configuration, active parameters alone."""
        values, stored = dict(_values(base, self)), {}
        for parameter in self.parameters:
            if self.is_active(parameter, values):
                stored[parameter.path] = parameter.nearest(values[parameter.path])
        return stored

    def outside(self, base: RetrieverConfig) -> dict[str, Any]:
        """Return the values of a configuration that lie outside their parameter's range."""
        values = _values(base, self)
        return {
            p.path: values[p.path]
            for p in self.parameters
            if p.nearest(values[p.path]) != label(values[p.path])
        }

    def active_values(self, base: RetrieverConfig) -> dict[str, Any]:
        """Return the values that conditions are read against, before any trial's own."""
        return dict(_values(base, self))

    def without(self, paths: Sequence[str]) -> "Space":
        """Return the space less some parameters."""
        return replace(self, parameters=tuple(p for p in self.parameters if p.path not in paths))

    def under(self, path: str, when: tuple[Condition, ...]) -> "Space":
        """Return the space with other conditions for one parameter."""
        changed = (replace(p, when=when) if p.path == path else p for p in self.parameters)
        return replace(self, parameters=_ordered(tuple(changed), self.name))

    def check(self, base: RetrieverConfig, source: object = None, sink: Sink = refuse) -> None:
        """Tell `sink` what the configuration does not have, and which bounds it refuses.

        By default the first fault is raised, an InputError naming file, line and remedy.
        """
        source = source or self.name
        for parameter in self.parameters:
            errors = [*self._faulty_conditions(parameter, base)]
            if errors:  # without its conditions only what a value is by itself can be judged
                alone = replace(parameter, when=())
                of_values = self._faulty_values(alone, base)
                errors += [one for one in of_values if str(one).startswith(parameter.path)]
            else:
                errors = [*self._faulty_values(parameter, base)]
            for error in {str(error): error for error in errors}.values():
                sink(fault_of(error, source, parameter.line))
        above = f"{self.per_workflow}."
        if self.per_workflow is not None and not any(
            f"{path}.".startswith(above) for path in _values(base, self)
        ):
            error = InputError(
                f"per_workflow names {self.per_workflow!r}, which the configuration does not have",
                fix="assay config show lists what it has",
            )
            sink(fault_of(error, source, self.per_workflow_line))

    def _faulty_values(self, parameter: Parameter, base: RetrieverConfig) -> Iterator[InputError]:
        path = parameter.path
        if any(known.startswith(f"{path}.") for known in base.flattened()):
            yield InputError(f"{path} holds several values", fix="name one of them")
            return
        settled = dict(self._condition_of(parameter))
        for value in parameter.samples():
            tried = {**settled, path: value}
            if parameter.complement:
                tried[parameter.complement] = 1.0 - value
            try:
                found = base.with_overrides(tried).flattened()
            except InputError as error:
                if parameter.kind == "float" and "integer" in str(error):
                    fix = "write low, high and step as whole numbers"
                    yield InputError(f"{path} takes whole numbers, not {value}", fix=fix)
                    return
                yield error
                continue
            read = found.get(path)
            if isinstance(value, bool) and isinstance(read, int | float) and read is not value:
                yield InputError(f"{path} is no switch", fix="give low and high, or choices")
            elif read != value and not isinstance(value, list):
                yield InputError(f"{path}: {value!r} is read as {read!r}", fix="write it so")

    def _faulty_conditions(
        self, parameter: Parameter, base: RetrieverConfig
    ) -> Iterator[InputError]:
        known = _values(base, self)
        for path, allowed in (item for one in parameter.when for item in one.items()):
            if path not in known:
                near = difflib.get_close_matches(path, known, n=1, cutoff=0.5)
                yield InputError(
                    f"{parameter.path}: when names {path}, which is no parameter",
                    fix=f"did you mean {near[0]}?" if near else "assay config show lists them",
                )
            other = next((p for p in self.parameters if p.path == path), None)
            for value in allowed:
                if other is not None and not other.takes(value):
                    yield InputError(
                        f"{parameter.path}: {path} is never {value!r}",
                        fix="name values that it takes in this space",
                    )

    def _condition_of(self, parameter: Parameter) -> dict[str, Any]:
        """Return values under which a parameter is read: its first condition's, and theirs."""
        settled: dict[str, Any] = {}
        for one in parameter.when[:1]:
            for path, allowed in one.items():
                inner = next((p for p in self.parameters if p.path == path), None)
                if inner is not None:
                    settled |= self._condition_of(inner)
                settled[path] = allowed[0]
        return settled


def load_space(source: str | Path, sink: Sink = refuse) -> Space:
    """Read a space from a YAML file or by the name of one that ships.

    Raises InputError naming file, line and remedy. With a `sink` of its own only what cannot be
    read at all is raised: every other fault goes there, and what has one is left out.
    """
    if str(source) in SPACES and not Path(source).is_file():
        text = (resources.files("experiments.spaces") / f"{source}.yaml").read_text("utf-8")
        return space_from(text, str(source), sink)
    path = Path(source)
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror}",
            path=path,
            fix=f"give a YAML file or a space that ships: {', '.join(SPACES)}",
        ) from error
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8", path=path, fix="re-save as UTF-8") from error
    return space_from(text, path, sink)


def space_from(text: str, source: object, sink: Sink = refuse) -> Space:
    """Read a space from YAML; see `load_space`."""
    found = read_parameters(text, source, sink)
    ordered = _ordered(found.parameters, source, sink)
    return Space(found.name, ordered, found.per_workflow, found.per_workflow_line)


def _ordered(
    parameters: tuple[Parameter, ...], source: object, sink: Sink = refuse
) -> tuple[Parameter, ...]:
    """Return parameters after those that their conditions name, else in their order.

    Those that depend on themselves are left out.
    """
    by_path = {parameter.path: parameter for parameter in parameters}
    placed: dict[str, Parameter] = {}
    circular: set[str] = set()

    def place(parameter: Parameter, above: tuple[str, ...]) -> None:
        if parameter.path in placed:
            return
        if parameter.path in above:
            circular.update(above[above.index(parameter.path) :])
            message = f"{parameter.path} depends on itself by its conditions"
            sink(SpaceFault(str(source), parameter.line, message, "take one `when` out"))
            return
        for one in parameter.when:
            for path in one:
                if path in by_path:
                    place(by_path[path], (*above, parameter.path))
        placed[parameter.path] = parameter

    for parameter in parameters:
        place(parameter, ())
    return tuple(parameter for path, parameter in placed.items() if path not in circular)


def _values(base: RetrieverConfig, space: Space) -> dict[str, Any]:
    """Every leaf of a configuration, and the place of a weight that it does not name."""
    values = base.flattened()
    for parameter in space.parameters:
        if parameter.path not in values:
            one = values.get(parameter.path, 1.0)
            if parameter.complement:
                other = values.get(parameter.complement, 1.0)
                one = one / (one + other) if one + other else 0.5
            values[parameter.path] = one
        elif parameter.complement:
            one, other = values[parameter.path], values.get(parameter.complement, 1.0)
            values[parameter.path] = one / (one + other) if one + other else 0.5
    return values
