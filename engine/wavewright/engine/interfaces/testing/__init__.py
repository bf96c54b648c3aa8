"""Test a project's plans with pytest: the types of the fixtures, for annotations.

The *plugin* registers itself where wavewright is installed; a test asks for the fixtures `plan`,
`dry_run`, `run_plan`, `review` and `package` by name. Nothing here is loaded before a test asks for
it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
