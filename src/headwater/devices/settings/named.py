"""A Python object by its name, ``module:name``, as settings files write it."""

from __future__ import annotations

import importlib
from typing import Any

from headwater.errors import InputError


def load(name: str, setting: str) -> Any:
    """The object that a setting names.

    Args:
        name: "module:name"; the name may have dots.
        setting: what names it, for the error.

    >>> load("math:floor", "model.make")(1.5)
    1
    """
    module_name, colon, path = name.partition(":")
    if not (colon and module_name and path):
        raise InputError(f"{setting}: a name such as 'package.module:name'; got {name!r}")
    try:
        thing = importlib.import_module(module_name)
        for part in path.split("."):
            thing = getattr(thing, part)
    except ImportError as error:
        raise InputError(f"{setting}: cannot import {name!r} ({error})") from error
    except AttributeError:
        raise InputError(f"{setting}: module {module_name!r} has no {path!r}") from None
    except Exception as error:  # whatever a user's own module raises while it is imported
        what = f"{type(error).__name__}: {error}"
        raise InputError(f"{setting}: importing {module_name} fails ({what})") from error
    return thing
