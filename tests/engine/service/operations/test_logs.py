from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from wavewright.config.redaction import Redactor
from wavewright.engine.service.operations.logs import Level, StructuredLog
from wavewright.planner.types import JsonObject
from wavewright.tools.message_contract import LogForm, MessageContract


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def lines(stream: io.StringIO) -> list[JsonObject]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def log_to(
    stream: io.StringIO, *, level: Level = "info", known: tuple[str, ...] = ()
) -> StructuredLog:
    return StructuredLog(
        agent="researcher",
        domain="world_lore",
        level=level,
        redactor=Redactor(known),
        stream=stream,
    )


def test_every_line_says_when_who_and_what(stream: io.StringIO) -> None:
    log_to(stream).write("daemon_started", slots=4)

    (line,) = lines(stream)
    assert str(line.pop("timestamp")).endswith("Z")
    assert line == {
        "event": "daemon_started",
        "level": "info",
        "agent_id": "researcher",
        "domain": "world_lore",
        "slots": 4,
    }


def test_a_pack_names_an_event_its_fields_and_its_level(stream: io.StringIO) -> None:
    contract = MessageContract(
        fields={"target": "zone_name"},
        log_events={
            "run_started": "cycle_started",
            "search_executed": LogForm("search_executed", "debug", {"results": "result_count"}),
            "checkpoint_loaded": LogForm("checkpoint_loaded", fields={"target": "zone"}),
        },
    )
    log = StructuredLog(agent="a", domain="d", level="debug", stream=stream, contract=contract)

    log.write("run_started", target="Westfall")
    log.write("search_executed", results=3)
    log.write("checkpoint_loaded", "info", target="Westfall")

    cycle, search, loaded = lines(stream)
    assert (cycle["event"], cycle["zone_name"]) == ("cycle_started", "Westfall")
    assert (search["level"], search["result_count"]) == ("debug", 3)
    assert (loaded["level"], loaded["zone"]) == ("info", "Westfall")


def test_what_is_below_the_level_is_not_written(stream: io.StringIO) -> None:
    log = log_to(stream, level="warning")

    log.write("job_started")
    log.write("budget_warning", "warning")

    assert [line["event"] for line in lines(stream)] == ["budget_warning"]


def test_an_exception_is_told_by_type_and_message_without_a_traceback(stream: io.StringIO) -> None:
    log_to(stream).write("error", "error", error=ValueError("no such zone"), retry_count=2)

    (line,) = lines(stream)
    assert (line["error_type"], line["message"], line["retry_count"]) == (
        "ValueError",
        "no such zone",
        2,
    )
    assert "Traceback" not in stream.getvalue()


@pytest.mark.parametrize(
    "said",
    [
        {"url": "amqp://svc:hunter2hunter@rabbit:5672/"},
        {"nested": {"list": ["key is hunter2hunter"]}},
        {"error": RuntimeError("cannot connect with hunter2hunter")},
        {"nested": {"hunter2hunter": 1}},
    ],
    ids=["address", "nested", "exception", "name"],
)
def test_a_known_secret_is_in_no_line(stream: io.StringIO, said: dict[str, JsonObject]) -> None:
    log_to(stream, known=("hunter2hunter",)).write("error", "error", **said)

    assert "hunter2hunter" not in stream.getvalue()
    assert len(lines(stream)) == 1


def test_counts_of_tokens_are_no_secrets(stream: io.StringIO) -> None:
    log_to(stream).write("run_tokens", total_tokens=1_234_567, worker_tokens=1_200_000)

    (line,) = lines(stream)
    assert (line["total_tokens"], line["worker_tokens"]) == (1_234_567, 1_200_000)


def test_text_over_several_lines_stays_one_line_and_long_text_is_cut(stream: io.StringIO) -> None:
    log_to(stream).write("error", "error", message="a\nb\r\n\x1b[31mred", more="x" * 5_000)

    (line,) = lines(stream)
    assert line["message"] == "a\nb\r\n\x1b[31mred"
    assert "\x1b" not in stream.getvalue()
    assert len(str(line["more"])) == 2_001


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    kept, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = kept
    root.setLevel(level)


def test_what_a_library_warns_of_is_a_line_too(
    stream: io.StringIO, root_logger: logging.Logger
) -> None:
    log_to(stream, known=("hunter2hunter",)).capture_logging()

    logging.getLogger("aio_pika.robust").warning("lost %s", "amqp://svc:hunter2hunter@rabbit/")
    logging.getLogger("aio_pika.robust").info("connected")
    logging.getLogger("aio_pika").warning("%d jobs", "many")
    root_logger.error("broken", exc_info=OSError("disk"))

    first, second, third = lines(stream)
    assert (first["event"], first["logger"], first["level"]) == (
        "library",
        "aio_pika.robust",
        "warning",
    )
    assert "hunter2" not in stream.getvalue()
    assert second["message"] == "%d jobs"
    assert (third["error_type"], third["message"]) == ("OSError", "broken")


def test_that_a_collector_is_away_is_told_once_and_not_with_every_attempt(
    stream: io.StringIO, root_logger: logging.Logger
) -> None:
    log_to(stream).capture_logging()

    for seconds in range(20):
        logging.getLogger("opentelemetry.exporter").warning(
            "nobody answers, retrying in %s s", seconds
        )
        logging.getLogger("a_tool").warning("page %s is empty", seconds)

    assert [line["logger"] for line in lines(stream)].count("opentelemetry.exporter") == 1
    assert [line["logger"] for line in lines(stream)].count("a_tool") == 20
