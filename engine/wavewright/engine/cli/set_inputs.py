"""`--set key=value`: inputs on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable

from wavewright.engine.cli.failures import CommandError
from wavewright.planner.types import Json, JsonObject


def read_inputs(texts: Iterable[str], known: JsonObject | None = None) -> JsonObject:
    """Return the inputs that `KEY=VALUE` texts give; a dotted key names a member of an object.

    A value is JSON where it can be read as such, else the text itself.

    Args:
        texts: As typed; of two for one key the later counts.
        known: The inputs before; other members of an object that a dotted key names are taken from them.

    Raises:
        CommandError: a text has no `=` or no key, or a dotted key names a member of what is no object.
    """
    given: JsonObject = {}
    for text in texts:
        key, is_there, value = text.partition("=")
        path = key.strip().split(".")
        if not is_there or not all(path):
            raise CommandError(
                f"--set {text!r} is not KEY=VALUE", hint="for example --set top=3, --set zone.name=north"
            )
        if path[0] not in given and known and path[0] in known and len(path) > 1:
            given[path[0]] = known[path[0]]
        _put(given, path, _value(value), text)
    return given


def _put(target: JsonObject, path: list[str], value: Json, text: str) -> None:
    for name in path[:-1]:
        part = target.setdefault(name, {})
        if not isinstance(part, dict):
            raise CommandError(f"--set {text!r}: {name!r} is no object", hint=f"give {name}=… as a whole")
        inner = dict(part)  # a copy: the inputs before keep what they had
        target[name] = inner
        target = inner
    target[path[-1]] = value


def _value(text: str) -> Json:
    try:
        value: Json = json.loads(text)
    except ValueError:
        return text
    return value
