"""Checks of a daemon's settings before anything is opened; all errors are reported together.

Neither the broker nor the store nor a model is contacted.
"""

from __future__ import annotations

from collections.abc import Iterator

from wavewright.config.documents import read_document_file
from wavewright.config.settings import Settings
from wavewright.config.sources import DocumentError, DocumentFault, Source, combine_errors
from wavewright.engine.bus.connection import read_address
from wavewright.engine.bus.faults import BusMisconfigured
from wavewright.engine.messages.contract import message_contract
from wavewright.engine.messages.delivery import message_types, request_forms
from wavewright.engine.project.templates import named_template
from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.planner.language.goals import GoalTemplate
from wavewright.planner.ports.model_port import ModelError
from wavewright.planner.reading.reader import read_model
from wavewright.tools.models import check_models, model_configured


def check_daemon_settings(settings: Settings, *, is_address_reported: bool = False) -> None:
    """Raise where a daemon cannot be started with these settings.

    Args:
        settings: The valid part of the settings.
        is_address_reported: Whether the broker's address is missing because an error about it was reported.

    Raises:
        DocumentError: all errors found.
        PackError: `daemon.pack` names no pack that defines messages.
    """
    of_section = () if is_address_reported else _section_errors(settings)
    if found := [
        *of_section,
        *_identity_errors(settings),
        *_template_errors(settings),
        *_model_errors(settings),
    ]:
        raise combine_errors(found)


def check_broker_configured(settings: Settings) -> None:
    """Raise where the settings have no valid address of a broker.

    Raises:
        DocumentError: the address is missing or invalid.
    """
    if found := [*_section_errors(settings)]:
        raise combine_errors(found)


def _section_errors(settings: Settings) -> Iterator[DocumentError]:
    url = settings.daemon.amqp_url
    if url is None:
        hint = "set WAVEWRIGHT_AMQP_URL=amqps://USER:PASSWORD@HOST/VHOST"
        yield _settings_error(settings, "the address of the broker is missing", hint, "/daemon")
        return
    try:
        read_address(url)
    except BusMisconfigured as error:
        yield _settings_error(settings, f"{error.message} ({error.place})", error.hint, "/daemon/amqp_url")


def _identity_errors(settings: Settings) -> Iterator[DocumentError]:
    known = message_types(request_forms(message_contract(settings)))
    for name, identity in settings.daemon.identities.items():
        if unknown := set(identity.may_send).difference(known):
            message = f"{', '.join(map(repr, sorted(unknown)))} is not a message type that the daemon reads"
            hint = f"message types are {', '.join(known)}"
            yield _settings_error(settings, message, hint, f"/daemon/identities/{name}/may_send")


def _template_errors(settings: Settings) -> Iterator[DocumentError]:
    name, standing = settings.daemon.goal_template, settings.daemon.standing
    if standing is not None and standing.forks == "ask" and not settings.daemon.decisions:
        message = "the standing job asks people which target is next, and `daemon.decisions` is false"
        yield _settings_error(settings, message, "set `forks: all`", "/daemon/standing/forks")
    if name is None and standing is not None:
        message = "a standing job needs a goal template"
        yield _settings_error(settings, message, "name one in `daemon.goal_template`", "/daemon/standing")
    if name is None:
        return
    try:
        path = named_template(name, settings) or settings.root / name
        read_model(read_document_file(path), GoalTemplate)
    except DocumentError as error:
        yield error
    except PlanError as error:
        faults = (
            DocumentFault("bad_value", one.message, one.span, one.pointer, one.hint)
            for one in error.diagnostics
        )
        yield DocumentError(error.source, tuple(faults))


def _model_errors(settings: Settings) -> Iterator[DocumentError]:
    if not model_configured(settings):
        return
    try:
        check_models(settings)
    except ModelError as error:
        yield _settings_error(settings, str(error), error.hint, "/model")


def _settings_error(settings: Settings, message: str, hint: str | None, pointer: str) -> DocumentError:
    document = settings.document
    if document is None:
        return DocumentError(Source("<settings>", ""), (DocumentFault("bad_value", message, hint=hint),))
    # Without an excerpt, since the address may hold a password.
    return DocumentError(
        Source(document.source.name, ""), (DocumentFault("bad_value", message, pointer=pointer, hint=hint),)
    )
