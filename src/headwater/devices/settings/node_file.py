"""NODE.toml: read, checked, and every mistake named in the file's own words."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from headwater.devices.settings import NodeSettings
from headwater.errors import InputError

Model = TypeVar("Model", bound=BaseModel)


def read(path: Path) -> NodeSettings:
    """The settings in a file, with all paths made absolute from its folder."""
    if path.is_dir():
        raise InputError(f"{path}: this is a folder; give a NODE.toml")
    if not path.exists():
        raise InputError(f"{path}: there is no such file; give a NODE.toml")
    try:
        content = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: this is not TOML: {error}") from None
    try:
        settings = NodeSettings.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{path}: " + "; ".join(_mistakes(error, content))) from None
    return _absolute(settings, path.resolve().parent)


def _mistakes(error: ValidationError, content: dict[str, Any]) -> Iterator[str]:
    for mistake in error.errors(include_url=False):
        named = mistake["type"] in ("missing", "extra_forbidden")
        place = _place(mistake["loc"], content, named)
        value = mistake.get("input")
        shown = f"; got {value!r:.80}" if isinstance(value, str | int | float | bool) else ""
        yield f"{place}: {_words(mistake, value)}{shown}"


def _words(mistake: ErrorDetails, value: object) -> str:
    """What is wrong and what is allowed, where pydantic speaks of its own matters."""
    if mistake["type"] == "extra_forbidden":
        near = get_close_matches(str(mistake["loc"][-1]), sorted(_names(NodeSettings)), 1)
        return "there is no such setting" + (f"; did you mean {near[0]}?" if near else "")
    if mistake["type"] == "union_tag_invalid":
        return f"kind is one of {mistake['ctx']['expected_tags']}; got {mistake['ctx']['tag']!r}"
    if mistake["type"] == "union_tag_not_found" and isinstance(value, dict):
        return "kind is missing"
    return mistake["msg"].removeprefix("Value error, ")


def _names(table: type[BaseModel]) -> set[str]:
    """All settings' names, those of the tables in it too."""
    found = set(table.model_fields)
    for field in table.model_fields.values():
        for part in (field.annotation, *_parts(field.annotation)):
            if isinstance(part, type) and issubclass(part, BaseModel):
                found |= _names(part)
    return found


def _parts(annotation: Any) -> Iterator[Any]:
    """The types that a type is made of."""
    for part in get_args(annotation):
        yield part
        yield from _parts(part)


def _place(location: tuple[int | str, ...], content: Any, named: bool) -> str:
    """The setting's name as in the file: pydantic's path without the names of alternatives."""
    parts = []
    for part in location:
        known = isinstance(content, dict) and part in content
        if isinstance(content, list) and isinstance(part, int) and part < len(content):
            content, known = content[part], True
        elif known:
            content = content[part]
        # what the file does not have is an alternative's name, or at the end a missing key's
        if known or (named and part == location[-1]):
            parts.append(str(part))
    return ".".join(parts) or "settings"


def _absolute(settings: Model, folder: Path) -> Model:
    """All paths in the settings, made absolute."""
    changed: dict[str, Any] = {}
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, Path) and str(value) != "-":
            changed[name] = folder / value
        elif isinstance(value, BaseModel):
            changed[name] = _absolute(value, folder)
    return settings.model_copy(update=changed)
