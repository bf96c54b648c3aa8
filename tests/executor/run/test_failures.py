"""Attempts: which failures are tried again, how long after, and when an attempt has taken too long."""

from __future__ import annotations

import asyncio
import datetime as dt
import email.message
import email.utils
import enum
import ftplib
import hashlib
import http.client
import imaplib
import io
import json
import logging
import queue
import random
import secrets
import smtplib
import socket
import sqlite3
import ssl
import subprocess
import sys
import sysconfig
import threading
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from types import FunctionType
from typing import Any, Self, cast

import anyio
import anyio.to_thread
import httpx
import pytest
from hypothesis import given, strategies as st

from tests.executor.execution_harness import (
    Answer,
    ExecutionHarness,
    VirtualClock,
    answering,
    echo,
    plan_of,
    statuses,
)
from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import ErrorKind, StepFinished
from wavewright.executor.run import deadlines
from wavewright.executor.run.deadlines import GRACE_SECONDS
from wavewright.executor.run.exceptions import describe_failure
from wavewright.executor.run.failures import AttemptFailure, may_retry, seconds_before_retry
from wavewright.planner.language.plan import Limits, Retry
from wavewright.planner.types import Json, StepId
from wavewright.tools.functions.errors import ResultRefused, ToolError
from wavewright.tools.functions.tool import ToolCall

pytestmark = pytest.mark.anyio


def http_error(status: int, **headers: str) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "https://prices.example/")
    response = httpx.Response(status, request=request, headers=headers)
    return httpx.HTTPStatusError(f"{status}", request=request, response=response)


@dataclass
class Flaky:
    """A tool that fails so often, in so many ways, and then succeeds."""

    errors: list[BaseException]
    clock: VirtualClock = field(default_factory=VirtualClock)
    at: list[float] = field(default_factory=list[float])

    async def answer(self, call: ToolCall) -> Json:
        self.at.append(self.clock.now)
        if self.errors:
            raise self.errors.pop(0)
        return call.attempt

    async def run(self, retry: Retry | None = None, **step: object) -> StepFinished:
        bench = ExecutionHarness().add(self.answer)
        if retry is not None:
            step["retry"] = retry
        state = await bench.run(plan_of({"id": "a", **step}), clock=self.clock)
        return state.steps[StepId("a")]

    @property
    def waits(self) -> list[float]:
        return [later - earlier for earlier, later in zip(self.at, self.at[1:], strict=False)]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ToolError("busy", transient=True), "transient"),
        (ToolError("wrong"), "tool"),
        (ResultRefused("the result of f() holds NaN"), "output"),
        (ConnectionResetError(), "transient"),
        (TimeoutError(), "transient"),
        (OSError("device busy"), "transient"),
        (FileNotFoundError("prices.csv"), "tool"),
        (PermissionError("prices.csv"), "tool"),
        (ValueError("no"), "tool"),
        (httpx.ConnectError("refused"), "transient"),
        (httpx.ReadTimeout("slow"), "transient"),
        (http_error(408), "transient"),
        (http_error(425), "transient"),
        (http_error(429), "transient"),
        (http_error(500), "transient"),
        (http_error(503), "transient"),
        (http_error(400), "tool"),
        (http_error(404), "tool"),
        (ExceptionGroup("g", [ConnectionError()]), "transient"),
        (ExceptionGroup("g", [ConnectionError(), ValueError()]), "tool"),
    ],
    ids=repr,
)
def test_a_failure_is_transient_where_another_attempt_may_succeed(
    error: BaseException, kind: ErrorKind
) -> None:
    assert describe_failure(error, wall=0.0).kind == kind


def url_error(status: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("https://bank.example", status, "", email.message.Message(), None)


def urllib_refused() -> urllib.error.URLError:
    return urllib.error.URLError(ConnectionRefusedError(111, "refused"))


def raised_from(cause: BaseException, error: BaseException | None = None) -> BaseException:
    """Return an exception as a tool raises it `from` another."""
    error = error or RuntimeError("payment failed")
    error.__cause__ = cause
    return error


def raised_handling(handled: BaseException, *, is_suppressed: bool = False) -> BaseException:
    """Return an exception as a tool raises it in the `except` of another, also `from None`."""
    error = RuntimeError("payment failed")
    error.__context__, error.__suppress_context__ = handled, is_suppressed
    return error


class OperationalError(Exception):
    """An exception as one of psycopg or pymysql."""

    sqlstate: str | None = None


class DeadlockDetected(OperationalError):
    """One that holds the answer of a server."""

    sqlstate = "40P01"


def database_error(sqlstate: str, name: str = "sqlstate") -> Exception:
    """Return an exception as one of psycopg and asyncpg, or of psycopg2 (`pgcode`)."""
    kind: type[Exception] = type("DatabaseError", (Exception,), {name: sqlstate})
    return kind("the server says why")


def of_package(package: str, name: str, base: type[Exception] = Exception) -> type[Exception]:
    """Return a class of exceptions as a library has it."""
    return type(name, (base,), {"__module__": f"{package}.exceptions"})


class GrpcStatus(enum.Enum):
    """Codes as those of `grpc.StatusCode`."""

    UNAVAILABLE = 14
    DEADLINE_EXCEEDED = 4
    INTERNAL = 13
    UNKNOWN = 2
    CANCELLED = 1
    ABORTED = 10
    INVALID_ARGUMENT = 3
    RESOURCE_EXHAUSTED = 8


class RpcError(Exception):
    """An exception as one of `grpc`."""

    def __init__(self, status: GrpcStatus, details: str = "") -> None:
        super().__init__(status, details)
        self._status = status
        self._details = details

    def code(self) -> GrpcStatus:
        return self._status

    def details(self) -> str:
        return self._details


class FtpReply(ftplib.error_temp):
    """A reply of a server that may do otherwise another time."""


class FtpRefusal(ftplib.error_perm):
    """A reply of a server that refuses."""


class ClientError(Exception):
    """An exception as one of `botocore`."""

    def __init__(self, status: int) -> None:
        super().__init__("An error occurred")
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


class Timeout(OSError):
    """An exception as one of `requests`."""


class ConnectTimeout(ConnectionError, Timeout):
    """One of a library that did not come to send."""


@pytest.mark.parametrize(
    ("error", "is_unclear"),
    [
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (BrokenPipeError(), True),
        (OSError("device busy"), True),
        (asyncio.CancelledError(), True),
        (asyncio.IncompleteReadError(b"", 3), True),
        (subprocess.TimeoutExpired("pay", 3), True),
        (http.client.RemoteDisconnected("no answer"), True),
        (http.client.IncompleteRead(b""), True),
        (httpx.ReadTimeout("slow"), True),
        (httpx.WriteTimeout("slow"), True),
        (httpx.ReadError("reset"), True),
        (httpx.RemoteProtocolError("half an answer"), True),
        (Timeout("read timed out"), True),
        (http_error(500), True),
        (http_error(503), True),
        (http_error(504), True),
        (url_error(502), True),
        (urllib.error.URLError(TimeoutError()), True),
        (RuntimeError(TimeoutError()), True),
        (ToolError("no answer", is_unclear=True), True),
        (ExceptionGroup("g", [httpx.ReadTimeout("slow"), ValueError()]), True),
        (ExceptionGroup("g", [ResultRefused("NaN"), ValueError()]), True),
        (BrokenProcessPool("a worker died"), True),
        (EOFError(), True),
        (subprocess.CalledProcessError(-9, "pay"), True),
        (OperationalError("server closed the connection unexpectedly"), True),
        (OperationalError(2013, "Lost connection to MySQL server during query"), True),
        (raised_from(OperationalError("the connection is lost")), True),
        (type("ConnectionError", (Exception,), {})("closed by the server"), True),
        (RuntimeError(http_error(500)), True),
        (raised_from(httpx.ReadError("reset")), True),
        (raised_from(ssl.SSLEOFError(8, "EOF occurred in violation of protocol")), True),
        (raised_from(ssl.SSLZeroReturnError(6, "TLS connection has been closed")), True),
        (raised_from(ssl.SSLCertVerificationError(1, "self-signed certificate")), False),
        (raised_from(http_error(502)), True),
        (raised_from(ExceptionGroup("g", [TimeoutError(), ValueError()])), True),
        (raised_from(raised_from(TimeoutError())), True),
        (raised_from(ToolError("no answer", is_unclear=True)), True),
        (raised_from(ConnectionRefusedError(), TimeoutError("gave up")), True),
        (raised_handling(TimeoutError()), True),
        (raised_handling(http_error(500)), True),
        (imaplib.IMAP4.abort("socket error: EOF"), True),
        (FtpReply("426 Connection closed; transfer aborted."), True),
        (smtplib.SMTPServerDisconnected("Connection unexpectedly closed"), True),
        (http.client.BadStatusLine("?"), True),
        (subprocess.CalledProcessError(137, "pay"), True),
        (database_error("08006"), True),
        (database_error("57P01"), True),
        (database_error("57P02", "pgcode"), True),
        (database_error("40003"), True),
        (of_package("psycopg", "AdminShutdown")("terminating connection"), True),
        (of_package("psycopg", "TransactionResolutionUnknown")(), True),
        (of_package("pyodbc", "OperationalError")("HYT00", "time is up"), True),
        (of_package("psycopg2", "InterfaceError")("connection already closed"), True),
        (of_package("pymongo", "AutoReconnect")("connection closed"), True),
        (of_package("pymongo", "BulkWriteError")("batch op errors occurred"), True),
        (of_package("redis", "ConnectionError")("Connection closed by server."), True),
        (of_package("websockets", "ConnectionClosed")(), True),
        (ClientError(500), True),
        (RpcError(GrpcStatus.UNAVAILABLE), True),
        (RpcError(GrpcStatus.DEADLINE_EXCEEDED), True),
        (RpcError(GrpcStatus.INTERNAL), True),
        (RpcError(GrpcStatus.UNKNOWN), True),
        (RpcError(GrpcStatus.CANCELLED), True),
        (RpcError(GrpcStatus.RESOURCE_EXHAUSTED, "Received message larger than max"), True),
        (RpcError(GrpcStatus.RESOURCE_EXHAUSTED, "out of quota"), False),
        (RpcError(GrpcStatus.ABORTED), False),
        (RpcError(GrpcStatus.INVALID_ARGUMENT), False),
        (ClientError(400), False),
        (imaplib.IMAP4.error("NO"), False),
        (FtpReply("450 File busy"), False),
        (FtpRefusal("550 No such file"), False),
        (smtplib.SMTPRecipientsRefused({}), False),
        (smtplib.SMTPDataError(554, b"spam"), False),
        (database_error("23505"), False),
        (database_error("40001", "pgcode"), False),
        (of_package("psycopg", "IntegrityError")("duplicate key"), False),
        (of_package("pyodbc", "OperationalError")("42000", "syntax error"), False),
        (of_package("redis", "ResponseError")("WRONGTYPE"), False),
        (of_package("redis", "BusyLoadingError", ConnectionError)("loading"), False),
        (of_package("pymongo", "ServerSelectionTimeoutError")("no servers"), False),
        (of_package("pymongo", "WriteError")("E11000 duplicate key"), False),
        (raised_from(httpx.ConnectError(""), of_package("openai", "APIConnectionError")()), False),
        (ConnectionRefusedError(), False),
        (socket.gaierror(), False),
        (FileExistsError("paid.txt"), False),
        (PermissionError("paid.txt"), False),
        (httpx.ConnectError("refused"), False),
        (httpx.ConnectTimeout("no route"), False),
        (httpx.PoolTimeout("busy"), False),
        (ConnectTimeout("no route"), False),
        (urllib_refused(), False),
        (OSError(OSError(urllib_refused())), False),
        (http_error(401), False),
        (http_error(408), False),
        (http_error(409), False),
        (http_error(422), False),
        (http_error(429), False),
        (http_error(503, **{"Retry-After": "3"}), False),
        (url_error(404), False),
        (ValueError("no such account"), False),
        (ToolError("busy", transient=True), False),
        (ExceptionGroup("g", [httpx.ConnectError("refused"), ValueError()]), False),
        (subprocess.CalledProcessError(2, "pay"), False),
        (sqlite3.OperationalError("database is locked"), False),
        (DeadlockDetected("deadlock detected"), False),
        (OperationalError(1213, "Deadlock found when trying to get lock"), False),
        (raised_from(DeadlockDetected(), OperationalError("deadlock detected")), False),
        (raised_from(ConnectionRefusedError()), False),
        (raised_from(http_error(404)), False),
        (raised_from(KeyError("account")), False),
        (raised_handling(TimeoutError(), is_suppressed=True), False),
        (raised_handling(ConnectionRefusedError()), False),
        (raised_handling(KeyError("account")), False),
        (raised_from(TimeoutError(), ToolError("nothing was paid")), False),
    ],
    ids=repr,
)
def test_it_is_known_of_a_failure_whether_the_call_may_have_taken_effect(
    error: BaseException, is_unclear: object
) -> None:
    assert describe_failure(error, wall=0.0).is_unclear is is_unclear


def read_answer() -> None:
    answer: dict[str, str] = {}
    answer["id"]


def read_text() -> None:
    json.loads("<html>")


def refuse() -> None:
    raise ValueError("no such account")


def refuse_after_look_up() -> None:
    try:
        read_answer()
    except KeyError as error:
        raise ValueError("no such account") from error


def refuse_by_assertion() -> None:
    assert not GrpcStatus.ABORTED.value, "nothing is to be paid"


async def refuse_in_group() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, refuse)


def refuse_connection() -> None:
    raise ConnectionRefusedError


def pay_elsewhere() -> None:
    try:
        refuse_connection()
    except ConnectionRefusedError:
        read_answer()


def raised_by_library(package: str, error: Exception | None = None) -> Callable[[], None]:
    """Return a function of an installed package that raises."""
    where: dict[str, Callable[[], None]] = {}
    code = "def connect():\n    raise error\n"
    path = f"{sysconfig.get_path('purelib')}/{package}/client.py"
    names = {"__name__": f"{package}.client", "error": error or ValueError("no answer")}
    exec(compile(code, path, "exec"), names, where)  # noqa: S102
    return where["connect"]


def call_library() -> None:
    raised_by_library("bank")()


@pytest.mark.parametrize(
    ("work", "is_unclear"),
    [
        (refuse, False),
        (refuse_after_look_up, False),
        (refuse_by_assertion, False),
        (refuse_in_group, False),
        (sys.exit, False),
        (raised_by_library("an_installed_tool"), False),
        (read_answer, True),
        (read_text, True),
        (pay_elsewhere, True),
        (call_library, True),
    ],
)
async def test_only_what_a_tool_raises_itself_is_its_word_that_it_failed(
    work: Callable[[], Awaitable[None] | None], is_unclear: object
) -> None:
    error = await raised_by(work)

    assert describe_failure(error, wall=0.0).is_unclear is is_unclear


def answer_of_bank(request: httpx.Request) -> httpx.Response:
    """Take a payment, refuse all else, or have no connection."""
    if request.url.path == "/closed":
        raised_by_library("httpx", httpx.ConnectError("refused"))()
    return httpx.Response(200 if request.url.path in {"/paid", "/token"} else 422)


def as_library(function: FunctionType, package: str) -> FunctionType:
    """Return a function as one of an installed package."""
    path = f"{sysconfig.get_path('purelib')}/{package}/client.py"
    names = {**function.__globals__, "__name__": f"{package}.client"}
    return FunctionType(function.__code__.replace(co_filename=path), names)


BANK = httpx.MockTransport(as_library(cast("FunctionType", answer_of_bank), "httpx"))


def bank() -> httpx.Client:
    return httpx.Client(base_url="https://bank.example", transport=BANK)


def pay_one(path: str) -> httpx.Response:
    return bank().post(path)


def require_success(answer: httpx.Response) -> None:
    answer.raise_for_status()


def pay_and_send_receipt() -> None:
    with bank() as client:
        client.request("POST", "/paid")
        client.post("/closed")


def pay_and_have_the_receipt_refused() -> None:
    with bank() as client:
        client.post("/paid").raise_for_status()
        answer = client.put("/no")
        require_success(answer)


def pay_and_fail_to_read() -> None:
    paid = pay_one("/paid")
    if paid.is_success:
        bank().get("/closed")


def pay_in_turn() -> None:
    for path in ("/paid", "/closed"):
        pay_one(path)


def pay_and_wrap() -> None:
    try:
        pay_and_send_receipt()
    except httpx.HTTPError as error:
        raise RuntimeError("failed") from error


def pay_once(path: str = "/closed") -> None:
    client = bank()
    client.get("/token").raise_for_status()
    client.request("GET", "/token")
    if path == "/paid":
        client.post("/paid")
    else:
        client.post(path, json={"token": client.get("/token").text})


def have_payment_refused() -> None:
    answer = pay_one("/no")
    require_success(answer)


def pay_or_leave(*, is_trial: bool = False) -> None:
    if is_trial:
        pay_one("/paid")
        return
    pay_one("/closed")


def pay_with_attempts() -> None:
    for attempt in range(2):
        try:
            pay_one("/closed")
        except httpx.ConnectError:
            if attempt:
                raise


def pay_elsewhere_instead() -> None:
    try:
        pay_one("/closed")
    except httpx.ConnectError:
        bank().post("/no").raise_for_status()


def pay_and_have_the_receipt_refused_at_once() -> None:
    client = bank()
    client.post("/paid").raise_for_status()
    client.post("/no").raise_for_status()


def pay_with_token_that_is_refused() -> None:
    client = bank()
    client.post("/no", json={"token": client.get("/token").text}).raise_for_status()


def pay_and_ask_for_success() -> None:
    if bank().post("/paid").is_success:
        bank().post("/closed")


def pay_and_go_on() -> None:
    try:
        pay_one("/paid")
    except httpx.ConnectError:
        return
    else:
        pay_one("/closed")


def pay_and_log_out() -> None:
    try:
        pay_one("/paid")
    finally:
        bank().delete("/closed")


def pay_on_either_way(*, is_trial: bool = False) -> None:
    client = bank()
    client.post("/paid") if is_trial else client.post("/closed")


def pay_and_choose() -> None:
    client = bank()
    client.post("/closed") if client.post("/paid").is_success else client.get("/token")


def pay_and_choose_the_other_way() -> None:
    client = bank()
    client.get("/token") if client.post("/paid").is_error else client.post("/closed")


def pay_in_one_case(kind: str = "refund") -> None:
    client = bank()
    match kind:
        case "payment":
            client.post("/paid")
        case _:
            client.put("/closed")


def pay_before_a_case(kind: str = "refund") -> None:
    client = bank()
    match kind:
        case "refund" if client.post("/paid").is_success:
            client.put("/closed")
        case _:
            pass


def pay_and_in_a_group_go_on() -> None:
    client = bank()
    try:
        client.post("/paid")
    except* httpx.HTTPError:
        pass
    else:
        client.put("/closed")


def pay_with_attempts_in_groups() -> None:
    client, is_paid = bank(), False
    while not is_paid:
        try:
            client.post("/closed")
        except* ValueError:
            is_paid = True


def pay_all() -> None:
    for answer in [bank().post(path) for path in ("/paid", "/closed")]:
        require_success(answer)


def pay_all_by_name() -> None:
    answers = {path: bank().post(path) for path in ("/paid", "/closed")}
    require_success(answers["/closed"])


def pay_with_attempts_and_raise_the_last() -> None:
    last: Exception = ValueError("no attempt")
    for _ in range(2):
        try:
            pay_one("/closed")
        except httpx.ConnectError as error:
            last = error
    raise last


async def refuse_payment() -> None:
    pay_one("/closed")


async def pay_in_time() -> None:
    await asyncio.wait_for(refuse_payment(), 60)  # noqa: TID251 - as tools may


async def pay_and_say_so_meanwhile() -> None:
    async with httpx.AsyncClient(base_url="https://bank.example", transport=BANK) as client:
        (await client.post("/paid")).raise_for_status()
        await client.post("/closed")


class Shop:
    """A class of a tool's own."""

    def __init__(self) -> None:
        self.client = bank()

    def pay(self, path: str) -> httpx.Response:
        return self.client.post(path)

    def look(self) -> httpx.Response:
        return self.client.get("/token")

    def __call__(self, path: str) -> httpx.Response:
        return self.pay(path)

    @property
    def is_paid(self) -> bool:
        return self.pay("/paid").is_success


class Payment:
    def __init__(self) -> None:
        pay_one("/paid")


class Opened:
    def __init__(self, path: str) -> None:
        self.client = bank()
        self.path = path

    def __enter__(self) -> Self:
        self.client.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()


class Reserved(Opened):
    async def __aenter__(self) -> Self:
        self.client.post("/paid")
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@dataclass(frozen=True)
class Order:
    path: str
    lines: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class PaidOrder(Order):
    def __post_init__(self) -> None:
        pay_one("/paid")


def pay_by_own_class() -> None:
    shop = Shop()
    shop.pay("/paid")
    shop.client.put("/closed")


def pay_by_object() -> None:
    shop = Shop()
    shop("/paid")
    shop.client.put("/closed")


def pay_by_making() -> None:
    Payment()
    bank().put("/closed")


def pay_by_making_a_record() -> None:
    order = PaidOrder("/closed")
    bank().put(order.path)


async def pay_by_opening() -> None:
    async with Reserved("/closed") as reserved:
        reserved.client.put(reserved.path)


def pay_by_lambda() -> None:
    pay: Callable[[str], httpx.Response] = lambda path: bank().post(path)  # noqa: E731 - as tools may
    pay("/paid")
    bank().put("/closed")


def pay_by_inner_function() -> None:
    def pay() -> httpx.Response:
        return bank().post("/paid")

    pay()
    bank().put("/closed")


def pay_by_map() -> None:
    with bank() as client:
        list(map(client.post, ["/paid", "/closed"]))


def pay_by_map_of_a_partial() -> None:
    with bank() as client:
        list(map(partial(client.post, json=1), ["/paid", "/closed"]))


def pay_in_pool() -> None:
    with ThreadPoolExecutor(1) as pool:
        paid = [pool.submit(pay_one, path) for path in ("/paid", "/closed")]
        for payment in paid:
            payment.result()


def pay_by_name() -> None:
    getattr(bank(), "po" + "st")("/paid")
    bank().put("/closed")


def write_to_database_and_pay() -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE paid (id INTEGER)")
    database.commit()
    bank().post("/closed")


def write_to_socket_and_pay() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as own:
        own.sendto(b"paid", ("127.0.0.1", 9))
    bank().post("/closed")


def run_and_pay() -> None:
    subprocess.run(["true"], check=True)
    bank().post("/closed")


def headers_of_bank() -> dict[str, str]:
    headers: dict[str, str] = {}
    headers.update(host="bank.example")
    headers["key"] = hashlib.sha256(uuid.uuid4().bytes).hexdigest()
    return headers


def prepare_and_pay() -> None:
    logging.getLogger("tool").info("a payment of %s", json.dumps({"amount": 3}))
    headers = headers_of_bank()
    headers.update(at=dt.datetime.now(dt.UTC).isoformat())
    with bank() as client:
        client.headers.update(headers)
        client.send(client.build_request("POST", "/closed"))


def fill_in_and_pay() -> None:
    order = Order("/closed", ["3 apples"])
    with Opened(order.path) as shop:
        shop.client.put(shop.path, json=order.lines)


def pay_for_record() -> None:
    order = Order("/closed", ["3 apples"])
    order.lines.append("2 pears")
    receipt = {"lines": [line.upper() for line in order.lines]}
    receipt["of"] = [order.path]
    bank().put(order.path, json=receipt)


def look_and_pay() -> None:
    shop = Shop()
    shop.look()
    by_length = sorted(["/closed", "/no"], key=lambda path: -len(path))
    shop.client.put(by_length[0])


def pay_by_partial() -> None:
    pay = partial(pay_one, "/closed")
    pay()


async def pay_in_thread() -> None:
    await asyncio.sleep(0)  # noqa: TID251 - as tools may
    await anyio.to_thread.run_sync(pay_one, "/closed")


def wrap_refusal() -> None:
    try:
        bank().post("/no").raise_for_status()
    except httpx.HTTPError as error:
        raise RuntimeError("failed") from error


def pay_and_wrap_the_receipt() -> None:
    pay_one("/paid")
    wrap_refusal()


def pay_and_unlock() -> None:
    try:
        pay_one("/closed")
    finally:
        bank().delete("/paid")


def pay_and_have_the_token_refused() -> None:
    client = bank()
    token = client.get("/no")
    client.post("/paid")
    token.raise_for_status()


def pay_twice() -> httpx.Response:
    pay_one("/paid")
    return pay_one("/no")


def pay_twice_and_ask_for_success() -> None:
    pay_twice().raise_for_status()


async def pay_in_tasks() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(refuse_payment)
        group.start_soon(anyio.to_thread.run_sync, pay_one, "/paid")


def pay_by_library_that_tries_again() -> None:
    attempts = as_library(cast("FunctionType", call_with), "retries")
    attempts(refused_payment_of, "/closed")


def call_with(work: Callable[[str], httpx.Response], path: str) -> None:
    work(path)


def refused_payment_of(path: str) -> httpx.Response:
    return bank().post(path)


def have_payment_within_refused() -> None:
    def pay() -> None:
        bank().post("/no").raise_for_status()

    pay()


RESERVED = Reserved("/closed")


async def pay_by_opening_what_is_there() -> None:
    async with RESERVED:
        bank().put("/closed")


def pay_by_property() -> None:
    shop = Shop()
    if shop.is_paid:
        shop.client.put("/closed")


async def pay_all_meanwhile() -> None:
    async with httpx.AsyncClient(base_url="https://bank.example", transport=BANK) as client:
        payments = [client.post(path) for path in ("/paid", "/closed")]
        await asyncio.gather(*payments)  # noqa: TID251 - as tools may


async def pay_in_task(path: str) -> None:
    pay_one(path)


async def pay_all_in_tasks() -> None:
    await asyncio.gather(*[pay_in_task(path) for path in ("/paid", "/closed")])  # noqa: TID251


def pay_all_and_ask_of_the_last() -> None:
    answer: httpx.Response | None = None
    for path in ("/paid", "/no"):
        answer = pay_one(path)
    assert answer is not None
    answer.raise_for_status()


def login(client: httpx.Client, *_: object) -> None:
    client.post("/no").raise_for_status()


login_of_library = as_library(cast("FunctionType", login), "bank_client")


class ClientOfLibrary(httpx.Client):
    __exit__ = login_of_library


def pay_and_log_in_by_library() -> None:
    client = bank()
    client.post("/paid")
    login_of_library(client)


def pay_and_log_out_by_library() -> None:
    opened = ClientOfLibrary(base_url="https://bank.example", transport=BANK)
    with opened as client:
        client.post("/paid")


class Receipt:
    """Read from the bank where it is asked for."""

    def __init__(self, client: httpx.Client) -> None:
        client.post("/paid")
        self.client = client

    def text(self) -> str:
        return self.client.get("/closed").text


class ReceiptOfLibrary(Receipt):
    read = property(as_library(cast("FunctionType", Receipt.text), "bank_client"))


def pay_by_library(client: httpx.Client) -> ReceiptOfLibrary:
    return ReceiptOfLibrary(client)


order_of_library = as_library(cast("FunctionType", pay_by_library), "bank_client")


def pay_and_read_the_receipt() -> None:
    print(order_of_library(bank()).read)


def paid_by_error(error: Exception) -> Exception:
    pay_one("/paid")
    return RuntimeError(str(error))


def fail_and_pay_for_it() -> None:
    try:
        bank().get("/closed")
    except httpx.HTTPError as error:
        raise paid_by_error(error) from error


def pay_by_method_on_a_line_of_its_own() -> None:
    client = bank()
    client.post("/paid")
    # fmt: off
    (client
        .post("/closed"))
    # fmt: on


def pay_by_any_bank() -> None:
    secrets.choice([bank()]).post("/paid")
    bank().post("/closed")


def queue_and_pay() -> None:
    payments: queue.SimpleQueue[str] = queue.SimpleQueue()
    payments.put("/paid")
    bank().post("/closed")


async def run_by_anyio_and_pay() -> None:
    await anyio.run_process(["true"])
    bank().post("/closed")


def body_of_payment() -> str:
    import json

    return json.dumps({"amount": 3})


def fill_in_and_have_payment_refused() -> None:
    body = body_of_payment()
    bank().post("/no", content=body).raise_for_status()


def index(store: httpx.Client, path: str) -> None:
    store.post(path)


class StoreOfLibrary(httpx.Client):
    index = as_library(cast("FunctionType", index), "store_client")


def store_and_pay() -> None:
    StoreOfLibrary(base_url="https://bank.example", transport=BANK).index("/paid")
    bank().post("/closed")


def fill_in_a_copy_and_pay() -> None:
    order = {"amount": 3}.copy()
    bank().post("/closed", json={**order, "to": "an-ib-an".replace("-", "")})


def run_another_way_and_pay() -> None:
    with subprocess.Popen(["true"]):
        pass
    bank().post("/closed")


class AnsweringBank(urllib.request.BaseHandler):
    def http_open(self, request: urllib.request.Request) -> io.BytesIO:
        return io.BytesIO(request.full_url.encode())


OPENER = urllib.request.OpenerDirector()
OPENER.add_handler(AnsweringBank())


def pay_by_opener() -> None:
    OPENER.open("http://bank.example/paid", b"{}")
    bank().post("/closed")


class Payer(threading.Thread):
    def run(self) -> None:
        pay_one("/paid")


def pay_by_own_thread() -> None:
    payer = Payer()
    payer.start()
    payer.join()
    bank().post("/closed")


class Account:
    """Pays as it is changed."""

    @property
    def balance(self) -> int:
        return 3

    @balance.setter
    def balance(self, amount: int) -> None:
        pay_one(f"/paid?{amount}")

    def __setitem__(self, name: str, amount: int) -> None:
        pay_one(f"/paid?{name}={amount}")

    def __iadd__(self, amount: int) -> Self:
        pay_one(f"/paid?{amount}")
        return self

    def __str__(self) -> str:
        return pay_one("/paid").text


class LateAccount:
    def __setattr__(self, name: str, amount: object) -> None:
        pay_one(f"/paid?{name}={amount}")


ACCOUNT, LATE_ACCOUNT = Account(), LateAccount()


def pay_by_setter() -> None:
    ACCOUNT.balance = 3
    bank().post("/closed")


def pay_by_item() -> None:
    ACCOUNT["ann"] = 3
    bank().post("/closed")


def pay_by_adding() -> None:
    account = ACCOUNT
    account += 3
    bank().post("/closed")


def pay_by_text() -> None:
    bank().post("/closed", json=f"{ACCOUNT}")


def pay_by_attribute() -> None:
    LATE_ACCOUNT.balance = 3
    bank().post("/closed")


class Door:
    """Pays as it is opened, and opens others."""

    def __enter__(self) -> None:
        pay_one("/paid")

    def __exit__(self, *_: object) -> None:
        pass


DOOR = Door()


class OuterDoor(Door):
    def __enter__(self) -> None:
        with DOOR:
            pass


class DoorWithin(Door):
    def __init__(self) -> None:
        self.door = Door()

    def __enter__(self) -> None:
        with self.door:
            pass


DOOR_WITHIN = DoorWithin()


def pay_by_opening_another() -> None:
    with OuterDoor():
        pass
    bank().post("/closed")


def pay_by_opening_what_it_has() -> None:
    with DOOR_WITHIN:
        pass
    bank().post("/closed")


def write_delta(amounts: list[int]) -> None:
    pay_one(f"/paid?{amounts}")


write_table_of_library = as_library(cast("FunctionType", write_delta), "polars")


def pay_by_table() -> None:
    write_table_of_library([1, 2])
    bank().post("/closed")


class PaymentOfShop(Payment):
    def __init__(self) -> None:
        super().__init__()
        self.client = bank()


def pay_by_base() -> None:
    PaymentOfShop().client.post("/closed")


class AccountOfLibrary:
    __setitem__ = as_library(cast("FunctionType", Account.__setitem__), "account_client")


def pay_by_item_of_library() -> None:
    AccountOfLibrary()["ann"] = 3
    bank().post("/closed")


def store_in(store: Any) -> None:
    store.index("/paid")


def store_in_what_is_unknown_and_pay() -> None:
    store_in(StoreOfLibrary(base_url="https://bank.example", transport=BANK))
    bank().post("/closed")


class ShopClient(httpx.Client):
    def __init__(self) -> None:
        super().__init__(base_url="https://bank.example", transport=BANK)
        self.headers["key"] = "k"
        self.sums = {"ann": Decimal(1)}

    def __getattr__(self, name: str) -> Decimal:
        return self.sums[name]

    def __setitem__(self, name: str, amount: Decimal) -> None:
        self.sums[name] = self.sums.get(name, Decimal()) + amount

    def __enter__(self) -> Self:
        return self


def lines_of(order: dict[str, str], lines: list[str]) -> dict[str, str]:
    copied = order.copy()
    copied["at"] = str(lines.index("apples"))
    return copied


def totals(amounts: list[int]) -> Counter[int]:
    return Counter(amounts)


totals_of_library = as_library(cast("FunctionType", totals), "pandas")


def compute_and_pay() -> None:
    bank().post("/closed", json=totals_of_library([1, 2]).most_common())


def fill_in_own_objects_and_pay() -> None:
    request = urllib.request.Request("http://bank.example")
    request.add_header("key", "k")
    random.random()  # noqa: S311 - as tools may
    with ShopClient() as shop:
        shop["ann"] = Decimal(2)
        shop["ann"] = shop.ann
        shop.timeout = 3
        shop.post("/closed", json=lines_of({"name": "ann"}, ["apples"]))


@pytest.mark.parametrize(
    ("work", "is_unclear"),
    [
        (pay_and_send_receipt, True),
        (pay_by_opener, True),
        (pay_by_own_thread, True),
        (pay_by_setter, True),
        (pay_by_item, True),
        (pay_by_adding, True),
        (pay_by_text, True),
        (pay_by_attribute, True),
        (pay_by_opening_another, True),
        (pay_by_opening_what_it_has, True),
        (pay_by_table, True),
        (pay_by_base, True),
        (pay_by_item_of_library, True),
        (store_in_what_is_unknown_and_pay, True),
        (compute_and_pay, False),
        (fill_in_own_objects_and_pay, True),
        (pay_and_wrap_the_receipt, True),
        (pay_and_unlock, True),
        (pay_and_have_the_token_refused, True),
        (pay_twice_and_ask_for_success, True),
        (pay_in_tasks, True),
        (pay_by_library_that_tries_again, True),
        (pay_by_property, True),
        (pay_by_opening_what_is_there, True),
        (store_and_pay, True),
        (fill_in_a_copy_and_pay, False),
        (run_another_way_and_pay, True),
        (pay_all_meanwhile, True),
        (pay_all_in_tasks, True),
        (pay_all_and_ask_of_the_last, True),
        (pay_and_log_in_by_library, True),
        (pay_and_log_out_by_library, True),
        (pay_and_read_the_receipt, True),
        (fail_and_pay_for_it, True),
        (pay_by_method_on_a_line_of_its_own, True),
        (pay_by_any_bank, True),
        (queue_and_pay, True),
        (run_by_anyio_and_pay, True),
        (wrap_refusal, False),
        (pay_and_have_the_receipt_refused, True),
        (pay_and_fail_to_read, True),
        (pay_in_turn, True),
        (pay_and_wrap, True),
        (pay_and_say_so_meanwhile, True),
        (pay_and_have_the_receipt_refused_at_once, True),
        (pay_and_ask_for_success, True),
        (pay_and_go_on, True),
        (pay_and_log_out, True),
        (pay_before_a_case, True),
        (pay_and_in_a_group_go_on, True),
        (pay_all, True),
        (pay_all_by_name, True),
        (pay_and_choose, True),
        (pay_and_choose_the_other_way, True),
        (pay_by_own_class, True),
        (pay_by_object, True),
        (pay_by_making, True),
        (pay_by_making_a_record, True),
        (pay_by_opening, True),
        (pay_by_lambda, True),
        (pay_by_inner_function, True),
        (pay_by_map, True),
        (pay_by_map_of_a_partial, True),
        (pay_in_pool, True),
        (pay_by_name, True),
        (write_to_database_and_pay, True),
        (write_to_socket_and_pay, True),
        (run_and_pay, True),
        (pay_by_partial, True),
        (pay_with_attempts_and_raise_the_last, True),
        (pay_on_either_way, True),
        (pay_with_attempts, True),
        (pay_with_attempts_in_groups, True),
        (pay_elsewhere_instead, True),
        (prepare_and_pay, False),
        (pay_for_record, False),
        (fill_in_and_pay, True),
        (look_and_pay, True),
        (pay_in_thread, False),
        (pay_with_token_that_is_refused, False),
        (pay_in_time, False),
        (pay_once, False),
        (have_payment_refused, False),
        (have_payment_within_refused, True),
        (fill_in_and_have_payment_refused, True),
        (pay_or_leave, True),
        (pay_in_one_case, False),
    ],
)
async def test_a_refusal_says_nothing_of_a_request_before_the_one_refused(
    work: Callable[[], Awaitable[None] | None], is_unclear: object
) -> None:
    error = await raised_by(work)

    assert describe_failure(error, wall=0.0).is_unclear is is_unclear


async def raised_by(work: Callable[[], Awaitable[None] | None]) -> BaseException:
    """Return what a tool raises; its traceback begins with the tool's own frame."""
    try:
        awaited = work()
        if awaited is not None:
            await awaited
    except BaseException as error:  # noqa: BLE001 - as the engine takes whatever a tool raises
        below_this = None if error.__traceback__ is None else error.__traceback__.tb_next
        return error.with_traceback(below_this)
    return pytest.fail("it raised nothing")


def test_an_exception_that_passes_on_itself_is_judged_by_its_own_name() -> None:
    error = TimeoutError()
    error.args = (error,)

    assert describe_failure(error, wall=0.0).is_unclear


@pytest.mark.parametrize(("status", "kind"), [(404, "tool"), (429, "transient")])
def test_an_answer_is_told_by_its_status_in_exceptions_of_urllib_too(
    status: int, kind: ErrorKind
) -> None:
    error = url_error(status)
    error.headers["Retry-After"] = "7"

    failure = describe_failure(error, wall=0.0)

    assert (failure.kind, failure.retry_after) == (kind, 7.0)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ToolError("the service said no"), "the service said no"),
        (ValueError("no such code"), "ValueError: no such code"),
        (ValueError(), "ValueError"),
        (ExceptionGroup("g", [KeyError("x")]), "KeyError: 'x'"),
        (ExceptionGroup("g", [ValueError("a"), OSError("b")]), "ValueError: a; OSError: b"),
    ],
)
def test_a_failure_speaks_in_the_tools_words(error: BaseException, message: str) -> None:
    assert describe_failure(error, wall=0.0).message == message


def test_a_very_long_message_is_cut() -> None:
    assert len(describe_failure(ValueError("x" * 10_000), wall=0.0).message) == 2000


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        (" 1.5", 1.5),
        ("999999", 3600.0),
        ("soon", None),
        ("-5", None),
        ("Tue, 01 Feb 99999999999 00:00:00 GMT", None),
        (email.utils.formatdate(1_000_030, usegmt=True), 30.0),
        (email.utils.formatdate(999_000, usegmt=True), 0.0),
    ],
)
def test_retry_after_is_a_number_or_a_date_and_never_endless(
    header: str, seconds: float | None
) -> None:
    failure = describe_failure(http_error(429, **{"Retry-After": header}), wall=1_000_000.0)

    assert failure.retry_after == seconds


@pytest.mark.parametrize(("seconds", "waited"), [(7.5, 7.5), (float("inf"), 3600.0), (None, None)])
def test_a_tool_says_how_long_to_wait(seconds: float | None, waited: float | None) -> None:
    failure = describe_failure(ToolError("busy", transient=True, retry_after=seconds), wall=0.0)

    assert failure.retry_after == waited


@pytest.mark.parametrize(
    ("on", "failure", "again"),
    [
        (("transient",), AttemptFailure("transient", ""), True),
        (("transient",), AttemptFailure("tool", ""), False),
        (("transient",), AttemptFailure("timeout", ""), False),
        (("timeout",), AttemptFailure("timeout", ""), True),
        (("any",), AttemptFailure("tool", ""), True),
        (("any",), AttemptFailure("output", ""), True),
        (("KeyError",), describe_failure(KeyError(), 0.0), True),
        (("LookupError",), describe_failure(KeyError(), 0.0), True),
        (("builtins.KeyError",), describe_failure(KeyError(), 0.0), True),
        (("ValueError",), describe_failure(KeyError(), 0.0), False),
        ((), AttemptFailure("transient", ""), False),
    ],
)
def test_what_is_tried_again_is_the_policys_word(
    on: tuple[str, ...], failure: AttemptFailure, again: object
) -> None:
    assert may_retry(failure, Retry(attempts=2, on=on), 1) is again
    assert may_retry(failure, Retry(attempts=2, on=on), 2) is False


@given(
    attempt=st.integers(1, 100),
    initial=st.floats(0.01, 10),
    most=st.floats(0.01, 100),
    base=st.floats(1, 10),
    jitter=st.floats(0, 5),
)
def test_a_wait_grows_to_the_ceiling_and_never_past_it(
    attempt: int, initial: float, most: float, base: float, jitter: float
) -> None:
    retry = Retry(attempts=100, wait_initial=initial, wait_max=most, wait_exp_base=base)
    failure = AttemptFailure("transient", "")
    wait = seconds_before_retry(attempt, retry, jitter, failure)

    assert 0 < wait <= most
    assert wait >= min(most, initial)
    assert seconds_before_retry(min(attempt + 1, 100), retry, jitter, failure) >= wait


async def test_a_transient_failure_is_tried_again_after_growing_waits() -> None:
    flaky = Flaky([ConnectionError() for _ in range(4)])
    ending = await flaky.run(Retry(attempts=5, wait_initial=1, wait_exp_base=2, wait_max=5))

    assert flaky.waits == [1, 2, 4, 5]
    assert (ending.status, ending.output, ending.attempts) == ("ok", 5, 5)


class Unreadable(Exception):
    """An exception whose text and properties fail themselves."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    @property
    def response(self) -> httpx.Response:
        raise RuntimeError("no response")


@pytest.mark.parametrize(
    "error", [Unreadable(), ExceptionGroup("two", [Unreadable(), Unreadable()])]
)
async def test_an_exception_that_cannot_be_read_fails_its_step_alone(error: Exception) -> None:
    ending = await Flaky([error]).run()

    assert ending.status == "failed"
    assert ending.error is not None
    assert ending.error.kind == "tool"
    assert "Unreadable: <its text cannot be read: __str__ failed>" in ending.error.message


async def test_the_random_part_is_added_to_each_wait() -> None:
    flaky = Flaky([ConnectionError(), ConnectionError()], clock=VirtualClock(jitter=0.5))
    await flaky.run(Retry(attempts=3, wait_initial=1, wait_jitter=4, wait_max=100))

    assert flaky.waits == [3, 4]


async def test_a_server_that_says_when_is_obeyed() -> None:
    flaky = Flaky([http_error(503, **{"Retry-After": "40"})])
    await flaky.run(Retry(attempts=2))

    assert flaky.waits == [40]


async def test_attempts_end_with_the_last_failure() -> None:
    flaky = Flaky([ConnectionError("first"), ConnectionError("second"), ConnectionError("third")])
    ending = await flaky.run(Retry(attempts=2))

    assert ending.status == "failed"
    assert ending.error is not None
    assert (ending.error.kind, ending.error.message, ending.error.attempts) == (
        "transient",
        "ConnectionError: second",
        2,
    )


async def test_without_a_policy_there_is_one_attempt() -> None:
    flaky = Flaky([ConnectionError()])

    assert (await flaky.run()).attempts == 1


async def test_the_wait_for_another_attempt_takes_nobodys_place() -> None:
    flaky = Flaky([ConnectionError()])
    bench = ExecutionHarness().add(flaky.answer)
    bench.add(answering("done"), "other")
    plan = plan_of(
        {"id": "a", "retry": {"attempts": 2, "wait_initial": 30, "wait_max": 30}},
        {"id": "b", "tool": "other"},
    )
    await bench.run(plan, clock=flaky.clock, limits=Limits(concurrency=1))

    assert bench.called == ["a", "b", "a"]


async def test_every_attempt_sees_the_parameters_as_the_plan_gives_them() -> None:
    seen: list[Json] = []

    def answer(call: ToolCall) -> Json:
        rows = call.params["rows"]
        assert isinstance(rows, list)
        seen.append(list(rows))
        rows.clear()
        raise ConnectionError

    bench = ExecutionHarness().add(answer)
    await bench.run(
        plan_of({"id": "a", "params": {"rows": [1]}, "retry": {"attempts": 2}}),
        clock=VirtualClock(),
    )

    assert seen == [[1], [1]]


# -- deadlines


async def run_hanging(hang: Answer, clock: VirtualClock, **step: object) -> RunState:
    bench = ExecutionHarness().add(hang, "hang")
    bench.add(answering("done"))
    return await bench.run(plan_of({"id": "a", "tool": "hang", **step}, {"id": "b"}), clock=clock)


async def test_an_attempt_that_takes_too_long_is_cancelled() -> None:
    clock = VirtualClock()
    start = clock.now
    ended: list[str] = []

    async def hang(call: ToolCall) -> Json:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")
        return None

    state = await run_hanging(hang, clock, timeout=20)
    error = state.steps[StepId("a")].error

    assert statuses(state) == {"a": "failed", "b": "ok"}
    assert error is not None
    assert (error.kind, error.message) == ("timeout", "no answer within 20 s")
    assert ended == ["cancelled"]
    assert clock.now - start == 20


async def test_each_call_has_its_own_deadline() -> None:
    clock = VirtualClock()
    start = clock.now
    ended: dict[str, float] = {}

    async def hang(call: ToolCall) -> Json:
        try:
            await anyio.sleep_forever()
        finally:
            ended[call.step] = clock.now - start
        return None

    bench = ExecutionHarness().add(hang)
    await bench.run(
        plan_of(*({"id": f"s{seconds}", "timeout": seconds} for seconds in (50, 10, 30))),
        clock=clock,
    )

    assert ended == {"s10": 10, "s30": 30, "s50": 50}


async def test_a_timeout_is_tried_again_where_the_policy_says_so() -> None:
    clock = VirtualClock()

    async def hang_once(call: ToolCall) -> Json:
        if call.attempt == 1:
            await anyio.sleep_forever()
        return "there"

    state = await run_hanging(
        hang_once, clock, timeout=20, retry={"attempts": 2, "on": ["timeout"], "wait_jitter": 0}
    )

    assert statuses(state) == {"a": "ok", "b": "ok"}


async def test_a_call_that_swallows_its_cancellation_is_cancelled_again() -> None:
    clock = VirtualClock()
    start = clock.now
    swallowed = 0

    async def stubborn(call: ToolCall) -> Json:
        nonlocal swallowed
        while swallowed < 3:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                swallowed += 1
        return "late"

    state = await run_hanging(stubborn, clock, timeout=20)
    error = state.steps[StepId("a")].error

    assert error is not None
    assert error.kind == "timeout"
    assert clock.now - start == 22


async def wait_with_anyio() -> None:
    with anyio.move_on_after(0.001):
        await anyio.sleep_forever()


async def wait_with_asyncio() -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(0.001):
            await anyio.sleep_forever()


@pytest.mark.parametrize("wait", [wait_with_anyio, wait_with_asyncio])
async def test_a_call_may_limit_parts_of_its_own_work_again_and_again(
    wait: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "GRACE_SECONDS", 0.005)

    async def impatient(call: ToolCall) -> Json:
        for _ in range(3):
            await wait()
            await anyio.sleep(0.006)
        return "done"

    state = await ExecutionHarness().add(impatient).run(plan_of({"id": "a"}))

    assert statuses(state) == {"a": "ok"}


async def swallow_for_ever(call: ToolCall) -> Json:
    while True:
        try:
            await anyio.sleep(3600)
        except asyncio.CancelledError:
            continue


async def test_a_call_that_swallows_every_cancellation_is_abandoned_and_gives_its_place_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    start = clock.now
    plan = plan_of({"id": "a", "tool": "hang", "timeout": 20}, {"id": "b"})
    bench = ExecutionHarness().add(swallow_for_ever, "hang").add(echo)

    state = await bench.run(plan, clock=clock, limits=Limits(concurrency=1))

    error = state.steps[StepId("a")].error
    assert error is not None
    assert (error.kind, "swallowed its cancellation" in error.message) == ("timeout", True)
    assert state.status(StepId("b")) == "ok"
    assert clock.now - start == 20 + GRACE_SECONDS
    assert "the call of step 'a' swallowed its cancellation" in caplog.text


async def test_a_run_is_stopped_although_a_call_swallows_every_cancellation(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "GRACE_SECONDS", 0.05)

    bench = ExecutionHarness().add(swallow_for_ever)
    state = await bench.run(plan_of({"id": "a"}), limits=Limits(run_timeout=0.01))

    assert statuses(state) == {"a": "cancelled"}
    assert "the call of step 'a' swallowed its cancellation" in caplog.text


async def test_a_deadline_reaches_into_a_tools_own_task_group() -> None:
    clock = VirtualClock()

    async def nested(call: ToolCall) -> Json:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            group.start_soon(anyio.sleep_forever)
        return None

    state = await run_hanging(nested, clock, timeout=20)
    error = state.steps[StepId("a")].error

    assert error is not None
    assert error.kind == "timeout"
    assert statuses(state)["b"] == "ok"
