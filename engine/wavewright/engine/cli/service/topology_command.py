"""`wavewright topology`: users, rights and queues of the broker, for it to load when it starts."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from wavewright.config import exit_codes
from wavewright.engine.cli.common.arguments import project_settings
from wavewright.engine.cli.common.errors import CommandError
from wavewright.engine.operations.broker_definitions import definitions


def print_topology(out: Path | None, vhost: str) -> int:
    """Print the definitions, or write them into a file.

    Raises:
        NoPasswordError: a password is missing.
        CommandError: the file cannot be written.
    """
    made = definitions(project_settings().daemon, os.environ, vhost=vhost)
    text = json.dumps(made, indent=2) + "\n"
    if out is None:
        sys.stdout.write(text)
        return exit_codes.OK
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"{str(out)!r} cannot be written: {error.strerror}"
        hint = "name a file in a folder that can be written to"
        raise CommandError(msg, hint=hint, exit_code=exit_codes.ENVIRONMENT) from error
    return exit_codes.OK
