"""What decides a result, as a short name: equal for equal things, in every process.

A stored result may only come back for the settings, data, model and functions that it came from.
So everything that decides it is hashed: all bytes of arrays and tensors, a module's structure,
parameters, buffers and hooks, and of a function its code, its defaults, what it closes over and the
globals that it uses. Code of installed packages is known by its name and version, code of one's own
by its instructions. What can be told from nothing else, such as a lock or an open file, raises an
:class:`UnidentifiedError`.
"""

from __future__ import annotations

import dis
import functools
import importlib.metadata
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from pathlib import Path, PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwater.errors import InputError
from headwater.learning.stored import Rows, Stored

_ATOMS = (type(None), bool, int, float, complex, str, bytes, type(...), range, PurePath)
_TORCH_ATOMS = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_PIECE = 1 << 24  # bytes of a tensor that are brought into one piece at a time
# of a module; they change no result
_PASSING = {"_compiled_call_impl", "_is_full_backward_hook", "_flat_weight_refs"}


class UnidentifiedError(InputError):
    """Something decides a result and cannot be told from anything else of its kind."""


def digest(*things: object, unknown: str | None = None) -> str:
    """A name of 32 hexadecimal digits for all that is given.

    Args:
        things: numbers, words, arrays, tensors, containers, dataclasses, functions, classes,
            modules, or objects made of these.
        unknown: stands for whatever cannot be identified; None: refuse it.

    Raises:
        UnidentifiedError: where it is, and what it is.

    >>> digest([1, 2]) == digest([1, 2]), digest([1, 2]) == digest([1, 2.0])
    (True, False)
    >>> def scaled(by):
    ...     return lambda x: by * x
    >>> digest(scaled(2)) == digest(scaled(2)), digest(scaled(2)) == digest(scaled(3))
    (True, False)
    """
    return _Identifier(unknown).of(things).hex()


def versions() -> dict[str, str]:
    """What computes: the same settings may give other bits with other versions."""
    from headwater import __version__

    return {
        "headwater": __version__,
        "torch": str(torch.__version__),
        "python": ".".join(platform.python_version_tuple()[:2]),
    }


class _Identifier:
    """One pass over things that refer to each other, perhaps in circles."""

    def __init__(self, unknown: str | None) -> None:
        self._unknown = unknown
        # The things are kept beside their hashes: an id is given again once its owner is gone.
        self._known: dict[int, tuple[bytes, object]] = {}
        self._open: list[int] = []
        self._path: list[str] = []

    def of(self, thing: object, name: str = "") -> bytes:
        """The hash of a thing; within a circle, how far back the circle closes."""
        if isinstance(thing, _ATOMS):
            return _hash(type(thing).__name__, repr(thing).encode())
        if id(thing) in self._known:
            return self._known[id(thing)][0]
        if id(thing) in self._open:
            return _hash("circle", str(len(self._open) - self._open.index(id(thing))).encode())
        self._open.append(id(thing))
        self._path.append(name)
        found = self._compose(thing)
        self._path.pop()
        self._open.pop()
        self._known[id(thing)] = found, thing
        return found

    def _all(self, kind: str, things: Iterable[tuple[str, object]]) -> bytes:
        """The hash of named parts, in their order."""
        parts = (_hash(name, self.of(thing, name)) for name, thing in things)
        return _hash(kind, *parts)

    def _compose(self, thing: object) -> bytes:
        """The hash of something that is made of other things."""
        if isinstance(thing, Tensor):
            return self._tensor(thing)
        if isinstance(thing, Stored):
            return _stored(thing)
        if isinstance(thing, np.ndarray | np.generic):
            return self._array(np.asarray(thing))
        if isinstance(thing, Mapping):
            return self._all(
                "mapping", [(self.of(key).hex(), value) for key, value in thing.items()]
            )
        if isinstance(thing, set | frozenset):
            return _hash("set", *sorted(self.of(item) for item in thing))
        if isinstance(thing, tuple | list):
            return self._all(type(thing).__name__, ((str(k), item) for k, item in enumerate(thing)))
        return self._code(thing) or self._object(thing)

    def _code(self, thing: object) -> bytes | None:
        """The hash of something that computes, or None."""
        if isinstance(thing, FunctionType):
            return self._function(thing)
        if isinstance(thing, CodeType):
            return self._instructions(thing)
        if isinstance(thing, MethodType):
            return self._all("method", [("self", thing.__self__), ("function", thing.__func__)])
        if isinstance(thing, functools.partial):
            parts = [("function", thing.func), ("arguments", thing.args), ("names", thing.keywords)]
            return self._all("partial", parts)
        if isinstance(thing, staticmethod | classmethod):
            return self._all(type(thing).__name__, [("function", thing.__func__)])
        if isinstance(thing, property):
            return self._all("property", [("get", thing.fget)])
        if isinstance(thing, type):
            return self._class(thing)
        if isinstance(thing, ModuleType):
            return _hash("module", (_package(thing.__name__) or thing.__name__).encode())
        if isinstance(thing, BuiltinFunctionType):
            return _hash("builtin", f"{thing.__module__}.{thing.__qualname__}".encode())
        return None

    def _object(self, thing: object) -> bytes:
        """The hash of an instance: its class and its state."""
        kind = ("class", type(thing))
        if isinstance(thing, _TORCH_ATOMS):
            return _hash(type(thing).__name__, repr(thing).encode())
        if isinstance(thing, nn.Module):
            return self._all("nn.Module", [kind, *_module_state(thing)])
        if is_dataclass(thing):
            state = [(f.name, getattr(thing, f.name)) for f in fields(thing)]
            return self._all("dataclass", [kind, *state])
        try:
            # What would be written down to make it again; nothing is pickled.
            reduced = thing.__reduce_ex__(4)
        except Exception:
            return self._unidentified(thing)
        if isinstance(reduced, str):
            return _hash("global", f"{type(thing).__module__}.{reduced}".encode())
        parts = [list(part) if isinstance(part, Iterator) else part for part in reduced]
        return self._all("object", [kind, *((str(k), part) for k, part in enumerate(parts))])

    def _unidentified(self, thing: object) -> bytes:
        kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
        if self._unknown is None:
            place = " → ".join(name for name in self._path if name) or "it"
            raise UnidentifiedError(f"{place}: a {kind} cannot be told from another one")
        return _hash("unknown", kind.encode(), self._unknown.encode())

    def _function(self, function: FunctionType) -> bytes:
        """Code, defaults, what it closes over, and the globals that it uses."""
        package = _package(function.__module__)
        name = function.__qualname__
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        parts: list[tuple[str, object]] = [(name, _contents(cell)) for name, cell in cells]
        parts += [("defaults", function.__defaults__), ("keywords", function.__kwdefaults__)]
        # All lambdas of a module have one name, so theirs says nothing.
        if package is None or "<lambda>" in name:
            parts += [("code", function.__code__), *_globals_of(function)]
        return self._all("function", [("name", f"{package} {name}" if package else ""), *parts])

    def _instructions(self, code: CodeType) -> bytes:
        """What is executed; not where it stands in which file."""
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
        parts = {"code": code.co_code, "names": names, "counts": counts, "const": code.co_consts}
        return self._all("code", parts.items())

    def _class(self, kind: type) -> bytes:
        """An installed class by its name and version, one's own by all that is defined in it."""
        package = _package(kind.__module__)
        name = f"{package or ''} {kind.__qualname__}"
        if package is not None:
            return _hash("class", name.encode())
        bases = [("base", base) for base in kind.__bases__]
        return self._all("class", [("name", name), *bases, *_defined_in(kind)])

    def _tensor(self, tensor: Tensor) -> bytes:
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
            return self._unidentified(tensor)
        head = f"{tensor.dtype} {tuple(tensor.shape)} {tensor.requires_grad}"
        return _hash("tensor", head.encode(), _bytes_of(tensor.detach().cpu()))

    def _array(self, array: NDArray[np.generic]) -> bytes:
        if array.dtype.hasobject:
            return self._all("objects", [("shape", array.shape), ("items", array.tolist())])
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return _hash("array", f"{array.dtype.str} {array.shape}".encode(), content.data)


def _hash(kind: str, *parts: bytes | memoryview) -> bytes:
    """Each part with its length before it, so that no two lists of parts look the same."""
    # SHA-256 is in the processor: 1 GB takes 0.6 s here, BLAKE2 twice as long.
    total = sha256()
    for part in (kind.encode(), *parts):
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.digest()[:16]


@functools.lru_cache(maxsize=16)
def _stored(rows: Stored) -> bytes:
    """As that of a tensor with these rows; they are never written to, so it is made once."""
    return _hash("tensor", f"{rows.dtype} {tuple(rows.shape)} False".encode(), _bytes_of(rows))


def _bytes_of(values: Rows) -> bytes:
    """The hash of all values; what lies in another order, or otherwise, is turned in pieces."""
    total = sha256()
    rows = values.reshape(1) if isinstance(values, Tensor) and values.ndim == 0 else values
    whole = isinstance(rows, Tensor) and rows.is_contiguous()
    step = len(rows) if whole else max(1, _PIECE // max(1, rows[:1].nbytes))
    for start in range(0, len(rows), max(1, step)):
        piece = rows[start : start + step].resolve_conj().resolve_neg().contiguous()
        if piece.numel():
            total.update(piece.cpu().view(-1).view(torch.uint8).numpy().data)
    return total.digest()


def _module_state(module: nn.Module) -> Iterator[tuple[str, object]]:
    """All that an instance holds: parameters, buffers, parts, hooks, training flag, settings."""
    for name, value in sorted(vars(module).items()):
        if name in _PASSING:
            continue
        # Hooks are numbered as they were made, in the whole process: only their order counts.
        hooks = "_hooks" in name and isinstance(value, dict)
        yield name, list(value.values()) if hooks else value


def _defined_in(kind: type) -> Iterator[tuple[str, object]]:
    """Methods and attributes of a class; not those that Python or a decorator has written."""
    for name, value in sorted(vars(kind).items()):
        special = name.startswith("__") and name.endswith("__")
        written = isinstance(value, FunctionType) and value.__code__.co_filename != "<string>"
        if written or not (special or name == "_abc_impl"):
            yield name, value


def _globals_of(function: FunctionType) -> Iterator[tuple[str, object]]:
    """The globals that a function uses; of a module of one's own, the names that it may use."""
    around = function.__globals__
    for name, code in sorted(_global_names(function.__code__).items()):
        value = around.get(name, f"built in: {name}")
        yield name, value
        if isinstance(value, ModuleType) and _package(value.__name__) is None:
            yield from ((n, getattr(value, n)) for n in code if hasattr(value, n))


def _global_names(code: CodeType) -> dict[str, tuple[str, ...]]:
    """Names of globals in the code and in the functions within, each with the names around it."""
    loads = (i for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    found = {str(i.argval): code.co_names for i in loads}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            for name, names in _global_names(inner).items():
                found[name] = (*found.get(name, ()), *names)
    return found


def _contents(cell: object) -> object:
    try:
        return cell.cell_contents  # type: ignore[attr-defined]
    except ValueError:  # a name that is bound later, or never
        return "empty"


@functools.cache
def _package(module: str | None) -> str | None:
    """An installed package and its version, as in "torch 2.13.0"; None for code of one's own."""
    top = (module or "").partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return f"{module}, python {versions()['python']}"
    if top in ("headwater", "torch"):
        return f"{module} {versions()[top]}"
    file = getattr(sys.modules.get(top), "__file__", None)
    if file is None or not {"site-packages", "dist-packages"} & set(Path(file).parts):
        return None
    version = getattr(sys.modules[top], "__version__", None) or _installed_version(top)
    return f"{module} {version}"


def _installed_version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"
