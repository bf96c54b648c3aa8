"""Whatever is printed while a daemon works is a line of its log, or more."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from wavewright.config.redaction import Redactor
from wavewright.engine.service.operations.logs import StructuredLog, capture_output


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(stream: io.StringIO) -> StructuredLog:
    return StructuredLog(agent="a", domain="d", stream=stream, redactor=Redactor(["hunter2hunter"]))


def told(stream: io.StringIO) -> list[tuple[str, str]]:
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [(line["stream"], line["message"]) for line in lines if line["event"] == "output"]


def test_each_line_that_is_printed_is_told_once_it_ends(
    log: StructuredLog, stream: io.StringIO
) -> None:
    with capture_output(log):
        sys.stdout.write("one, ")
        print("two\nthree")
        assert told(stream) == [("stdout", "one, two"), ("stdout", "three")]
        sys.stderr.write("the password is hunter2hunter\n\n")
        sys.stderr.write("and no end")

    assert told(stream)[2:] == [("stderr", "the password is [redacted]"), ("stderr", "and no end")]


KEY = ["-----BEGIN PRIVATE KEY-----", "MIIsynthetic", "c3ludGg=", "-----END PRIVATE KEY-----"]


def test_a_private_key_goes_that_is_printed_in_pieces(
    log: StructuredLog, stream: io.StringIO
) -> None:
    text = "\n".join([*KEY, "done"])
    with capture_output(log):
        for start in range(0, len(text), 7):
            sys.stdout.write(text[start : start + 7])

    assert told(stream) == [*[("stdout", "[redacted]")] * 4, ("stdout", "done")]


def test_a_private_key_goes_that_a_library_logs_line_by_line(
    log: StructuredLog, stream: io.StringIO
) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        log.capture_logging()
        for line in [*KEY, "done"]:
            logging.getLogger("library").warning(line)
            logging.getLogger("another").warning("word")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    said = {
        name: [line["message"] for line in lines if line["logger"] == name]
        for name in ("library", "another")
    }
    assert said == {"library": [*["[redacted]"] * 4, "done"], "another": ["word"] * 5}


def test_a_line_that_never_ends_is_not_kept_for_ever(
    log: StructuredLog, stream: io.StringIO
) -> None:
    with capture_output(log):
        for _ in range(30):
            sys.stdout.write("." * 100)
        assert len(told(stream)) == 1


def test_warnings_go_the_way_of_what_libraries_log(log: StructuredLog, stream: io.StringIO) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        log.capture_logging()
        with capture_output(log), warnings.catch_warnings():
            warnings.simplefilter("always")
            logging.captureWarnings(capture=True)
            warnings.warn("old hunter2hunter", UserWarning, stacklevel=1)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)

    [line] = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (line["event"], line["logger"]) == ("library", "py.warnings")
    assert "old [redacted]" in line["message"]


def test_a_program_that_is_started_can_be_given_the_stream(
    log: StructuredLog, tmp_path: Path
) -> None:
    with (tmp_path / "real").open("w") as real, pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdout", real)
        with capture_output(log):
            subprocess.run(
                [sys.executable, "-c", "print('by itself')"], stdout=sys.stdout, check=True
            )

    assert (tmp_path / "real").read_text() == "by itself\n"
