"""`wavewright view`: serve the live page of a project, and say who may use it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import yaml

from wavewright.config import exit_codes
from wavewright.config.documents import read_document
from wavewright.config.sections import Role
from wavewright.config.settings import load_settings
from wavewright.config.sources import DocumentError
from wavewright.config.value_types import valid_person_name
from wavewright.engine.interfaces.cli.common.arguments import project_settings
from wavewright.engine.interfaces.cli.common.output import CommandError, print_line, write_file
from wavewright.engine.interfaces.cli.common.page_serving import serve_page
from wavewright.engine.interfaces.view.app import open_view
from wavewright.engine.interfaces.view.people import (
    SESSIONS_FILE,
    PageAccess,
    new_token,
    token_hash,
)
from wavewright.engine.interfaces.view.sessions import Sessions
from wavewright.planner.types import JsonObject, as_object

_SECTION = "view:"
_PEOPLE = "  people:"


def serve(place: str, *, public_url: str | None, opens: bool) -> int:
    """Serve the live page of the project until a signal, and return the exit code.

    Raises:
        CommandError: the address cannot be used.
        WavewrightError: the journal cannot be opened, or the common token is too short.
    """
    settings = project_settings()
    access = PageAccess.from_settings(settings, public_url)
    page = f"live page of {settings.root}"
    return serve_page(partial(open_view, settings, access.prefix), page, place, access, opens=opens)


def add_person(name: str, role: Role) -> int:
    """Make a token for a person, write its hash into the settings and print it, once.

    Raises:
        CommandError: the person has a token already, or the settings cannot be changed.
    """
    settings = project_settings()
    try:
        valid_person_name(name)
    except ValueError as error:
        raise CommandError(f"--add {name!r}: {error}") from error
    if name in settings.view.people:
        raise CommandError(
            f"{name!r} is among the people of the settings already",
            hint="remove the lines of `view.people` that name them, and add them again",
        )
    if settings.file is None:
        raise CommandError(
            "there is no settings file to write the person into",
            hint="make an empty wavewright.yaml in the project's folder",
        )
    token = new_token()
    _write_person(settings.file, name, token_hash(token), role)
    print_line(f"{name} may {role} in the live page, with this token, which is kept nowhere:")
    print_line(token)
    return exit_codes.OK


def _write_person(file: Path, name: str, hashed: str, role: Role) -> None:
    """Write a person into the section `view` of the settings; nothing else is changed.

    Raises:
        CommandError: the section is written in a way in which no line can be added.
    """
    text = file.read_text(encoding="utf-8")
    key = yaml.safe_dump(name, default_style='"', allow_unicode=True).strip()
    line = f'    {key}: {{token: "{hashed}", role: {role}}}'
    written = _with_line(text, line)
    before, after = _read(text), _read(written)
    section = as_object(before.get("view"))
    people = {**as_object(section.get("people")), name: {"token": hashed, "role": role}}
    if after != {**before, "view": {**section, "people": people}}:
        raise CommandError(
            f"the section `view` of {file.name} is not written as lines of its own",
            hint=f"write it as `{_SECTION}`, with a line `{_PEOPLE}` below that, and add {name} again",
        )
    write_file(file, written)
    load_settings(file.parent)


def _read(text: str) -> JsonObject:
    """Return the settings as the project reads them, which refuses a key that stands twice."""
    try:
        return as_object(read_document(text, "wavewright.yaml").value)
    except DocumentError:
        # What was a document no longer is one: it differs from what is expected.
        return {}


def _with_line(text: str, line: str) -> str:
    """Return the settings with the line of a person, in a section that is made where there is none."""
    lines = text.splitlines()
    stripped = [text_line.rstrip() for text_line in lines]
    if _SECTION not in stripped:
        return "\n".join([*lines, _SECTION, _PEOPLE, line, ""])
    place = stripped.index(_SECTION) + 1
    inner = next(
        (at for at in range(place, len(lines)) if stripped[at][:1].strip()),
        len(lines),
    )
    if _PEOPLE in stripped[place:inner]:
        place = stripped.index(_PEOPLE, place) + 1
        return "\n".join([*lines[:place], line, *lines[place:], ""])
    return "\n".join([*lines[:place], _PEOPLE, line, *lines[place:], ""])


def revoke_sessions(name: str) -> int:
    """End the sessions of a person, or of all where it is `all`; print how many."""
    settings = project_settings()
    sessions = Sessions(settings.state_dir / SESSIONS_FILE)
    try:
        ended = sessions.revoke(None if name == "all" else name)
    finally:
        sessions.close()
    print_line(f"{ended} {'session' if ended == 1 else 'sessions'} ended")
    return exit_codes.OK
