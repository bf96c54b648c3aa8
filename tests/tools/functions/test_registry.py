"""The registry: what of a function becomes a signature, and what its calls give."""

from __future__ import annotations

import datetime as dt
import functools
import math
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypedDict

import anyio
import pytest
from pydantic import BaseModel, Field, JsonValue

from tests.tools.calling import MARCH_2010, call, request
from wavewright.planner.language.plan import Retry
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import properties_of
from wavewright.tools import Registry, RunData, ToolDefinitionError, ToolError, make_tool
from wavewright.tools.functions.contracts import read_contract


class Invoice(BaseModel):
    number: int
    due: dt.date
    note: str = "none"


@dataclass
class Batch:
    invoices: list[Invoice]


class Row(TypedDict):
    name: str


def fetch_invoice(number: int, detail: Literal["short", "full"] = "short") -> Invoice:
    """Fetch one invoice.

    It is read from the books.

    Args:
        number: Number of the
            invoice.
        detail: How much of it.
    """
    return Invoice(number=number, due=dt.date(2010, 3, 1), note=detail)


def google(a: int) -> int:
    """Double.

    Args:
        a: What is doubled.
    """
    return 2 * a


def numpy(a: int) -> int:
    """Double.

    Parameters
    ----------
    a : int
        What is doubled.
    """
    return 2 * a


def sphinx(a: int) -> int:
    """Double.

    :param a: What is doubled.
    """
    return 2 * a


def test_signature_and_docstring_become_the_schemas() -> None:
    signature = make_tool(fetch_invoice).signature

    assert signature.name == "fetch_invoice"
    assert signature.description == "Fetch one invoice.\n\nIt is read from the books."
    assert signature.input_schema == {
        "type": "object",
        "additionalProperties": False,
        "required": ["number"],
        "properties": {
            "number": {"type": "integer", "description": "Number of the invoice."},
            "detail": {
                "type": "string",
                "enum": ["short", "full"],
                "default": "short",
                "description": "How much of it.",
            },
        },
    }
    assert signature.output_schema == {
        "type": "object",
        "required": ["number", "due", "note"],
        "properties": {
            "number": {"type": "integer"},
            "due": {"type": "string", "format": "date"},
            "note": {"type": "string", "default": "none"},
        },
    }


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_parameter_meanings_are_read_in_three_docstring_styles(
    function: Callable[[int], int],
) -> None:
    schema = make_tool(function).signature.input_schema

    assert schema["properties"] == {"a": {"type": "integer", "description": "What is doubled."}}


def test_nested_types_stand_in_the_schema_without_references() -> None:
    def make_batch() -> Batch:
        return Batch([])

    schema = make_tool(make_batch).signature.output_schema

    properties = schema["properties"]
    assert isinstance(properties, dict)
    invoices = properties["invoices"]
    assert isinstance(invoices, dict)
    assert invoices["items"] == make_tool(fetch_invoice).signature.output_schema


class Tree(BaseModel):
    name: str
    children: list[Tree]


def test_a_type_that_contains_itself_is_open_from_there_on() -> None:
    def grow() -> Tree:
        return Tree(name="root", children=[Tree(name="leaf", children=[])])

    tool = make_tool(grow)

    assert "$ref" not in repr(tool.signature.output_schema)
    assert call(tool) == {"name": "root", "children": [{"name": "leaf", "children": []}]}


def test_a_function_that_promises_nothing_has_an_open_output() -> None:
    assert make_tool(lambda: 1, name="open").signature.output_schema == {}


def test_json_value_as_result_is_open() -> None:
    def anything() -> JsonValue:
        return [1]

    assert make_tool(anything).signature.output_schema == {}


def test_a_method_of_many_objects_has_one_contract_and_its_own_object() -> None:
    class Adder:
        def __init__(self, more: int) -> None:
            self.more = more

        def add(self, number: int) -> int:
            return number + self.more

    one, ten = (make_tool(Adder(more).add) for more in (1, 10))

    assert read_contract(Adder(1).add, "add") is read_contract(Adder(10).add, "add")
    assert (call(one, number=5), call(ten, number=5)) == (6, 15)


def test_parameters_arrive_as_the_types_that_the_function_names() -> None:
    seen: list[object] = []

    def book(invoice: Invoice, on: dt.date, rows: list[Row]) -> None:
        seen.extend([invoice, on, rows])

    output = call(
        make_tool(book),
        invoice={"number": 1, "due": "2010-03-01"},
        on="2010-03-02",
        rows=[{"name": "a"}],
    )

    assert output is None
    assert seen == [
        Invoice(number=1, due=dt.date(2010, 3, 1)),
        dt.date(2010, 3, 2),
        [{"name": "a"}],
    ]


def test_results_become_json() -> None:
    def make_batch() -> Batch:
        return Batch([Invoice(number=1, due=dt.date(2010, 3, 1))])

    assert call(make_tool(make_batch)) == {
        "invoices": [{"number": 1, "due": "2010-03-01", "note": "none"}]
    }


def test_models_inside_plain_dicts_become_json() -> None:
    def make_batch() -> object:
        return {
            "when": dt.datetime(2010, 3, 1, tzinfo=dt.UTC),
            "invoice": Invoice(number=1, due=dt.date.min),
        }

    assert call(make_tool(make_batch)) == {
        "when": "2010-03-01T00:00:00Z",
        "invoice": {"number": 1, "due": "0001-01-01", "note": "none"},
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1.0, {"a": float("-inf")}]])
def test_a_number_that_json_lacks_is_a_failure(value: JsonValue) -> None:
    def measure() -> JsonValue:
        return value

    def guess() -> Any:
        return {"found": None, "measured": value}

    for function in (measure, guess):
        with pytest.raises(ToolError, match=r"result of .* holds (nan|-?inf)"):
            call(make_tool(function))


def test_a_result_without_json_form_is_a_failure_that_names_the_function() -> None:
    def leak() -> Any:
        return object()

    with pytest.raises(ToolError, match=r"the result of .*leak\(\) .*cannot be written as JSON"):
        call(make_tool(leak))


def test_a_plain_function_runs_in_a_thread_and_an_async_one_where_it_is() -> None:
    here = threading.get_ident()

    def plain() -> int:
        return threading.get_ident()

    async def waiting() -> int:
        await anyio.lowlevel.checkpoint()
        return threading.get_ident()

    assert call(make_tool(plain)) != here
    assert call(make_tool(waiting)) == here


@pytest.mark.anyio
async def test_a_call_in_a_thread_can_be_cancelled() -> None:
    release = threading.Event()
    started = anyio.Event()

    def stuck() -> None:
        anyio.from_thread.run_sync(started.set)
        release.wait(30)

    tool = make_tool(stuck)

    async def run() -> None:
        await tool.call(request({}))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await started.wait()
            group.cancel_scope.cancel()
    release.set()


def test_reserved_parameters_are_filled_and_hidden() -> None:
    def pay(
        amount: int, *, config: dict[str, Any], now: dt.datetime, idempotency_key: str
    ) -> dict[str, JsonValue]:
        return {"amount": amount, "config": config, "now": now.isoformat(), "key": idempotency_key}

    tool = make_tool(pay, effects={"write"})

    assert tool.signature.input_schema["properties"] == {"amount": {"type": "integer"}}
    assert call(tool, amount=3, config={"bank": "b"}) == {
        "amount": 3,
        "config": {"bank": "b"},
        "now": MARCH_2010.isoformat(),
        "key": "key-1",
    }


def test_a_parameter_called_config_that_is_not_keyword_only_is_the_plans() -> None:
    def write(config: str) -> str:
        return config

    signature = make_tool(write).signature

    assert signature.input_schema["required"] == ["config"]


def test_parameter_names_of_pydantic_are_free_for_users() -> None:
    def odd(schema: int, copy: int, model_config: int, json: int = 4) -> list[int]:
        return [schema, copy, model_config, json]

    assert call(make_tool(odd), schema=1, copy=2, model_config=3) == [1, 2, 3, 4]


def test_default_values_are_the_functions_own() -> None:
    marker = object()

    def with_default(
        value: int | None = None, rest: Any = marker, most: float = math.inf, text: str = "\ud800"
    ) -> bool:
        return value is None and rest is marker and most == math.inf and text == "\ud800"

    assert call(make_tool(with_default)) is True


TAGS: Any = Field(default_factory=list, max_length=2)


def order(
    count: int = Field(ge=1),
    size: int = Field(3, le=9, description="Of a box."),
    tags: list[str] = TAGS,
    copies: Annotated[int, Field(ge=0, description="Of the bill.")] = 4,
    *,
    pages: Annotated[int, Field(default=5, ge=1)],
) -> JsonValue:
    return [count, size, *tags, copies, pages]


def test_a_field_as_default_bounds_its_parameter() -> None:
    tool = make_tool(order)

    assert tool.signature.input_schema == {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 1},
            "size": {"type": "integer", "maximum": 9, "default": 3, "description": "Of a box."},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            "copies": {
                "type": "integer",
                "minimum": 0,
                "default": 4,
                "description": "Of the bill.",
            },
            "pages": {"type": "integer", "minimum": 1, "default": 5},
        },
        "required": ["count"],
        "additionalProperties": False,
    }
    assert call(tool, count=2) == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        pytest.param({}, "number: field required", id="missing"),
        pytest.param({"number": 1, "more": 2}, "more: extra inputs", id="unknown"),
        pytest.param({"number": "one"}, "number: input should be a valid integer", id="wrong type"),
    ],
)
def test_parameters_that_do_not_fit_are_a_failure_that_names_them(
    params: dict[str, JsonValue], message: str
) -> None:
    with pytest.raises(ToolError, match=message):
        call(make_tool(fetch_invoice), params)


def unannotated(code: str) -> str:
    return code


del unannotated.__annotations__["code"]  # as a user writes it who does not annotate


def starred(*codes: str) -> str:
    return str(codes)


def double_starred(**codes: str) -> str:
    return str(codes)


def positional(code: str, /) -> str:
    return code


@functools.singledispatch
def by_type(code: str) -> str:
    return code


def lock_parameter(lock: threading.Lock) -> str:
    return str(lock)


def lock_result() -> threading.Lock:
    return threading.Lock()


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


def forward(code: str) -> str:
    return code


forward.__annotations__["code"] = "NotImported"  # as under `if TYPE_CHECKING`


@pytest.mark.parametrize(
    ("function", "message", "hint"),
    [
        pytest.param(
            unannotated, "parameter 'code' of unannotated.* has no type", "code: str", id="no type"
        ),
        pytest.param(starred, r"takes \*codes", "name every parameter", id="star"),
        pytest.param(double_starred, r"takes \*\*codes", "name every parameter", id="two stars"),
        pytest.param(positional, "'code' .* is positional-only", "remove the '/'", id="positional"),
        pytest.param(by_type, "takes no named argument", "function that calls it", id="dispatch"),
        pytest.param(
            lock_parameter, "'lock' .* which has no JSON form", "take text, numbers", id="parameter"
        ),
        pytest.param(
            lock_result, "returns .* which has no JSON form", "return text, numbers", id="result"
        ),
        pytest.param(generator, "is a generator", "return a list", id="generator"),
        pytest.param(async_generator, "is a generator", "return a list", id="async generator"),
        pytest.param(forward, "names 'NotImported'", "TYPE_CHECKING", id="forward reference"),
        pytest.param(max, "signature of max.* cannot be read", "written in Python", id="builtin"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_when_added(
    function: Callable[..., Any], message: str, hint: str
) -> None:
    with pytest.raises(ToolDefinitionError, match=message) as refused:
        Registry().add(function)

    assert hint in (refused.value.hint or "")


def test_a_refusal_names_file_and_line() -> None:
    with pytest.raises(ToolDefinitionError, match=r"starred\(\) \(.*test_registry\.py:\d+\)"):
        make_tool(starred)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(ToolDefinitionError, match="has no name of its own"):
        make_tool(lambda: 1)


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(ToolDefinitionError, match=r"tool 'fetch_invoice': timeout is '5 minutes'"):
        make_tool(fetch_invoice, timeout="5 minutes")


def test_a_text_is_no_list_of_its_letters() -> None:
    with pytest.raises(ToolDefinitionError, match="tool 'fetch_invoice': tags is 'data'"):
        make_tool(fetch_invoice, tags="data")


def test_a_freshness_field_must_be_a_field_of_the_output() -> None:
    assert make_tool(fetch_invoice, freshness_field="due").signature.freshness_field == "due"
    with pytest.raises(ToolDefinitionError, match="'date' is no field of its output") as refused:
        make_tool(fetch_invoice, freshness_field="date")

    assert refused.value.hint == "the output has 'due', 'note', 'number'"


class Quote(TypedDict):
    time: str
    price: float
    is_open: bool


class Quotes(TypedDict):
    rows: list[Quote]
    last: Quote | None


def quotes() -> Quotes:
    """Return quotes."""
    return {"rows": [], "last": None}


def quote_list() -> list[list[Quote]]:
    """Return quotes by day."""
    return []


@pytest.mark.parametrize("field", ["rows.time", "last.time", "last.price"])
def test_a_freshness_field_may_lie_in_lists_and_optional_parts(field: str) -> None:
    assert make_tool(quotes, freshness_field=field).signature.freshness_field == field
    assert make_tool(quote_list, freshness_field="time").signature.freshness_field == "time"


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("rows.tine", "'rows.tine' is no field of its output"),
        ("last.tine", "'last.tine' is no field of its output"),
        ("rows.time.day", "'rows.time.day' is no field of its output"),
        ("rows.is_open", "'rows.is_open' holds no time, but boolean"),
        ("last", "'last' holds no time, but object"),
    ],
)
def test_a_freshness_field_is_followed_to_its_end(field: str, message: str) -> None:
    with pytest.raises(ToolDefinitionError, match=message):
        make_tool(quotes, freshness_field=field)


class Letter(BaseModel):
    sender: str
    parts: list[dict[str, str]] = []


def letters() -> list[Letter]:
    return []


def text() -> str:
    return ""


class Note(BaseModel):
    body: str | None


def note() -> Note | None:
    return None


@pytest.mark.parametrize(
    ("function", "field"),
    [
        pytest.param(note, "body", id="where there is an output"),
        pytest.param(letters, "sender", id="of items"),
        pytest.param(letters, "text", id="perhaps of an open object"),
    ],
)
def test_fields_of_untrusted_text_are_those_of_the_output(
    function: Callable[[], object], field: str
) -> None:
    assert make_tool(function, untrusted=[field]).signature.untrusted == {field}


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        pytest.param(note, "did you mean 'body'?", id="a slip"),
        pytest.param(text, "of an output without fields say `untrusted_output`", id="a text"),
    ],
)
def test_an_untrusted_field_that_no_output_has_is_refused(
    function: Callable[[], object], hint: str
) -> None:
    with pytest.raises(ToolDefinitionError, match="has no field 'bdy' in its output") as refused:
        make_tool(function, untrusted=["bdy"])

    assert refused.value.hint == hint


@pytest.mark.parametrize(
    ("made_of", "reads", "hint"),
    [
        pytest.param({"bdy": ["mails"]}, ["mails"], "did you mean 'body'?", id="of no field"),
        pytest.param({"body": ["mail"]}, ["mails"], "did you mean 'mails'?", id="of no data"),
        pytest.param({"body": ["mails"]}, [], "add 'mails' to 'reads_data'", id="nothing read"),
    ],
)
def test_fields_are_made_of_run_data_that_the_tool_reads(
    made_of: dict[str, list[str]], reads: list[str], hint: str
) -> None:
    def summary(*, data: RunData) -> Note:
        return Note(body=None)

    make_tool(summary, output_data={"body": ["mails"], "confidence": []}, reads_data=["mails"])
    with pytest.raises(ToolDefinitionError, match="tool 'summary'") as refused:
        make_tool(summary, output_data=made_of, reads_data=reads)

    assert refused.value.hint == hint


def test_an_option_that_there_is_not_is_named_with_the_nearest() -> None:
    options: dict[str, Any] = {"timout": 5}
    with pytest.raises(ToolDefinitionError, match="there is no option 'timout'") as refused:
        make_tool(fetch_invoice, **options)

    assert refused.value.hint == "did you mean 'timeout'?"


def test_a_name_that_can_be_none_is_refused_with_the_pattern_as_it_is() -> None:
    with pytest.raises(ToolDefinitionError, match=r"should match pattern '\^\[A-Za-z\]"):
        make_tool(fetch_invoice, name="no name")


def test_a_name_can_be_given_once_only() -> None:
    registry = Registry()
    registry.add(fetch_invoice)

    with pytest.raises(ToolDefinitionError, match="'fetch_invoice' is defined twice"):
        registry.add(google, name="fetch_invoice")


def test_options_reach_the_signature() -> None:
    registry = Registry()
    registry.add(
        fetch_invoice,
        name="invoice",
        effects={"read", "egress"},
        tags={"data"},
        expected_seconds="2m",
        retry=Retry(attempts=3),
        cache_for="1h",
        untrusted_output=True,
    )

    signature = registry.signatures["invoice"]
    assert signature.effects == {"read", "egress"}
    assert signature.expected_seconds == 120
    assert signature.cache_for == 3600
    assert signature.retry.attempts == 3
    assert signature.untrusted_output


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://example.org", True),
        ("http://www.example.org:8080/a?b=c#d", True),
        ("example.org/a", True),
        ("https://example.org.evil.net/", False),
        ("https://evil.net/?example.org", False),
        ("https://user@evil.net/@example.org", False),
        ("https://example.org@evil.net/", False),
        ("https://evil.net\\@example.org/", False),
        ("https://evilexample.org/", False),
        ("https://example.org/a b", False),
    ],
)
def test_an_address_names_one_of_the_allowed_hosts(url: str, *, is_allowed: bool) -> None:
    def fetch(url: str) -> str:
        """Fetch a page."""
        return url

    tool = make_tool(fetch, effects={"egress"}, allowed_hosts={"url": ["example.org"]})

    assert validator_of(tool.signature.input_schema).accepts({"url": url}) == is_allowed


@pytest.mark.parametrize(
    "options",
    [
        {"accepts_untrusted": ["ulr"]},
        {"allowed_hosts": {"ulr": ["a.b"]}},
        {"allowed_hosts": {"url": ["*"]}},
        {"allowed_hosts": {"more": ["a.b"]}},
        {"accepts_untrusted": ["url"], "destination": ["url"]},
        {"calls_agents": ["reader"]},
    ],
)
def test_what_a_tool_says_of_its_parameters_must_fit_them(options: dict[str, Any]) -> None:
    def fetch(url: str, more: list[str]) -> list[str]:
        """Fetch a page, and more."""
        return [url, *more]

    with pytest.raises(ToolDefinitionError, match="tool 'fetch'") as refused:
        make_tool(fetch, **options)

    assert refused.value.hint


def test_a_tool_that_writes_is_not_idempotent_unless_it_says_so() -> None:
    assert make_tool(google).signature.idempotent
    assert not make_tool(google, effects={"write"}).signature.idempotent
    assert make_tool(google, effects={"write"}, idempotent=True).signature.idempotent


def test_the_version_changes_with_the_contract_and_only_with_it() -> None:
    def same(a: int) -> int:
        """Double.

        Args:
            a: What is doubled.
        """
        return a + a

    def other(a: float) -> int:
        return int(2 * a)

    version = make_tool(google).signature.version

    assert make_tool(same).signature.version == version
    assert make_tool(other).signature.version != version
    assert make_tool(google, effects={"egress"}).signature.version != version
    assert make_tool(google, version="7").signature.version == "7"


def test_methods_and_callable_objects_can_be_tools() -> None:
    class Counter:
        def __init__(self, start: int) -> None:
            self.start = start

        def count(self, by: int) -> int:
            return self.start + by

        async def __call__(self, by: int) -> int:
            return self.start * by

    assert call(make_tool(Counter(3).count), by=4) == 7
    assert call(make_tool(Counter(3), name="times"), by=4) == 12


def scale(a: int, b: int) -> int:
    """Scale a number.

    Args:
        a: The number.
        b: The factor.
    """
    return a * b


async def scale_later(a: int, b: int) -> int:
    """Scale a number."""
    return a * b


@pytest.mark.parametrize("function", [scale, scale_later], ids=["plain", "async"])
def test_a_partial_is_a_tool_with_the_types_of_what_it_wraps(
    function: Callable[..., object],
) -> None:
    tool = make_tool(partial(function, b=10))

    assert tool.signature.name == function.__name__
    assert tool.signature.description == "Scale a number."
    whole = properties_of(make_tool(function).signature.input_schema)
    assert properties_of(tool.signature.input_schema) == {"a": whole["a"]}
    assert call(tool, a=4) == 40


def test_a_partial_that_fixes_the_first_argument_takes_the_others() -> None:
    assert call(make_tool(partial(scale, 10)), b=4) == 40


def test_what_a_partial_fixes_cannot_be_given() -> None:
    with pytest.raises(ToolError, match="b"):
        call(make_tool(partial(scale, b=10)), a=4, b=5)
