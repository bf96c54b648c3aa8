"""A shim between SQLite and the disk that strikes before the n-th change of a file.

It is a VFS of SQLite's own kind, registered in the very library that this interpreter's `sqlite3`
uses, so the store under test is the real one. A *change* is a write, a sync, a truncation or a
deletion, of the database and of whatever SQLite keeps beside it. What was changed before stays:
this is a process that dies, or a disk that fills, not a power cut.
"""

from __future__ import annotations

import _sqlite3
import ctypes
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from typing import Any, ClassVar, Final, TypeAlias

FULL: Final = 13
"""What SQLite calls a full disk."""

Strike: TypeAlias = Callable[[str, int], int]
"""Told of each change before it is made, with its number; returns 0 to let it happen, or the error
of SQLite's.
"""

_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_DELETE = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
_SYNC = CFUNCTYPE(c_int, c_void_p, c_int)
_LOCK = CFUNCTYPE(c_int, c_void_p, c_int)


class _Vfs(Structure):
    _fields_: ClassVar[Any] = [
        ("version", c_int),
        ("file_size", c_int),
        ("longest_path", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("own", c_void_p),
        ("open", c_void_p),
        ("delete", c_void_p),
        *((f"other_{number}", c_void_p) for number in range(14)),
    ]


class _Methods(Structure):
    _fields_: ClassVar[Any] = [
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", c_void_p),
        ("truncate", c_void_p),
        ("sync", c_void_p),
        ("file_size", c_void_p),
        ("lock", c_void_p),
        *((f"other_{number}", c_void_p) for number in range(11)),
    ]


_IN_PLACE: Final[list[object]] = []
"""Shims, which SQLite calls for as long as the process lives."""


class SqliteUnreachable(Exception):
    """This interpreter's SQLite is built into it, out of reach."""


class Shim:
    """All of SQLite's changes of files in this process, from now on."""

    def __init__(self, strike: Strike) -> None:
        """Put the shim in place, for every file that is opened from now on.

        Raises:
            SqliteUnreachable: there is no way to the library.
        """
        self.changes = 0
        self.strike = strike
        library = ctypes.CDLL(_sqlite3.__file__)
        try:
            find, register = library.sqlite3_vfs_find, library.sqlite3_vfs_register
        except AttributeError:
            raise SqliteUnreachable("SQLite's own functions cannot be called from here") from None
        find.restype = POINTER(_Vfs)
        register.argtypes = [c_void_p, c_int]
        self._below = find(None).contents
        self._tables = dict[int, _Methods]()
        self._kept: list[object] = []
        """Callbacks, which live only as long as Python knows them."""
        self._own = _Vfs.from_buffer_copy(self._below)
        self._own.name = b"shim"
        self._own.open = self._pointer(_OPEN(self._open))
        self._own.delete = self._pointer(_DELETE(self._delete))
        self._open_below = _OPEN(self._below.open)
        self._delete_below = _DELETE(self._below.delete)
        register(ctypes.byref(self._own), 1)
        self._unregister = library.sqlite3_vfs_unregister
        self._unregister.argtypes = [c_void_p]
        _IN_PLACE.append(self)

    def remove(self) -> None:
        """Let what is opened from now on go its own way; what is open stays as it is."""
        self._unregister(ctypes.byref(self._own))

    def _pointer(self, callback: object) -> int | None:
        self._kept.append(callback)
        return ctypes.cast(callback, c_void_p).value  # type: ignore[arg-type]

    def _struck(self, what: str) -> int:
        self.changes += 1
        return self.strike(what, self.changes)

    def _open(self, _vfs: int, name: int, file: int, flags: int, out: int) -> int:
        code: int = self._open_below(ctypes.addressof(self._below), name, file, flags, out)
        slot = c_void_p.from_address(file)
        if slot.value is not None:
            slot.value = ctypes.addressof(self._methods(slot.value))
        return code

    def _delete(self, _vfs: int, name: bytes, is_synced: int) -> int:
        code: int = self._struck("delete") or self._delete_below(
            ctypes.addressof(self._below), name, is_synced
        )
        return code

    def _methods(self, below: int) -> _Methods:
        if below not in self._tables:
            methods = _Methods.from_buffer_copy(_Methods.from_address(below))
            for name, kind in (("write", _WRITE), ("truncate", _TRUNCATE), ("sync", _SYNC)):
                setattr(
                    methods,
                    name,
                    self._pointer(kind(self._between(name, kind(getattr(methods, name))))),
                )
            self._tables[below] = methods
        return self._tables[below]

    def _between(self, name: str, below: Callable[..., int]) -> Callable[..., int]:
        def change(*arguments: int) -> int:
            return self._struck(name) or below(*arguments)

        return change


def fill_from(number: int, until: Callable[[], bool]) -> Strike:
    """Have a full disk from the change of that number on, until there is room again."""

    def strike(what: str, changes: int) -> int:
        return FULL if changes >= number and what == "write" and not until() else 0

    return strike


def let_pass(_what: str, _changes: int) -> int:
    """Let every change happen."""
    return 0
