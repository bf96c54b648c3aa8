"""Test a project's plans with pytest: the types of the fixtures, under their public name."""

from wavewright.engine.interfaces.testing import (
    __all__ as __all__,
    __dir__ as __dir__,
    __getattr__ as __getattr__,
)
