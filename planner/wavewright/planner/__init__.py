"""From a goal to a checked plan: the language, its reader, the checker, the graph, and patches.

Each name is imported when it is first asked for, so that a program pays for what it uses:
reading a plan loads no networkx, and a version number loads nothing at all.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
