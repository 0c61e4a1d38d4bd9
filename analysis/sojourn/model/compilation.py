"""Functions compiled to machine code on their first call, cached between runs where a cache folder exists.

numba is loaded by that call, not before: a module of compiled functions is imported in no time, also without numba.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from sojourn.model.extras import needed_for, spec_of

_LOCK = threading.RLock()
_LITTLE = 50_000  # steps of a loop: the interpreter takes less time for them than numba to load, 0.3 s
_is_little: ContextVar[bool] = ContextVar("_is_little", default=False)
_CACHE, _SHARED = "__pycache__", "sojourn-shared"  # where numba keeps machine code, and the mark that it is shared


class CompiledFunction:
    """A function that numba compiles on its first call.

    Attributes:
        interpreted: whether the interpreter runs it where numba is not installed.
        options: how numba compiles it.
    """

    def __init__(self, function: Callable[..., Any], *, interpreted: bool = False, **options: Any) -> None:
        functools.update_wrapper(self, function)
        self.interpreted, self.options = interpreted, options

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function, or the plain one for ``little`` work."""
        if self.interpreted and _is_little.get():
            return self.__wrapped__(*arguments)  # type: ignore[attr-defined]
        return self.dispatcher(*arguments)

    @functools.cached_property
    def dispatcher(self) -> Any:
        """The compiled function as numba has it, or the plain one.

        Raises:
            SojournError: numba is not installed, and the function is not one that may be interpreted.
        """
        function: Callable[..., Any] = self.__wrapped__  # type: ignore[attr-defined]
        if self.interpreted and not is_compilation_installed():
            return function
        with _LOCK, needed_for("this analysis"):
            if "dispatcher" in self.__dict__:
                return self.__dict__["dispatcher"]
            dispatcher = _compiled(function, **self.options)
        if _announcers and not _is_cached(dispatcher):
            _announcers.pop()()
        return dispatcher


_announcers: list[Callable[[], None]] = []


def announce_compilation(announce: Callable[[], None]) -> None:
    """Set what is called, once, before the first function is compiled: nothing is heard of it for seconds."""
    _announcers[:] = [announce]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``function`` with numba on its first call, and cache it next to its file or in the user's cache folder.

    Where neither can be written (a read-only image without a home), every process compiles it again.
    """
    return CompiledFunction(function)


def compiled_if_installed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile like ``compiled``; where numba is not installed, the interpreter runs the function.

    That is a hundred times slower: the caller bounds the work.
    """
    return CompiledFunction(function, interpreted=True)


@contextlib.contextmanager
def little(steps: int) -> Iterator[None]:
    """Let the interpreter run functions of ``compiled_if_installed``, if few steps are not worth loading numba."""
    token = _is_little.set(steps <= _LITTLE and not _numba.cache_info().currsize)
    try:
        yield
    finally:
        _is_little.reset(token)


def compiled_part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile like ``compiled``, a function that only compiled functions call and that creates no array or view.

    Without the way in from Python it compiles faster. Without counted references (numba's ``_nrt``) a call costs what
    it should: it would count those of every array of every tuple that is handed over, atomically.
    """
    return CompiledFunction(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)


def compiled_inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile like ``compiled_part``, a function whose code is repeated where it is called: a call costs more."""
    return CompiledFunction(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False, forceinline=True)


def is_compilation_installed() -> bool:
    """Return whether the extra ``compiled`` is installed, without loading it: if not, a compiled function raises."""
    return spec_of("numba") is not None


def is_cached(function: Callable[..., Any]) -> bool:
    """Return whether the machine code of a function of ``compiled`` exists, from this process or an earlier one.

    Raises:
        SojournError: numba is not installed.
    """
    assert isinstance(function, CompiledFunction)  # noqa: S101 - what ``compiled`` returns
    return _is_cached(function.dispatcher)


def _is_cached(dispatcher: Any) -> bool:
    if dispatcher.signatures:
        return True
    path = dispatcher.stats.cache_path
    return path is not None and any(_indexes(dispatcher.py_func, Path(path)))


@functools.cache
def _numba() -> Any:
    """Return numba, able to call a ``CompiledFunction`` from compiled code."""
    import numba  # noqa: PLC0415 - takes its time to load
    from numba.extending import typeof_impl  # noqa: PLC0415

    @typeof_impl.register(CompiledFunction)
    def type_of(function: CompiledFunction, context: Any) -> Any:
        return typeof_impl(function.dispatcher, context)

    return numba


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Return the compiled function, cached if possible."""
    numba = _numba()
    try:
        compiled = numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # numba has no writable cache folder
        return numba.njit(nogil=True, **options)(function)
    cache = Path(compiled.stats.cache_path)
    _forget_outdated(function, cache)
    _take_shared(function, cache)
    return compiled


def share_compiled(package: Path) -> None:
    """Let those who cannot write beside the modules of a package take the machine code that is kept there.

    It is marked with a digest of the sources it is of, folder by folder.
    """
    for folder in {index.parent for index in package.rglob(f"{_CACHE}/*.nbi")}:
        (folder / _SHARED).write_text(_digest(folder.parent), encoding="ascii")


def _take_shared(function: Callable[..., Any], cache: Path) -> None:
    """Copy the shared machine code of a function to where it is kept for this user, unless there is some."""
    shared = Path(function.__code__.co_filename).parent / _CACHE
    if shared == cache or not (shared / _SHARED).is_file() or any(_indexes(function, cache)):
        return
    with contextlib.suppress(OSError):
        if (shared / _SHARED).read_text(encoding="ascii") == _digest(shared.parent):
            # Data first: an index names them.
            for file in sorted(shared.glob(f"{_name(function)}.*.nb[ci]")):
                shutil.copyfile(file, cache / file.name)


def _digest(folder: Path) -> str:
    """Return a digest of the modules of a folder."""
    import hashlib  # noqa: PLC0415 - takes 3 ms to load

    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.py")):
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _forget_outdated(function: Callable[..., Any], cache: Path) -> None:
    """Remove a function's cached machine code from before the last change to a file of its folder.

    numba looks at the function's own file alone, while the machine code holds the functions called from it, too.
    """
    with contextlib.suppress(OSError):
        # An installed package may keep the dates of its build; the change time is that of the installation.
        statuses = [file.stat() for file in Path(function.__code__.co_filename).parent.glob("*.py")]
        changed = max(max(file.st_mtime, file.st_ctime) for file in statuses)
        for index in _indexes(function, cache):
            if index.stat().st_mtime < changed:
                index.unlink()


def _indexes(function: Callable[..., Any], cache: Path) -> Iterator[Path]:
    """Return the index files of numba for the cached machine code of a function."""
    return cache.glob(f"{_name(function)}.*.nbi")


def _name(function: Callable[..., Any]) -> str:
    """Return how the names of the files of a function's machine code begin, as a pattern."""
    return f"*.{function.__qualname__}-{function.__code__.co_firstlineno}"
