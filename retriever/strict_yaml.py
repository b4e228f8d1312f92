"""YAML as it is read here: no tags, no aliases, no key twice, and every fault with its line."""

from typing import Any

import yaml

from retriever.files import InputError

__all__ = ["load_yaml", "read_yaml"]


class _UniqueKeyLoader(yaml.SafeLoader):
    """Safe YAML in which the same key twice is an error and aliases are refused."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            alias = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem="aliases (*name) are not read here", problem_mark=alias.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(
                    problem=f"key {key!r} is not text", problem_mark=key_node.start_mark
                )
            if key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"key {key!r} stands twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def load_yaml(text: str, source: object) -> Any:
    """Read any value; raises InputError with `source` and the line of the first fault."""
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - a SafeLoader, stricter
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise InputError(f"not YAML: {error.problem}", path=source, line=line) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(f"not YAML: {str(error).splitlines()[0]}", path=source) from error


def read_yaml(text: str, source: object) -> dict[str, Any]:
    """Read a mapping; an empty text is an empty one. Raises InputError as `load_yaml` does."""
    values = load_yaml(text, source)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InputError("expected keys and values", path=source, fix="merge: {rrf_k: 20}")
    return values
