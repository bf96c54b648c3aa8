"""The cases of secrets, through every sink that a daemon writes texts to."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from wavewright.config.redaction import Redactor
from wavewright.config.sections import DaemonSection
from wavewright.engine.service.daemon.reports import Reporter
from wavewright.engine.service.job_store.records import JobId, JobRow
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.executor.run.exceptions import describe_failure
from wavewright.planner.types import JsonObject, RunId

SHARED_CASES = Path(__file__).parents[5] / "shared" / "cases" / "secret_cases.jsonl"
CONFIGURED = "nobody-shall-read-this-9f31"
OWN_CASES: list[JsonObject] = [
    {"text": "refused: postgresql://svc:0wn-pw@db/lore", "secret": "0wn-pw", "must": "redact"},
    {"text": f"the environment says {CONFIGURED}", "secret": CONFIGURED, "must": "redact"},
    {
        "text": "{'Authorization': 'Bearer 0123456789abcdef'}",
        "secret": "0123456789abcdef",
        "must": "redact",
    },
    {"text": "tokens_used=48210 in run 20260301-101500-a24cbe", "secret": None, "must": "keep"},
]
MORE_CASES: list[JsonObject] = (
    [json.loads(line) for line in SHARED_CASES.read_text().splitlines()]
    if SHARED_CASES.exists()
    else []
)
CASES = OWN_CASES + MORE_CASES
KNOWN = [
    CONFIGURED,
    *(str(case["secret"]) for case in MORE_CASES if case["family"] == "known_value"),
]
"""Secrets that look like nothing: they are found because they are configured."""


def to_the_log(text: str) -> str:
    stream = io.StringIO()
    log = StructuredLog(agent="a", domain="d", redactor=Redactor(KNOWN), stream=stream)
    log.write("error", "error", error=RuntimeError(text))
    return str(json.loads(stream.getvalue())["message"])


def to_a_status(text: str) -> str:
    reporter = Reporter(DaemonSection(), redactor=Redactor(KNOWN))
    job = JobRow(JobId("9a1f6c3e-0000-4000-8000-000000000001"), RunId("run"), "failed", {}, 0.0)
    body = reporter.status(job, "JOB_FAILED", 0.0, reason=text).body
    return str(json.loads(body)["payload"]["reason"])


def to_the_journal(text: str) -> str:
    return (
        describe_failure(RuntimeError(text), 0.0).as_error(1).message.removeprefix("RuntimeError: ")
    )


@pytest.mark.parametrize("sink", [to_the_log, to_a_status, to_the_journal])
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.get("id", "own")))
def test_a_secret_reaches_no_sink_and_other_words_reach_every(
    case: JsonObject, sink: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, secret = str(case["text"]), case["secret"]
    monkeypatch.setenv("WAVEWRIGHT_API_KEY", str(secret) if secret in KNOWN else CONFIGURED)

    written = sink(text)

    if secret is None:
        assert written == text
    else:
        assert str(secret) not in written
