"""`wavewright view`: serve the live page of a project, and say who may use it."""

from __future__ import annotations

import json
from functools import partial

from wavewright.config import DocumentError, Settings, exit_codes, read_document
from wavewright.config.sections import Role
from wavewright.config.sources import ObjectNode, find_node
from wavewright.config.text_edits import add_member
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
from wavewright.planner import JsonObject, as_object


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
        CommandError: the person has a token already, there is no settings file, or it cannot be
            added to.
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
    person: JsonObject = {"token": token_hash(token), "role": role}
    text = _with_person(settings, name, person)
    if not _has_person(text, name, person):
        raise CommandError(
            f"nobody can be added to what {settings.file.name} holds",
            hint=f"write `view: {{people: {{}}}}` in its place, and add {name} again",
        )
    write_file(settings.file, text)
    print_line(f"{name} may {role} in the live page, with this token, which is kept nowhere:")
    print_line(token)
    return exit_codes.OK


def _with_person(settings: Settings, name: str, person: JsonObject) -> str:
    """Return the text of the settings with a person added to `view.people`, which is made where there
    is none; nothing else is changed.
    """
    document = settings.document
    assert document is not None
    text, found = document.source.text, None
    added: JsonObject = {name: person}
    for pointer, missing in (("/view/people", "people"), ("/view", "view")):
        found = find_node(document.root, pointer)
        if found is not None:
            break
        added = {missing: added}
    node = document.root if found is None else found[0]
    [(member, value)] = added.items()
    if isinstance(node, ObjectNode):
        edit = add_member(text, node, member, value)
        return text[: edit.start] + edit.text + text[edit.end :]
    # A file that says nothing yet, but for comments.
    before = text if text.endswith("\n") or not text else f"{text}\n"
    return f"{before}{member}: {json.dumps(value, ensure_ascii=False)}\n"


def _has_person(text: str, name: str, person: JsonObject) -> bool:
    """Whether the text of settings can be read, and has a person."""
    try:
        section = as_object(as_object(read_document(text, "wavewright.yaml").value).get("view"))
    except DocumentError:
        return False
    return as_object(section.get("people")).get(name) == person


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
