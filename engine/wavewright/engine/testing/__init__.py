"""Test a project's plans with pytest: the types of the fixtures, under their public name."""

from importlib import import_module

_types = import_module("wavewright.engine.interfaces.testing")


def __getattr__(name: str) -> object:
    return getattr(_types, name)


def __dir__() -> list[str]:
    return dir(_types)
