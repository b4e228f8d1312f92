"""The plugins' own sections of the configuration, each checked by the model its plugin supplies."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, PlainSerializer, ValidationError, ValidationInfo

__all__ = ["PluginSections"]


def _sections(values: Any, info: ValidationInfo) -> Any:
    """Give every installed plugin its section, from what is said of it or from its defaults."""
    from retriever.plugins import installed

    if not isinstance(values, Mapping):
        raise ValueError("expected a section a plugin")  # noqa: TRY004 - pydantic reports it
    known = installed()
    for name in values:
        if name not in known:
            raise ValueError(f"no plugin {name!r} is installed; known: {', '.join(known)}")
    return MappingProxyType(
        {
            name: _section_of(name, p.config_model, values.get(name, {}), info.context)
            for name, p in known.items()
        }
    )


def _section_of(name: str, model: type[BaseModel], value: Any, context: Any) -> BaseModel:
    """Check one plugin's section; its faults are placed below the plugin's name."""
    if isinstance(value, model):
        return value
    try:
        return model.model_validate(value, context=context)
    except ValidationError as error:
        lines: list[Any] = error.errors(include_url=False)
        placed = [{**line, "loc": (name, *line["loc"])} for line in lines]
        raise ValidationError.from_exception_data(error.title, placed) from error  # type: ignore[arg-type]


# Sections by plugin name, one for every plugin that is installed.
PluginSections = Annotated[
    Mapping[str, Any],
    BeforeValidator(_sections),
    PlainSerializer(lambda parts: {name: p.model_dump(mode="json") for name, p in parts.items()}),
]
