"""What others use: pipelines of typed phases, and listeners to them.

Each name is imported when it is first asked for, so that a program pays for what it uses.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
