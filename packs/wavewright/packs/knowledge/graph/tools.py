"""The tools that write, correct and ask the graph."""

from __future__ import annotations

import datetime as dt
import posixpath
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import Field

from wavewright.packs.knowledge.graph.document import graph_document
from wavewright.packs.knowledge.graph.exports import FileFormat, SinkName, graph_file, send
from wavewright.packs.knowledge.graph.merging import conflicts_of, find_merges
from wavewright.packs.knowledge.graph.store import WrittenStage, open_store
from wavewright.packs.knowledge.models import (
    Chunk,
    ChunkRecords,
    EntityMerge,
    GraphCounts,
    GraphDifference,
    GraphEntity,
    KnowledgeModel,
    NeighbouringEntity,
    ObservationConflict,
    Origin,
    RefusedRecord,
    UnlinkedRecord,
)
from wavewright.packs.knowledge.settings import GraphSettings
from wavewright.planner import JsonObject
from wavewright.tools import Emit, LogEvent, Tool, UserFunction, make_tool

Limit: TypeAlias = Annotated[int, Field(ge=1, le=100)]


@dataclass(frozen=True)
class GraphStageWritten(LogEvent):
    """One stage of a write to the graph: all its observations, entities or relations."""

    stage: str
    records: int
    seconds: float


@dataclass(frozen=True)
class RelationsRetried(LogEvent):
    """Names that observations and relations waited for were looked for again."""

    names: int
    found: int


class WrittenGraph(KnowledgeModel):
    """What a write made of the graph."""

    chunks: int
    kept: list[str]
    """Ids of chunks whose stored records were made in a better way, and stay."""
    counts: GraphCounts
    failed: list[UnlinkedRecord]
    """Observations and relations of these chunks that name an entity which is not there yet."""


class RetriedRelations(KnowledgeModel):
    """What became of observations and relations without their entities."""

    names: int
    found: int
    failed: list[UnlinkedRecord]
    """Those that still name an entity which the graph does not have."""


class LinkedEvidence(KnowledgeModel):
    """The graph after all quotes were looked up."""

    counts: GraphCounts
    refused: list[RefusedRecord]
    """Records without a quote that is in their document; they are deleted."""
    deleted_chunks: int
    """Chunks that their documents no longer have."""
    difference: GraphDifference
    """What the run has changed so far."""


class MergedEntities(KnowledgeModel):
    """Entities that are taken for one, and what is said of them."""

    counts: GraphCounts
    merges: list[EntityMerge]
    """All that hold; `knowledge.undo_merge` takes one back."""
    conflicts: list[ObservationConflict]
    difference: GraphDifference
    """What the run has changed so far."""


class MinimalChunks(KnowledgeModel):
    """Chunks whose records were not made by a model's answer."""

    chunks: list[Chunk]
    origins: dict[str, Origin]
    """By the id of the chunk."""


class ReadShare(KnowledgeModel):
    """How much of some chunks was read."""

    chunks: int
    forced: int
    """Those with nothing but their first sentence."""
    share: float
    """Of the others, from 0 to 1."""


class FoundEntities(KnowledgeModel):
    """Entities that a search found, best first."""

    entities: list[GraphEntity]


class EntityNeighbours(KnowledgeModel):
    """An entity and where its relations lead."""

    entity: GraphEntity
    neighbours: list[NeighbouringEntity]


class PresentedGraph(KnowledgeModel):
    """A graph for people."""

    document: JsonObject


class WrittenFile(KnowledgeModel):
    """A file with the graph."""

    path: str
    counts: GraphCounts


class SentGraph(KnowledgeModel):
    """What a server holds of the graph after it was sent."""

    sink: SinkName
    counts: GraphCounts


class GraphTools:
    """Tools over the graph of the settings; each opens the file for its call."""

    def __init__(self, settings: GraphSettings, root: Path) -> None:
        self._settings = settings
        self._root = root
        self._path = root / Path(settings.path).expanduser()

    def write_graph(
        self, records: list[ChunkRecords], *, emit: Emit, now: dt.datetime
    ) -> WrittenGraph:
        """Write the records of chunks into the graph: all observations, then all entities, then all
        relations.

        The records of a chunk are replaced, unless those in the graph were made in a better way.

        Args:
            records: Outputs of `extract_chunk`.
            emit: Is told of each stage.
            now: The instant of the run.
        """

        def note(stage: WrittenStage) -> None:
            emit(GraphStageWritten(stage.stage, stage.records, round(stage.seconds, 6)))

        with open_store(self._path, now) as store:
            written, kept = store.write(records, note)
            failed = store.unlinked(one.chunk for one in records)
            return WrittenGraph(chunks=written, kept=kept, counts=store.counts(), failed=failed)

    def rate_reading(self, records: list[ChunkRecords]) -> ReadShare:
        """Count the chunks that have more than their first sentence.

        Args:
            records: Outputs of `extract_chunk`.
        """
        forced = sum(one.origin == "forced" for one in records)
        share = round(1 - forced / len(records), 4) if records else 0.0
        return ReadShare(chunks=len(records), forced=forced, share=share)

    def retry_relations(self, *, emit: Emit, now: dt.datetime) -> RetriedRelations:
        """Look again for the entities that relations and observations name: by normal form and by
        alias.
        """
        with open_store(self._path, now) as store:
            names, found = store.retry_ends()
            emit(RelationsRetried(names, found))
            return RetriedRelations(names=names, found=found, failed=store.unlinked())

    def link_evidence(
        self,
        chunks: list[Chunk],
        folder: str | None = None,
        left_out: list[str] | None = None,
        *,
        now: dt.datetime,
    ) -> LinkedEvidence:
        """Look up every quote in its document, and delete the records that have none there.

        Records of chunks that a document no longer has are deleted, too, and those of files that
        are gone.

        Args:
            chunks: All chunks of the documents, from `knowledge.read_documents`.
            folder: Folder that was read whole: a file below it without a chunk is gone.
            left_out: Documents that could not be read this time; their records stay.
            now: The instant of the run.
        """
        place = posixpath.normpath(folder or ".")
        kept, below = {*(left_out or ())}, "" if place == "." else f"{place}/"

        def is_read(document: str) -> bool:
            is_below = "://" not in document and document.startswith(below)
            return folder is not None and is_below and document not in kept

        with open_store(self._path, now) as store:
            refused, gone = store.link_evidence(chunks, is_read)
            return LinkedEvidence(
                counts=store.counts(),
                refused=refused,
                deleted_chunks=gone,
                difference=store.difference(),
            )

    def merge_entities(self, *, now: dt.datetime) -> MergedEntities:
        """Take entities for one whose names are forms of one name: aliases, titles, initials,
        plurals.

        Statements that contradict each other are listed and kept.

        Args:
            now: The instant of the run.
        """
        with open_store(self._path, now) as store:
            store.merge(find_merges(store.read.graph().entities, store.read.undone_merges()))
            return MergedEntities(
                counts=store.counts(),
                merges=store.read.merges(),
                conflicts=conflicts_of(store.read.graph()),
                difference=store.difference(),
            )

    def undo_merge(self, merge: str, *, now: dt.datetime) -> EntityMerge:
        """Take apart two entities that were taken for one; they are not merged again.

        Args:
            merge: Id of the merge, from `knowledge.merge_entities`.
            now: The instant of the run.
        """
        with open_store(self._path, now) as store:
            return store.undo_merge(merge)

    def list_minimal_chunks(
        self,
        chunks: list[Chunk],
        origins: tuple[Origin, ...] = ("generated", "forced"),
        *,
        now: dt.datetime,
    ) -> MinimalChunks:
        """Return the chunks whose records were made by code alone, so that a model can read them
        again.

        Args:
            chunks: Chunks to choose from, from `knowledge.read_documents`.
            origins: How the records of a chunk were made that is listed.
            now: The instant of the run.
        """
        with open_store(self._path) as store:
            stored = store.read.chunk_origins()
        # An equal call of an earlier run would give its result.
        marked = {"again": now.isoformat()}
        found = [
            chunk.model_copy(update=marked) for chunk in chunks if stored.get(chunk.id) in origins
        ]
        return MinimalChunks(chunks=found, origins={chunk.id: stored[chunk.id] for chunk in found})

    def search_graph(self, query: str, limit: Limit = 10) -> FoundEntities:
        """Return the entities of the graph whose names and observations have most of the words,
        with evidence.

        Args:
            query: Words.
            limit: Entities at most.
        """
        with open_store(self._path) as store:
            return FoundEntities(entities=store.read.search(query, limit))

    def neighbours(self, entity: str) -> EntityNeighbours:
        """Return an entity of the graph and where its relations lead.

        Args:
            entity: Its name or an alias.
        """
        with open_store(self._path) as store:
            found = store.read.entity(entity)
            return EntityNeighbours(entity=found, neighbours=store.read.neighbours(found.id))

    def present_graph(
        self,
        refused: Annotated[list[RefusedRecord] | None, Field(max_length=100_000)] = None,
        difference: GraphDifference | None = None,
    ) -> PresentedGraph:
        """Make a document for people of the graph: a picture and tables, each record with how it
        was made.

        Args:
            refused: Records that were refused, from `knowledge.link_evidence`.
            difference: What the run changed, from `knowledge.merge_entities`.
        """
        with open_store(self._path) as store:
            return PresentedGraph(document=graph_document(store, refused or [], difference))

    def export_graph(self, format: FileFormat, path: str) -> WrittenFile:  # noqa: A002 - the parameter's name
        """Write the graph into a file of the project.

        Args:
            format: What the file is.
            path: Path below the project's folder.
        """
        with open_store(self._path) as store:
            graph = store.read.graph()
        graph_file(graph, format, self._root, path)
        return WrittenFile(path=path, counts=graph.counts)

    async def send_graph(self, sink: SinkName) -> SentGraph:
        """Write the graph to the server of the settings; what is there already is not doubled.

        Args:
            sink: The server.
        """
        with open_store(self._path) as store:
            graph = store.read.graph()
        return SentGraph(sink=sink, counts=await send(graph, sink, self._settings, self._root))


def graph_tools(settings: GraphSettings, root: Path) -> tuple[Tool, ...]:
    """Return the tools; paths in the settings are relative to `root`."""
    tools = GraphTools(settings, root)
    set_up = settings.model_dump(mode="json")

    def writing(
        function: UserFunction, takes: Collection[str] = (), *, sends: bool = False
    ) -> Tool:
        return make_tool(
            function,
            name=f"knowledge.{function.__name__}",
            effects={"write", "egress"} if sends else {"write"},
            idempotent=True,
            accepts_untrusted=takes,
            settings=set_up,
        )

    def reading(function: UserFunction) -> Tool:
        return make_tool(
            function,
            name=f"knowledge.{function.__name__}",
            tags={"data"},
            untrusted_output=True,
            settings=set_up,
        )

    return (
        writing(tools.write_graph, {"records"}),
        writing(tools.retry_relations),
        writing(tools.link_evidence, {"chunks", "left_out"}),
        writing(tools.merge_entities),
        writing(tools.undo_merge),
        writing(tools.export_graph),
        writing(tools.send_graph, sends=True),
        reading(tools.rate_reading),
        reading(tools.list_minimal_chunks),
        reading(tools.search_graph),
        reading(tools.neighbours),
        reading(tools.present_graph),
    )
