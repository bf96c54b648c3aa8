"""The command's first lines.

`wavewright --version` and `--help` must answer at once, so nothing heavy is imported before it is known what was
asked: no pydantic, networkx, anyio or mcp.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from wavewright.engine.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; see `docs/reference/exit-codes.md`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        sys.stdout.write(f"wavewright {__version__}\n")
        return 0
    # A pydantic plug-in of another package (logfire's costs 0.4 s) has no business in this command.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

    from wavewright.engine.cli.app import run_command_line

    return run_command_line(given)


if __name__ == "__main__":
    sys.exit(main())
