"""One game: opened from a journal, played turn by turn, undone, and read by its page."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import anyio
from anyio.abc import TaskGroup

from wavewright.config import WavewrightError
from wavewright.engine import (
    DoneEffects,
    Effects,
    PhaseEvent,
    PhaseListener,
    PhaseRecord,
    Pipeline,
    TwinRuns,
    open_twin,
)
from wavewright.executor import Journal, SqliteJournal
from wavewright.packs.tabletop.game.events import (
    GameBegan,
    GameEvent,
    Said,
    Suggested,
    TurnBegan,
    TurnEnded,
    TurnUndone,
)
from wavewright.packs.tabletop.game.rules import AUTO_RUN_CAP
from wavewright.packs.tabletop.game.state import GameState, options_of
from wavewright.packs.tabletop.game.world import World, read_world
from wavewright.packs.tabletop.turn.agents import GAME_MASTER, NARRATIVE, AgentRegistry, TurnAgents
from wavewright.packs.tabletop.turn.context import TurnContext, TurnFlags, TurnMachine
from wavewright.packs.tabletop.turn.game_master import INTRODUCTION
from wavewright.packs.tabletop.turn.header import (
    TurnTwin,
    standard_registry,
    turn_pipeline,
    view_of_turn,
)
from wavewright.packs.tabletop.turn.table import TURN_KEY, GameLog, GameTable
from wavewright.planner import NULL_REPLAY_CACHE, JsonObject, ReplayCache, RunId
from wavewright.tools import Services, ToolError

MAX_WAITING: Final = 8
"""Messages that wait at most while a turn is played."""


class NumberedEvent(NamedTuple):
    """An event with its id: 1 for the first of the game."""

    id: int
    event: GameEvent


class WaitingMessage(NamedTuple):
    """A message that came while a turn is played; its turn comes after that."""

    player: str
    message: str


class Game:
    """A game that is open; a turn that was interrupted is finished when it is opened."""

    def __init__(
        self,
        table: GameTable,
        agents: TurnAgents,
        pipeline: Pipeline[TurnContext, TurnContext],
        group: TaskGroup,
        *,
        twins: TwinRuns[TurnContext, TurnContext] | None = None,
        memory: ReplayCache = NULL_REPLAY_CACHE,
        listeners: Sequence[PhaseListener] = (),
    ) -> None:
        self._table = table
        self._group = group
        self._listeners = (self._announce, *listeners)
        self._agents = agents
        self._pipeline = pipeline
        self._twins = twins
        self._memory = memory
        self._waiting: list[WaitingMessage] = []
        self._ended: anyio.Event | None = None
        """Of the turn under way; None where there is none."""
        self._failure: WavewrightError | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        place: Path | str | Journal,
        name: str = "game",
        *,
        seed: str | None = None,
        world: World | None = None,
        registry: AgentRegistry | None = None,
        services: Services | None = None,
        cap: int = AUTO_RUN_CAP,
        listeners: Sequence[PhaseListener] = (),
        twin: TurnTwin | None = None,
    ) -> AsyncGenerator[Game]:
        """Open a game, and begin it where there is none of the name.

        Args:
            place: The journal, or its file.
            name: Of the game; a journal holds many.
            seed: Of the dice of a new game; a random one where absent.
            world: Of a new game; the one that comes with the pack where absent.
            registry: The agents; those that every game has where absent.
            services: Models for the agents, with the answers that they keep; without a model the
                rule-based game master plays.
            cap: Most turns of enemies in one turn of the player.
            listeners: Are told of each phase, for log, metrics and traces.
            twin: A second pipeline, which is compared.

        Raises:
            JournalError: the journal cannot be read or written, or another process has the game
                open.
        """
        run = RunId(name)
        async with AsyncExitStack() as stack:
            journal = (
                await stack.enter_async_context(SqliteJournal(place))
                if isinstance(place, Path | str)
                else place
            )
            await journal.open_run(run)
            stack.push_async_callback(journal.close_run, run)
            table = GameTable(GameLog(journal, run), name)
            interrupted = await table.load()
            agents = TurnAgents(registry or standard_registry(), services)
            memory = NULL_REPLAY_CACHE if services is None else services.memory
            pipeline = turn_pipeline(agents, cap)
            if not table.events:
                began = GameBegan(seed or secrets.token_hex(8), world or read_world())
                await _begin(table, began, is_ruled=agents.are_ruled)
            twins = None
            if twin is not None:
                opened = open_twin(
                    pipeline,
                    twin.make(agents, cap),
                    twin.report,
                    view=view_of_turn,
                    sample=twin.sample,
                    seconds=twin.seconds,
                )
                twins = await stack.enter_async_context(opened)
            try:
                async with anyio.create_task_group() as group:
                    game = cls(
                        table,
                        agents,
                        pipeline,
                        group,
                        twins=twins,
                        memory=memory,
                        listeners=listeners,
                    )
                    if interrupted is not None:
                        await memory.load(run)
                        game._begin_turn(interrupted, is_resumed=True)
                    yield game
                    group.cancel_scope.cancel()
            except BaseExceptionGroup as failures:
                # Of the group, only the block of the caller fails: a turn keeps its failure for who
                # waits for it.
                raise failures.exceptions[0] from None

    @property
    def state(self) -> GameState:
        """The state after all that has happened."""
        return self._table.state

    @property
    def last_id(self) -> int:
        """Id of the last event."""
        return len(self._table.events)

    @property
    def draft(self) -> Said | None:
        """What an agent has said so far of an answer that is under way."""
        return self._table.draft

    @property
    def waiting(self) -> tuple[WaitingMessage, ...]:
        """Messages that came while a turn is played, in the order in which they are taken."""
        return tuple(self._waiting)

    @property
    def failure(self) -> WavewrightError | None:
        """Why the last turn failed; None where it did not, or is under way."""
        return self._failure

    @property
    def changed(self) -> anyio.Event:
        """Is set when anything changes next: events, draft or waiting messages."""
        return self._table.changed

    @property
    def header(self) -> str:
        """The pipeline of a turn as text."""
        return self._pipeline.describe()

    def events_since(self, id_: int = 0) -> list[NumberedEvent]:
        """Return the events after the one of the id; all of them for 0."""
        return [
            NumberedEvent(number, event)
            for number, event in enumerate(self._table.events[id_:], id_ + 1)
        ]

    async def follow(self, id_: int = 0) -> AsyncGenerator[NumberedEvent]:
        """Yield the events after the one of the id, and then each as it happens, without an end."""
        while True:
            changed = self._table.changed
            for numbered in self.events_since(id_):
                id_ = numbered.id
                yield numbered
            await changed.wait()

    async def turn(
        self, message: str, agent_hint: str | None = None
    ) -> AsyncGenerator[NumberedEvent]:
        """Play a turn and yield its events as they happen; it is played to its end also if they are
        not read.

        Raises:
            WavewrightError: a turn is under way, or this one failed.
        """
        self._require_idle("play the next turn")
        id_ = self.last_id
        ended = self._begin_turn(TurnBegan(self.state.turn + 1, message, agent_hint))
        is_over = False
        while not is_over:
            changed, is_over = self._table.changed, ended.is_set()
            for numbered in self.events_since(id_):
                id_ = numbered.id
                yield numbered
                if isinstance(numbered.event, TurnEnded):
                    is_over = True
                    break  # the turn of a message that has waited may have begun
            if not is_over:
                await changed.wait()
        await ended.wait()
        if self._failure is not None:
            raise self._failure

    def say(self, message: str, player: str = "") -> None:
        """Play a turn with a message; while another one is played it waits, one message for each
        player.

        A further message of a player takes the place of the one that waits.

        Raises:
            WavewrightError: too many players have one that waits.
        """
        if self._ended is None or self._ended.is_set():
            self._begin_turn(TurnBegan(self.state.turn + 1, message))
            return
        said = WaitingMessage(player, message)
        place = next(
            (number for number, one in enumerate(self._waiting) if one.player == player), None
        )
        if place is not None:
            self._waiting[place] = said
        elif len(self._waiting) < MAX_WAITING:
            self._waiting.append(said)
        else:
            raise WavewrightError(
                f"{MAX_WAITING} messages are waiting already", hint="wait for a turn"
            )
        self._table.wake()

    def withdraw(self, player: str) -> None:
        """Take back the message of a player that waits, if there is one."""
        self._waiting = [one for one in self._waiting if one.player != player]
        self._table.wake()

    async def settle(self) -> None:
        """Wait until no turn is under way and no message waits.

        Raises:
            WavewrightError: the last turn failed.
        """
        while self._ended is not None and not self._ended.is_set():
            await self._ended.wait()
        if self._failure is not None:
            raise self._failure

    async def undo(self) -> None:
        """Take back the last turn; it stays in the journal and counts no more.

        Raises:
            WavewrightError: a turn is under way, or none is left.
        """
        self._require_idle("undo one")
        if self._table.timeline.before_turn is None:
            raise WavewrightError("no turn is left to be undone", hint="play one")
        await self._table.record("undo", lambda state: [TurnUndone(state.turn)])
        self._table.begin_turn()

    async def call(self, tool: str, params: JsonObject, key: str) -> str:
        """Call a tool of the game beside its turns; return in words what happened.

        Args:
            tool: Its name.
            params: Its parameters.
            key: Of the call; a call with a key that was made already is not made again.

        Raises:
            ToolError: the rules do not allow it.
            WavewrightError: a turn is under way that was interrupted and fails.
        """
        await self.settle()
        return await self._table.call_once(tool, params, key)

    def _announce(self, event: PhaseEvent) -> None:
        if not isinstance(event, PhaseRecord):
            self._table.announce(event.phase)

    def _require_idle(self, what: str) -> None:
        if self._ended is not None and not self._ended.is_set():
            raise WavewrightError(
                f"a turn is under way: cannot {what}", hint="wait until it has ended"
            )

    def _begin_turn(self, began: TurnBegan, *, is_resumed: bool = False) -> anyio.Event:
        ended = self._ended = anyio.Event()
        self._failure = None
        self._group.start_soon(self._play, began, ended, is_resumed)
        return ended

    async def _play(self, began: TurnBegan, ended: anyio.Event, is_resumed: bool) -> None:  # noqa: FBT001
        """Play a turn to its end, or up to what fails; then the turn of a message that waits."""
        try:
            await self._run_pipeline(began, is_resumed=is_resumed)
        except WavewrightError as failure:
            self._failure = failure
        finally:
            self._memory.evict(self._table.log.run)
            self._table.drop_draft()
            ended.set()
            self._table.wake()
        if self._waiting:
            self.say(self._waiting.pop(0).message)

    async def _run_pipeline(self, began: TurnBegan, *, is_resumed: bool) -> None:
        table = self._table
        table.begin_turn()
        before = table.state
        await table.record(TURN_KEY, lambda _: [began])
        twin = table.twin()

        def start(effects: Effects) -> TurnContext:
            at = table if isinstance(effects, DoneEffects) else twin
            return TurnContext(
                user_message=began.message,
                game_id=at.game_id,
                game_state=at.state,
                incoming_agent_hint=began.agent_hint,
                flags=TurnFlags(combat_was_active=before.combat is not None),
                machine=TurnMachine(before.mode),
                events=tuple(at.turn_events),
                table=at,
                effects=effects,
            )

        try:
            if self._twins is None or is_resumed:
                run = await self._pipeline.run(start(DoneEffects()), *self._listeners)
            else:
                run = await self._twins.run(start, *self._listeners)
        except ToolError as error:
            failed = TurnEnded(began.turn, f"FAILED: {error.message}")
            await table.record("end", lambda _: [failed])
            raise
        await table.record(
            "end", lambda state: [*self._suggestions(state), TurnEnded(began.turn, run.halted)]
        )

    def _suggestions(self, state: GameState) -> list[GameEvent]:
        """Return what the player can do next; in the turn of an ally that was suggested already."""
        return [] if state.is_ally_turn else [Suggested(self._agents.suggestions(state))]


async def _begin(table: GameTable, began: GameBegan, *, is_ruled: bool) -> None:
    """Begin a new game: with its world, and words for the player."""
    introduction = [Said(GAME_MASTER, INTRODUCTION, "system")] if is_ruled else []
    opening = Said(GAME_MASTER if is_ruled else NARRATIVE, began.world.opening)
    await table.record("begin", lambda _: [began, *introduction, opening])
    await table.record("options", lambda state: [Suggested(options_of(state))])
    table.begin_turn()
