"""Records out of a text: every one with a quote that stands there, by a model or by code."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from hypothesis import given, strategies as st

from tests.tools.calling import request
from tests.tools.scripted_models import Script, ScriptedModels, project, serving
from wavewright.packs.text.extract_records import find_quote, plain_records
from wavewright.planner.ports.model_port import ModelError
from wavewright.planner.types import Json, JsonObject
from wavewright.tools import ToolError, load_pack
from wavewright.tools.workers import make_services, make_worker

TEXT = "Arthas, son of Terenas,\n   took Frostmourne. Jaina was born in the year 7."
PERSON: JsonObject = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "born": {"type": "integer"},
        "is_king": {"type": ["boolean", "null"]},
    },
}


def extract(
    home: Path, text: str, *script: Script, schema: JsonObject | None = None
) -> tuple[JsonObject, ScriptedModels]:
    services, models = serving(home, *(script or ("never",)))
    if not script:
        services = make_services(project(home, model=None))
    worker = next(one for one in load_pack("text").workers if one.spec.name == "extract_records")
    params: JsonObject = {
        "text": text,
        "record_schema": PERSON if schema is None else schema,
        "source": "annals",
    }
    output = anyio.run(make_worker(worker, services).call, request(params))
    assert isinstance(output, dict)
    return output, models


def found(name: str, *quotes: str, **more: Json) -> JsonObject:
    return {"record": {"name": name, **more}, "quotes": [*quotes]}


def records(output: JsonObject) -> list[Json]:
    listed = output["records"]
    assert isinstance(listed, list)
    return [one["record"] for one in listed if isinstance(one, dict)]


def test_a_record_comes_with_its_quotes_and_their_places(tmp_path: Path) -> None:
    output, _ = extract(
        tmp_path, TEXT, {"records": [found("Jaina", "Jaina was born in the year 7", born=7)]}
    )

    assert output == {
        "records": [
            {
                "record": {"name": "Jaina", "born": 7},
                "evidence": [{"quote": "Jaina was born in the year 7", "start": 45, "end": 73}],
            }
        ],
        "unsupported": [],
        "source": "annals",
        "method": "agent",
    }
    assert TEXT[45:73] == "Jaina was born in the year 7"


def test_white_space_alone_may_differ_and_the_quote_is_given_as_the_text_has_it(
    tmp_path: Path,
) -> None:
    output, _ = extract(
        tmp_path, TEXT, {"records": [found("Arthas", "son of Terenas, took Frostmourne")]}
    )

    assert '"son of Terenas,\\n   took Frostmourne"' in str(output).replace("'", '"')


def test_a_record_without_a_quote_that_stands_there_is_sent_back(tmp_path: Path) -> None:
    output, models = extract(
        tmp_path,
        TEXT,
        {"records": [found("Uther", "Uther was a paladin")]},
        {"records": [found("Arthas", "Arthas, son of Terenas")]},
    )

    assert records(output) == [{"name": "Arthas"}]
    assert (
        "no quote of record 1 stands in the text, such as 'Uther was a paladin'"
        in models.asked[1].turns[0].reply
    )


def test_what_cannot_be_proved_in_the_end_is_listed_apart(tmp_path: Path) -> None:
    answer: JsonObject = {
        "records": [found("Arthas", "Arthas, son"), found("Uther", "Uther was a paladin")]
    }

    output, _ = extract(tmp_path, TEXT, answer)

    assert records(output) == [{"name": "Arthas"}]
    assert output["unsupported"] == [{"name": "Uther"}]


def test_where_nothing_can_be_proved_nothing_is_found(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no quote of record 1"):
        extract(tmp_path, TEXT, {"records": [found("Uther", "Uther was a paladin")]})


def test_no_record_at_all_is_an_answer(tmp_path: Path) -> None:
    output, _ = extract(tmp_path, TEXT, {"records": list[Json]()})

    assert records(output) == []


def test_a_record_of_another_shape_is_sent_back(tmp_path: Path) -> None:
    _, models = extract(
        tmp_path,
        TEXT,
        {"records": [{"record": {"name": 7}, "quotes": ["Arthas"]}]},
        {"records": [found("Arthas", "Arthas")]},
    )

    assert "/records/0/record/name" in models.asked[1].turns[0].reply


def test_a_long_text_is_read_in_parts_and_what_two_parts_found_is_one_record(
    tmp_path: Path,
) -> None:
    text = "Arthas took it. " + "and then " * 15_000 + "Arthas lost it. "

    def answer(call: object) -> JsonObject:
        prompt = str(getattr(call, "prompt", ""))
        quote = "Arthas took it" if "Arthas took it" in prompt else "Arthas lost it"
        return {"records": [found("Arthas", quote)]}

    output, models = extract(tmp_path, text, answer)
    (record,) = output["records"] if isinstance(output["records"], list) else []
    assert isinstance(record, dict)
    evidence = record["evidence"]
    assert isinstance(evidence, list)

    assert len(models.asked) == 2
    assert [one["quote"] for one in evidence if isinstance(one, dict)] == [
        "Arthas took it",
        "Arthas lost it",
    ]


@pytest.mark.parametrize(
    ("text", "expected", "quote"),
    [
        pytest.param(
            'So it says: {"name": "Arthas", "born": 5} and more',
            [{"name": "Arthas", "born": 5}],
            '{"name": "Arthas", "born": 5}',
            id="JSON",
        ),
        pytest.param(
            "People\n\n| Name | Born | Is king |\n|---|---:|:--|\n| Arthas | 5 | yes |\n| Jaina | 7 | n/a |\n\nEnd",
            [
                {"name": "Arthas", "born": 5, "is_king": True},
                {"name": "Jaina", "born": 7, "is_king": None},
            ],
            "| Arthas | 5 | yes |",
            id="Markdown table",
        ),
        pytest.param(
            'name,born\n"Arthas, the",5\nJaina,7\n',
            [{"name": "Arthas, the", "born": 5}, {"name": "Jaina", "born": 7}],
            '"Arthas, the",5',
            id="CSV",
        ),
        pytest.param(
            "Found so far.\n- **Name**: Arthas\n- Born: 5\n  seen by nobody\n\nName = Jaina\nName: Uther\n",
            [{"name": "Arthas", "born": 5}, {"name": "Jaina"}, {"name": "Uther"}],
            "- **Name**: Arthas",
            id="pairs",
        ),
    ],
)
def test_code_reads_what_needs_no_understanding(
    tmp_path: Path, text: str, expected: list[Json], quote: str
) -> None:
    output, _ = extract(tmp_path, text)

    assert records(output) == expected
    assert output["method"] == "generated"
    assert quote in str(output["records"])


def test_what_does_not_fit_the_schema_is_no_record(tmp_path: Path) -> None:
    text = "| name | born |\n|---|---|\n| Arthas | long ago |\n| Jaina | 7 |\n"

    assert records(extract(tmp_path, text)[0]) == [{"name": "Jaina", "born": 7}]


def test_prose_without_a_model_is_a_failure_with_the_mend(tmp_path: Path) -> None:
    with pytest.raises(
        ToolError, match="the text holds no JSON, table or lines of `key: value`"
    ) as failed:
        extract(tmp_path, TEXT)

    assert failed.value.hint is not None
    assert failed.value.hint.startswith("set WAVEWRIGHT_MODEL")
    with pytest.raises(ToolError, match="nobody answers"):
        extract(tmp_path, TEXT, ModelError("unreachable", "nobody answers"))


@pytest.mark.parametrize("schema", [{"type": "array"}, {"type": "object", "required": 3}])
def test_a_schema_that_is_none_of_an_object_is_refused(tmp_path: Path, schema: JsonObject) -> None:
    with pytest.raises(ToolError, match="'record_schema'"):
        extract(tmp_path, TEXT, {"records": list[Json]()}, schema=schema)


@given(st.text(min_size=1, max_size=200), st.data())
def test_a_stretch_of_a_text_is_found_in_it(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    place = find_quote(text[start:end], text)

    if len("".join(text[start:end].split())) >= 3:
        assert place is not None
        assert "".join(text[place[0] : place[1]].split()) == "".join(text[start:end].split())
    else:
        assert place is None


@given(st.text(alphabet="|,:;\n\t -nameborn15\"'{}[]", max_size=400))
def test_every_record_that_code_reads_fits_and_stands_in_the_text(text: str) -> None:
    for record in plain_records(text, PERSON):
        assert "name" in record.record
        for start, end in record.spans:
            assert 0 <= start < end <= len(text)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("name,born\n" * 50_000, 0, id="headers"),
        pytest.param("name:" + " " * 400_000 + "x", 1, id="blanks"),
        pytest.param("| name | born |\n" + "| a | 1 |\n" * 50_000, 1, id="rows"),
        pytest.param("{" * 300_000, 0, id="braces"),
    ],
)
def test_a_hostile_text_is_read_to_its_end(text: str, count: int) -> None:
    assert len(plain_records(text, PERSON)) == count


COOK: JsonObject = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "role": {"type": "string"},
        "age": {"type": "integer"},
    },
}


@pytest.mark.parametrize(
    "text",
    [
        "| Name | Office | Role | Age | Notes |\n|--|--|--|--|--|\n| Ann | 3 | Cook | 31 | a \\| b |\n",
        "> | **Name** | Role | Age (years) |\n> |---|---|---|\n> | **Ann** | [Cook](/cook) | 31 |\n",
        "| Property | Value |\n|---|---|\n| Name | Ann |\n| Role | Cook |\n| Age | 31 |\n",
        "Name\n: Ann\n\nRole\n: Cook\n\nAge\n: 31\n",
    ],
)
def test_tables_and_lists_of_any_form_are_read(text: str) -> None:
    [one] = plain_records(text, COOK)

    assert one.record == {"name": "Ann", "role": "Cook", "age": 31}
    assert "Ann" in "".join(text[span.start : span.end] for span in one.spans)


def test_a_row_without_its_last_cells_is_a_record_and_the_head_of_a_table_is_none() -> None:
    short = "| Name | Role | Age |\n|---|---|---|\n| Ann | Cook |\n"
    other = "| Name | Office |\n|---|---|\n| Ann | 3 |\n"

    assert [one.record for one in plain_records(short, COOK)] == [{"name": "Ann", "role": "Cook"}]
    assert plain_records(other, COOK) == []


@pytest.mark.parametrize("nothing", ["-", "–", "n/a", ""])
def test_a_cell_that_says_there_is_nothing_leaves_its_field_out_and_its_row_in(
    nothing: str,
) -> None:
    text = f"name | role | age\n--- | --- | ---\nAnn | Cook | {nothing}\nBo | {nothing} | 31\n"
    ann, bo = (one.record for one in plain_records(text, COOK))

    assert ann == {"name": "Ann", "role": "Cook"}
    # A text may be a dash.
    assert bo == {"name": "Bo", **({"role": nothing} if nothing else {}), "age": 31}


PART: JsonObject = {
    "type": "object",
    "required": ["name", "price"],
    "additionalProperties": False,
    "properties": {"name": {"type": "string"}, "price": {"type": "number"}},
}


@pytest.mark.parametrize(
    ("text", "price"),
    [
        pytest.param("name;price\nBolt;1,50\n", 1.5, id="decimal comma"),
        pytest.param("name;price\nBolt;1,234\n", 1.234, id="semicolons"),
        pytest.param("name;price\nBolt;1,234,567\n", 1_234_567, id="millions, semicolons"),
        pytest.param("name;price\nBolt;1,234.50\n", 1234.5, id="decimal point, semicolons"),
        pytest.param("name: Bolt\nprice: 12,34,567\n", 1_234_567, id="thousands of India"),
        pytest.param("name: Bolt\nprice: 0,125\n", 0.125, id="less than one"),
        pytest.param("name: Bolt\nprice: 3,\n", 3, id="comma behind a value"),
        pytest.param('name,price\nBolt,"1,234"\n', 1234, id="thousands"),
        pytest.param("name: Bolt\nprice: 1 250,50\n", 1250.5, id="blanks of thousands"),
        pytest.param("name: Bolt\nprice: (5.00)\n", -5, id="brackets for a minus"),
        pytest.param("name: Bolt\nprice: -$5\n", -5, id="minus before a currency"),
        pytest.param("name: Bolt\nprice: EUR 5.50\n", 5.5, id="currency by its code"),
        pytest.param("name: Bolt\nprice: 1.250,50 €\n", 1250.5, id="points of thousands"),
        pytest.param("| name | price |\n|--|--|\n| Bolt | $3.50 |\n", 3.5, id="currency"),
        pytest.param("NAME   PRICE\nBolt   3\n", 3, id="aligned"),
        pytest.param("name  price\n====  =====\nBolt  3\n", 3, id="simple table of reST"),
        pytest.param("name = 'Bolt'\nprice = 3\n", 3, id="quoted, as in TOML"),
    ],
)
def test_numbers_are_read_as_people_and_programs_write_them(text: str, price: float) -> None:
    assert [one.record for one in plain_records(text, PART)] == [{"name": "Bolt", "price": price}]


def test_an_integer_has_no_decimal_comma() -> None:
    schema: JsonObject = {**PART, "properties": {"name": {}, "price": {"type": "integer"}}}

    [found] = plain_records("name;price\nBolt;1,234\n", schema)

    assert found.record == {"name": "Bolt", "price": 1234}


def test_a_date_is_read_where_the_field_is_one() -> None:
    fields: JsonObject = {"name": {}, "due": {"type": "string", "format": "date"}, "note": {}}
    schema: JsonObject = {"type": "object", "properties": fields}
    text = "| name | due | note |\n|--|--|--|\n| Bolt | 27th November, 2026 | 1 May 2026 |\n"

    [found] = plain_records(text, schema)

    assert found.record == {"name": "Bolt", "due": "2026-11-27", "note": "1 May 2026"}
