"""The notifier: tells people by the rules of `notify`, in a daemon and in `wavewright serve`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

import anyio

from wavewright.config import Settings, known_secrets_redactor
from wavewright.config.notices import NoticeRule
from wavewright.config.redaction import Redactor
from wavewright.engine.service.notices.events import NoticeEvent, missed_event
from wavewright.engine.service.notices.notice_store import NoticeBatch, NoticeStore
from wavewright.engine.service.notices.senders import (
    NoticeMessage,
    NoticeNotSent,
    NoticeRefused,
    send_notice,
)
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.executor import JournalError
from wavewright.planner import JsonObject
from wavewright.prompts import PromptError, Prompts, one_line
from wavewright.reviewer.values import iso_of_epoch

TICK_SECONDS: Final = 2.0
"""How often there is looked for what is to be told."""
MAX_UNWRITTEN: Final = 1_000
"""Events that are kept while the store cannot be written; of more the newest."""
TEMPLATE: Final = "notices/notice"
"""The prompt that a message's text is made of; its first line is the subject."""


@dataclass(slots=True)
class Notifier:
    """Tells people by the rules of a project."""

    settings: Settings
    store: NoticeStore
    log: StructuredLog
    clock: Callable[[], float]
    _unwritten: deque[NoticeEvent] = field(
        init=False, default_factory=lambda: deque[NoticeEvent](maxlen=MAX_UNWRITTEN)
    )
    """Events that no table knows, until they have rows of their own."""
    _redactor: Redactor = field(init=False)
    _prompts: Prompts = field(init=False)

    def __post_init__(self) -> None:
        self._redactor = known_secrets_redactor(self.settings)
        self._prompts = Prompts(self.settings.prompts)

    async def run(self) -> None:
        """Tell what there is to tell, until this is cancelled."""
        while True:
            await self.tick()
            await anyio.sleep(TICK_SECONDS)

    def note_dead_letter(self, kind: str, reason: str) -> None:
        """Have people told of a message that was dead-lettered as it came in.

        The store does not know it, so what was noted since the last tick is lost with the process;
        the dead letter itself is at the broker.
        """
        text = f"a message was dead-lettered ({kind}): {reason}"
        self._unwritten.append(
            NoticeEvent(f"dead letter {uuid4()}", "message_dead", text, self.clock())
        )

    def note_missed(self, schedule: str, instant: float) -> None:
        """Have people told of an instant that was missed, however long ago that was."""
        self._unwritten.append(missed_event(schedule, instant))

    async def tick(self) -> None:
        """Send what is to be sent now; what cannot be sent is logged, and sent again later unless it
        was refused for good.
        """
        await self._write_noted()
        for name, rule in self.settings.notify.items():
            try:
                batch = await self.store.next_batch(name, rule, self.settings.budgets, self.clock())
                if batch is not None:
                    await self._send(rule, batch)
            except JournalError as fault:
                self.log.write("notice_failed", "warning", rule=name, error=fault)

    async def _write_noted(self) -> None:
        """Write the events that were noted; where the store cannot be written they stay."""
        noted = self._unwritten.copy()
        if not noted:
            return
        self._unwritten.clear()
        try:
            await self.store.put([*noted], self.settings.notify)
        except JournalError as fault:
            # What was noted meanwhile goes behind them: of too many the oldest are dropped.
            noted.extend(self._unwritten)
            self._unwritten = noted
            self.log.write("notice_failed", "warning", error=fault)

    async def _send(self, rule: NoticeRule, batch: NoticeBatch) -> None:
        try:
            refused = await send_notice(rule, self.message(batch), self.settings.hmac_key)
        except NoticeRefused as fault:
            await self.store.mark_refused(batch, fault.message, self.clock())
            self.log.write(
                "notice_refused", "error", rule=batch.rule, count=batch.count, error=fault
            )
        except (NoticeNotSent, PromptError) as fault:
            await self.store.mark_failed(batch, self.clock())
            self.log.write("notice_failed", "warning", rule=batch.rule, error=fault)
        else:
            await self.store.mark_sent(batch, self.clock())
            self.log.write("notice_sent", rule=batch.rule, count=batch.count)
            if refused:
                self.log.write("notice_failed", "warning", rule=batch.rule, error=refused)

    def message(self, batch: NoticeBatch) -> NoticeMessage:
        """Return a batch as a message.

        Raises:
            PromptError: the project's template is faulty.
        """
        redact = self._redactor.redact
        shown = [
            {
                "kind": event.kind,
                "text": redact(one_line(event.text)),
                "at": iso_of_epoch(event.at),
                "run": event.run,
                "link": self._link(event),
            }
            for event in batch.events
        ]
        project = self.settings.root.name
        text = redact(
            self._prompts.render(
                TEMPLATE, project=project, rule=batch.rule, count=batch.count, events=shown
            )
        )
        content: JsonObject = {
            "message": batch.message,
            "project": project,
            "rule": batch.rule,
            "count": batch.count,
            "text": text,
            "events": [{**event} for event in shown],
        }
        subject = one_line(text.partition("\n")[0], 200)
        return NoticeMessage(batch, subject, f"{text}\n", content)

    def _link(self, event: NoticeEvent) -> str:
        """Return the page of an event; empty where nobody has said where pages are."""
        if self.settings.public_url is None:
            return ""
        base = self.settings.public_url.rstrip("/")
        if event.kind == "decision_waits":
            return f"{base}/decisions"
        if event.kind == "schedule_missed":
            return f"{base}/schedules"
        return f"{base}/runs/{event.run}" if event.run else f"{base}/jobs"
