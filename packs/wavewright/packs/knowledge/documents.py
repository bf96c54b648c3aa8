"""Read documents of a folder, single files and addresses: Markdown, HTML, text and PDF.

The text of a document is what a file of Markdown or text holds, and Markdown for a page of HTML;
that of a PDF file is the text of its pages. Files are read below the pack's folder only, addresses
by the client that keeps to public hosts.
"""

from __future__ import annotations

import datetime as dt
import io
import re
import unicodedata
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Final

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field

from wavewright.config import WavewrightError, install_hint, is_installed
from wavewright.packs.extraction.prose import prose_note, prose_reader
from wavewright.packs.knowledge.chunking import (
    NameFinder,
    TextDocument,
    chunks_of,
    defined_terms,
    known_names,
    plain_text,
    whole_words,
)
from wavewright.packs.knowledge.models import Chunk
from wavewright.packs.knowledge.settings import KnowledgeSettings
from wavewright.packs.web.guarded_client import WebAnswer
from wavewright.packs.web.index import markdown_title
from wavewright.packs.web.pages import decode, parsed, read_answer
from wavewright.packs.web.reader import shared_reader
from wavewright.tools import Folder, PathRefused, Tool, ToolError, make_tool

MAX_DOCUMENTS: Final = 10_000
MAX_BYTES: Final = 32 * 2**20
"""Of one file."""
PDF_SECONDS: Final = 60.0
_MAX_TITLE: Final = 80
"""Characters."""

_LIGATURE: Final = re.compile("[\ufb00-\ufb06]")

_TYPES: Final = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".txt": "text/plain",
    ".rst": "text/plain",
    ".html": "text/html",
    ".htm": "text/html",
    ".pdf": "application/pdf",
}
"""Media types by the ends of the names of files that are read; a folder's other files are passed
over.
"""

_WITHOUT_TEXT: Final = {
    "application/pdf": "its pages have no text, as those of a scan: make it searchable first"
}
"""Why a document without text is left out, by its media type."""


class LeftOutDocument(BaseModel):
    """A document that could not be read."""

    model_config = ConfigDict(frozen=True)

    document: str
    reason: str


class ReadDocument(BaseModel):
    """A document that was read."""

    model_config = ConfigDict(frozen=True)

    name: str
    """Path below the pack's folder, or address."""
    title: str
    characters: int


class DocumentChunks(BaseModel):
    """What documents hold, in chunks."""

    model_config = ConfigDict(frozen=True)

    read: list[ReadDocument]
    chunks: list[Chunk]
    left_out: list[LeftOutDocument]
    prose: str = ""
    """What is to be said where code cannot read prose, with the commands that change it."""


@dataclass(frozen=True)
class DocumentReader:
    """The tool `read_documents`; `root` is the pack's folder of documents."""

    settings: KnowledgeSettings
    root: Path

    async def read_documents(
        self,
        folder: str | None = None,
        files: Annotated[list[str] | None, Field(max_length=MAX_DOCUMENTS)] = None,
        urls: Annotated[list[str] | None, Field(max_length=1000)] = None,
    ) -> DocumentChunks:
        """Read documents and cut them at headings into chunks, each with the names that stand in
        it.

        Args:
            folder: Folder of Markdown, HTML, text and PDF files, read with all folders in it; `.`
                for the pack's own.
            files: Single files.
            urls: Addresses of pages, with http:// or https://.
        """
        left_out: list[LeftOutDocument] = []
        documents: list[TextDocument] = []
        async for answer in self._answers(folder, files or [], urls or [], left_out):
            try:
                documents.append(await _read(answer))
            except WavewrightError as error:
                left_out.append(LeftOutDocument(document=answer.url, reason=str(error)))
        chunks = await anyio.to_thread.run_sync(self._chunks, documents)
        if not chunks:
            reasons = "; ".join(
                [f"{one.document}: {one.reason}" for one in left_out[:3]]
                + [f"{one.name} is empty" for one in documents[:3]]
            )
            raise ToolError(
                f"there is no document with any text in it: {reasons or 'none was named or found'}",
                hint=f"files that are read end with {', '.join(_TYPES)}, and lie below {self.root}",
            )
        return DocumentChunks(
            read=[
                ReadDocument(name=one.name, title=one.title, characters=len(one.text))
                for one in documents
            ],
            chunks=chunks,
            left_out=left_out,
            prose=prose_note(
                self.settings.extraction.model, {one.name: one.text for one in documents}
            ),
        )

    async def _answers(
        self,
        folder: str | None,
        files: Sequence[str],
        urls: Iterable[str],
        left_out: list[LeftOutDocument],
    ) -> AsyncIterator[WebAnswer]:
        """Yield what files hold, in the form of answers, and the answers of servers; each name
        once.
        """
        for name in dict.fromkeys([*(await self._listed(folder)), *files]):
            try:
                content = await anyio.to_thread.run_sync(self._content, name)
            except PathRefused as error:
                left_out.append(LeftOutDocument(document=name, reason=str(error)))
                continue
            kind = _TYPES.get(PurePosixPath(name).suffix.lower(), "text/plain")
            yield WebAnswer(name, 200, {"content-type": kind}, content, dt.datetime.now(dt.UTC))
        for url in dict.fromkeys(urls):
            try:
                yield await shared_reader(self.settings.web).get_page(url)
            except WavewrightError as error:
                left_out.append(LeftOutDocument(document=url, reason=str(error)))

    async def _listed(self, folder: str | None) -> list[str]:
        if folder is None:
            return []
        try:
            with self._open() as opened:
                listed = await anyio.to_thread.run_sync(opened.files, folder)
        except PathRefused as error:
            raise ToolError(str(error), hint=f"name a folder below {self.root}") from error
        found = [name for name in listed if PurePosixPath(name).suffix.lower() in _TYPES]
        if len(found) > MAX_DOCUMENTS:
            raise ToolError(
                f"{folder!r} holds {len(found):,} documents, more than {MAX_DOCUMENTS:,}",
                hint="read its folders one by one",
            )
        return found

    def _content(self, name: str) -> bytes:
        with self._open() as opened:
            return opened.read(name, max_bytes=MAX_BYTES)

    def _open(self) -> Folder:
        try:
            return Folder(self.root)
        except OSError as error:
            raise ToolError(
                f"the folder {self.root} cannot be read: {error.strerror}",
                hint="set 'documents' of the pack 'knowledge' to the folder of the documents",
            ) from error

    def _chunks(self, documents: Sequence[TextDocument]) -> list[Chunk]:
        prose = prose_reader(self.settings.extraction.model)
        finder = NameFinder(known_names(documents, prose))
        found: list[Chunk] = []
        for document in documents:
            terms = defined_terms(document.text)
            for chunk in chunks_of(
                document, self.settings.chunk_chars, self.settings.overlap_sentences
            ):
                names = dict.fromkeys(one.name for one in finder.find(chunk.text))
                plain = plain_text(chunk.text)
                within = [term for term in terms if term in plain]
                found.append(
                    chunk.model_copy(update={"names": tuple(names), "terms": tuple(within)})
                )
        return found


def read_documents_tool(settings: KnowledgeSettings, root: Path) -> Tool:
    """Return the tool; paths in the settings are relative to `root`."""
    return make_tool(
        DocumentReader(settings, root / Path(settings.documents).expanduser()).read_documents,
        name="knowledge.read_documents",
        effects={"read", "egress"},
        tags={"data"},
        untrusted_output=True,
        timeout="30m",
        expected_seconds=5.0,
        settings=settings.model_dump(mode="json", exclude={"graph"}),
    )


async def _read(answer: WebAnswer) -> TextDocument:
    name, title = answer.url, ""
    if answer.content_type == "application/pdf":
        text = await parsed(read_pdf, answer.content, what=name, seconds=PDF_SECONDS)
    elif answer.content_type in {"text/plain", "text/markdown"}:
        text = decode(answer)
        is_markdown = answer.content_type == "text/markdown"
        title = markdown_title(text) if is_markdown else _first_line(text)
    else:
        if not is_installed("web"):
            raise ToolError(
                "the extra 'web' is not installed, which reads HTML", hint=install_hint("web")
            )
        page = await read_answer(answer)
        text, title = page.text, markdown_title(page.text) or page.title
    # An empty file says nothing, and is read; of another one something is missing.
    if not text.strip() and answer.content.strip():
        raise ToolError(_WITHOUT_TEXT.get(answer.content_type, "no text was found in it"))
    return TextDocument(
        name, title.strip() or PurePosixPath(name).stem.replace("-", " ").replace("_", " "), text
    )


def _first_line(text: str) -> str:
    """Return the line that a plain text begins with, where it stands alone like a title."""
    first, _, rest = text.strip().partition("\n")
    is_title = rest.startswith(("\n", "\r\n")) and len(first) <= _MAX_TITLE
    return first.strip() if is_title and not first.rstrip().endswith((".", ":", ",", ";")) else ""


def read_pdf(content: bytes) -> str:
    """Return the text of a PDF file, its pages apart by blank lines.

    Raises:
        ToolError: the extra `pdf` is not installed, or the file is none or is encrypted.
    """
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError as error:
        raise ToolError(
            "the extra 'pdf' is not installed, which reads PDF", hint=install_hint("pdf")
        ) from error
    try:
        pages = [page.extract_text() for page in PdfReader(io.BytesIO(content)).pages]
    except (PyPdfError, ValueError, KeyError) as error:
        raise ToolError(f"it is no readable PDF file: {error}") from error
    return "\n\n".join(map(unset_text, pages))


def unset_text(text: str) -> str:
    """Return a text without what setting it has done: ligatures are letters again, and a word that
    was cut at the end of a line is whole (`whole_words`).
    """
    text = _LIGATURE.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    text = text.replace("\u00ad\n", "").replace("\u00ad", "")
    return whole_words(text)
