"""What may be written at a place of a document, as the editor shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lsprotocol import types

from wavewright.config import Span
from wavewright.config.cursors import cursors_at
from wavewright.engine.interfaces.cli.planning.offers import CursorPlace, offers_at
from wavewright.engine.run.jobs.read_texts import ReadText

if TYPE_CHECKING:
    from wavewright.engine.interfaces.cli.lsp.documents import OpenDocument, Surroundings
    from wavewright.planner.checks.offers import Offer

_Kind = types.CompletionItemKind
_KINDS: Final = {
    "name": _Kind.Variable,
    "field": _Kind.Field,
    "function": _Kind.Function,
    "method": _Kind.Method,
    "key": _Kind.Property,
    "value": _Kind.Value,
    "tool": _Kind.Function,
    "gate": _Kind.Event,
    "model": _Kind.EnumMember,
    "module": _Kind.Module,
    "file": _Kind.File,
}


def complete(
    document: OpenDocument, params: types.CompletionParams, around: Surroundings
) -> types.CompletionList:
    """Return what may be written at a place of a document."""
    offset = document.places.offset(params.position)
    items: list[types.CompletionItem] = []
    for cursor in () if document.is_foreign else cursors_at(document.text, offset):
        read = ReadText(cursor.document_of(str(document.path)))
        pointer, subject = read.in_plan(cursor.pointer), around.subject(read)
        place = CursorPlace(cursor, read, document.path, around, subject, pointer)
        written, offers = offers_at(place)
        where = document.places.range(Span(offset - len(written), offset))
        items = [_as_item(offer, where, number) for number, offer in enumerate(offers)]
        if items:
            break
    return types.CompletionList(is_incomplete=False, items=items)


def _as_item(offer: Offer, where: types.Range, number: int) -> types.CompletionItem:
    meaning = types.MarkupContent(types.MarkupKind.Markdown, offer.meaning)
    return types.CompletionItem(
        label=offer.name,
        kind=_KINDS[offer.kind],
        detail=offer.detail or None,
        documentation=meaning if offer.meaning else None,
        sort_text=f"{offer.rank}{number:04}",
        filter_text=offer.name,
        text_edit=types.TextEdit(where, offer.inserted or offer.name),
    )
