"""The worker `extract_chunk`: each rung, what is refused, and answers in other forms than was asked
for.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.tools.calling import request
from tests.tools.scripted_models import Script, answer_of, project, serving
from wavewright.packs.extraction.prose import ProseReader
from wavewright.packs.knowledge.extraction import chunk_extractor, source_hash
from wavewright.packs.knowledge.generation import generate_records, least_records
from wavewright.packs.knowledge.models import Chunk, ChunkRecords, GraphRecord, KnownName
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelError, NamedCall
from wavewright.planner.types import Json, JsonObject
from wavewright.tools.functions.tool import Emission
from wavewright.tools.workers import make_services, make_worker

TEXT = "Captain Merrin commands\nPetrel. The boat is the fastest of the line."
CHUNK = Chunk(
    id="log-1",
    document="log.md",
    title="Log",
    text=TEXT,
    start=100,
    end=100 + len(TEXT),
    names=(KnownName(name="Captain Merrin", type="person"), KnownName(name="Petrel", type="boat")),
)
BARE = "The boat is the fastest of the line. It was painted in spring."
NAMELESS = CHUNK.model_copy(update={"names": (), "text": BARE, "end": 100 + len(BARE)})
QUOTE = "Captain Merrin commands Petrel."
PETREL: JsonObject = {"name": "Petrel", "type": "boat", "quotes": [QUOTE]}
ANSWER: JsonObject = {
    "observations": [
        {
            "entity": "Petrel",
            "text": "Petrel is the fastest boat.",
            "quotes": ["the fastest of the line"],
        }
    ],
    "entities": [
        {"name": "Captain Merrin", "type": "person", "aliases": ["Merrin"], "quotes": [QUOTE]},
        PETREL,
    ],
    "relations": [
        {"source": "Captain Merrin", "relation": "commands", "target": "Petrel", "quotes": [QUOTE]}
    ],
}
INVENTED: Json = {"name": "King Nobody", "type": "person", "quotes": ["King Nobody rules the sea"]}
DEAD = ModelError("unreachable", "the server is down")
CALLS: list[JsonObject] = [
    {
        "name": "create_entities",
        "arguments": {
            "entities": [
                {"name": "Petrel", "entityType": "boat", "observations": ["Petrel has a captain."]},
                {"name": "Fulmar", "entityType": "boat", "observations": []},
            ]
        },
    },
    {
        "name": "create_relations",
        "arguments": {
            "relations": [{"from": "Captain Merrin", "to": "Petrel", "relationType": "commands"}]
        },
    },
    {
        "name": "add_observations",
        "arguments": {
            "observations": [{"entityName": "Captain Merrin", "contents": ["He commands."]}]
        },
    },
]


def extract(
    home: Path, *script: Script, chunk: Chunk = CHUNK
) -> tuple[ChunkRecords, list[RungRecord], int]:
    """Return the records of a chunk, the rungs, and how many questions the model was asked."""
    emitted: list[Emission] = []
    services, models = serving(home, *(script or (DEAD,)))
    if not script:
        services = make_services(project(home, model=None))
    asked = replace(request({"chunk": chunk.model_dump(mode="json")}), emit=emitted.append)
    output = anyio.run(partial(make_worker(chunk_extractor(), services).call, asked))
    rungs = [one for one in emitted if isinstance(one, RungRecord)]
    return ChunkRecords.model_validate(output), rungs, len(models.asked)


def all_records(found: ChunkRecords) -> list[GraphRecord]:
    return [*found.entities, *found.observations, *found.relations]


def check_evidence(found: ChunkRecords, chunk: Chunk = CHUNK) -> None:
    """Every record has its origin, and quotes that stand at their places in the document."""
    document = " " * chunk.start + chunk.text
    for one in all_records(found):
        assert one.origin == found.origin
        assert one.evidence
        assert all(document[said.start : said.end] == said.quote for said in one.evidence)


@pytest.mark.parametrize("fence", ["{}", "```json\n{}\n```", "<think>Let me see.</think>\n{}"])
def test_a_model_gives_the_records(tmp_path: Path, fence: str) -> None:
    found, rungs, asked = extract(tmp_path, fence.replace("{}", json.dumps(ANSWER)))

    assert found.origin == "agent"
    assert [one.name for one in found.entities] == ["Captain Merrin", "Petrel"]
    assert found.entities[0].aliases == ("Merrin",)
    assert [(one.source, one.relation, one.target) for one in found.relations] == [
        ("Captain Merrin", "commands", "Petrel")
    ]
    assert found.relations[0].evidence[0].quote == "Captain Merrin commands\nPetrel."
    assert [(one.rung, one.outcome) for one in rungs] == [("agent", "reached")]
    assert asked == 1
    check_evidence(found)


def test_a_quote_that_is_not_in_the_text_is_sent_back_and_then_left_out(tmp_path: Path) -> None:
    wrong: JsonObject = {**ANSWER, "entities": [INVENTED, PETREL]}

    found, _, asked = extract(tmp_path, wrong, wrong)

    assert asked == 2
    assert [one.name for one in found.entities] == ["Petrel"]
    check_evidence(found)


@pytest.mark.parametrize(
    "said",
    [
        f"I call the tools: {json.dumps(CALLS[0])} and {json.dumps(CALLS[1])} then {json.dumps(CALLS[2])}",
        "```json\n" + json.dumps({"tool_calls": CALLS}) + "\n```",
        answer_of(
            "",
            calls=tuple(NamedCall(str(one["name"]), json.dumps(one["arguments"])) for one in CALLS),
        ),
    ],
    ids=["several objects", "a list of calls", "calls of no tool"],
)
def test_calls_of_a_graphs_tools_that_a_model_wrote_down_are_executed(
    tmp_path: Path, said: Script
) -> None:
    found, rungs, _ = extract(tmp_path, said)

    assert found.origin == "suggested"
    assert [one.name for one in found.entities] == ["Petrel"]
    assert [(one.entity, one.text) for one in found.observations] == [
        ("Petrel", "Petrel has a captain."),
        ("Captain Merrin", "He commands."),
    ]
    assert [(one.source, one.target) for one in found.relations] == [("Captain Merrin", "Petrel")]
    assert [one.rung for one in rungs] == ["agent", "suggested"]
    check_evidence(found)


def test_a_suggested_relation_is_held_up_by_two_sentences_that_follow_each_other(
    tmp_path: Path,
) -> None:
    text = "Tarn Quay is a harbour. Jon Hale lives there.\n\nOther ships are bound for Ashport."
    relations: list[Json] = [
        {"from": "Jon Hale", "to": place, "relationType": "lives at"}
        for place in ("Tarn Quay", "Ashport", "Nowhere")
    ]
    call: JsonObject = {"name": "create_relations", "arguments": {"relations": relations}}
    chunk = CHUNK.model_copy(update={"text": text, "end": CHUNK.start + len(text)})

    found, _, _ = extract(tmp_path, f"I call {json.dumps(call)}.", chunk=chunk)

    assert [(one.source, one.target) for one in found.relations] == [("Jon Hale", "Tarn Quay")]
    check_evidence(found, chunk)


def test_a_call_that_is_cut_loses_nothing_but_itself(tmp_path: Path) -> None:
    said = f"I call {json.dumps(CALLS[0])} and {json.dumps(CALLS[1])[:60]}"

    found, rungs, _ = extract(tmp_path, said)

    assert found.origin == "suggested"
    assert [one.name for one in found.entities] == ["Petrel"]
    assert [one.rung for one in rungs] == ["agent", "suggested"]


@pytest.mark.parametrize(
    "said", [DEAD, '{"entities": [{"name": "Pet', "I cannot help with that.", {}]
)
def test_code_reads_the_chunk_where_the_model_gives_nothing(tmp_path: Path, said: Script) -> None:
    found, rungs, _ = extract(tmp_path, said)

    assert found.origin == "generated"
    assert {one.name: one.type for one in found.entities} == {
        "Captain Merrin": "person",
        "Petrel": "boat",
    }
    assert [(one.source, one.relation, one.target) for one in found.relations] == [
        ("Captain Merrin", "commands", "Petrel")
    ]
    assert [one.rung for one in rungs] == ["agent", "suggested", "generated"]
    check_evidence(found)


def test_a_chunk_without_any_name_keeps_its_first_sentence(tmp_path: Path) -> None:
    with_model, rungs, _ = extract(tmp_path, DEAD, chunk=NAMELESS)
    without_model, _, asked = extract(tmp_path, chunk=NAMELESS)

    assert with_model == without_model
    assert asked == 0
    assert with_model.origin == "forced"
    assert [(one.name, one.type) for one in with_model.entities] == [("Log", "document")]
    assert [one.text for one in with_model.observations] == ["The boat is the fastest of the line."]
    assert [(one.rung, one.outcome) for one in rungs] == [
        ("agent", "fallen"),
        ("suggested", "fallen"),
        ("generated", "fallen"),
        ("forced", "reached"),
    ]
    check_evidence(with_model, NAMELESS)


def test_what_code_made_without_a_model_is_no_result_for_a_run_with_one(tmp_path: Path) -> None:
    with_model = make_worker(chunk_extractor(), serving(tmp_path)[0]).signature
    without = make_worker(chunk_extractor(), make_services(project(tmp_path, model=None))).signature

    assert with_model.cache_for == without.cache_for == 30 * 86_400
    assert with_model.version != without.version


def test_the_rows_of_a_wide_table_are_observations_of_what_they_name() -> None:
    text = (
        "| Name | Rank | Born | Home |\n|---|---|---|---|\n| Ann Holt | Captain | 1961 | Port Vell |\n"
        "| Cy Dunn | Cook | 1980 | |\n\n| Option | Default | Meaning |\n|---|---|---|\n| Timeout | 30 | Seconds |\n"
    )
    chunk = CHUNK.model_copy(update={"names": (), "text": text, "end": 100 + len(text)})

    records = generate_records(chunk, ProseReader(None))

    assert records is not None
    assert [(one.entity, one.text) for one in records.observations] == [
        ("Ann Holt", "Rank: Captain; Born: 1961; Home: Port Vell"),
        ("Cy Dunn", "Rank: Cook; Born: 1980"),
    ]
    assert records.observations[0].evidence[0].quote == "| Ann Holt | Captain | 1961 | Port Vell |"
    head, rule, row, *_ = text.splitlines()
    within = chunk.model_copy(update={"table_head": f"{head}\n{rule}", "text": row})
    read = generate_records(within, ProseReader(None))
    assert read is not None
    assert [one.text for one in read.observations] == [records.observations[0].text]


@pytest.mark.parametrize(
    ("text", "observed"),
    [
        (
            "| Ship name | Captain |\n|---|---|\n| Gull | Ann Holt |\n",
            [("Gull", "Captain: Ann Holt")],
        ),
        ("| Flower | Colour |\n|---|---|\n| rose | red |\n", [("Harbour", "rose red")]),
        (
            "| Date | Event |\r\n|---|---|\r\n| 1 | Launched at Hull |\r\n",
            [("Harbour", "1 Launched at Hull")],
        ),
        ("| Teal | |\n|---|---|\n| Built | 1904 |\n", [("Harbour", "Built 1904")]),
        ("| Ship | Value |\n|---|---|\n| Gull | 3 M |\n", [("Gull", "Value: 3 M")]),
        ("| Full name | Rank |\n|---|---|\n| Ann Holt | Cook |\n", [("Ann Holt", "Rank: Cook")]),
        ("| Ship | Port | Built |\n|---|---|---|\n| | Leeds | 1999 |\n", []),
        ("| | Port | Built |\n|---|---|---|\n| | Leeds | 1999 |\n", []),
        ("| Item | Value |\n|---|---|\n| Draught | 3 m |\n", [("Harbour", "Draught 3 m")]),
        ("| Draught | 3 m |\n\nPetrel lies in it.\n", [("Harbour", "Draught 3 m")]),
        ("## Petrel\n\n### Hull\n\n| Draught | 3 m |\n", [("Petrel", "Draught 3 m")]),
        ("## Hull\n\n| Draught | 3 m |\n", [("Harbour", "Draught 3 m")]),
        (
            "- [ ] Petrel: paint the hull\n- [x] Petrel: sew sails\n",
            [("Petrel", "Petrel: paint the hull"), ("Petrel", "Petrel: sew sails")],
        ),
        ("1. [x] Petrel: sew sails\n", [("Petrel", "Petrel: sew sails")]),
        ("Depth\n:   3 m\n", [("Harbour", "Depth : 3 m")]),
    ],
)
def test_headings_of_tables_and_boxes_of_tasks_are_no_facts(
    text: str, observed: list[tuple[str, str]]
) -> None:
    title = {"title": "Harbour", "text": f"{text}\nThe Petrel.\n", "end": 200 + len(text)}
    records = generate_records(CHUNK.model_copy(update=title), ProseReader(None))

    assert records is not None
    assert [(one.entity, one.text) for one in records.observations] == observed


def test_the_least_of_a_table_is_a_row_and_not_its_headings() -> None:
    text = "| Route | Price |\n|---|---:|\n| Leeds to Hull | 12 € |\n"
    chunk = CHUNK.model_copy(update={"names": (), "text": text, "end": 100 + len(text)})

    assert [one.text for one in least_records(chunk).observations] == ["Leeds to Hull 12 €"]


def test_nested_items_and_definitions_are_told_of_what_they_stand_under() -> None:
    text = (
        "- Petrel\n    - Built: 1904\n    - Captain Merrin\n        - Born: 1870\n    - Lost: 1931\n\n"
        "Petrel\n:   A cutter of the line.\n\n- Nobody\n    - Price: 3\n"
    )
    chunk = CHUNK.model_copy(update={"text": text, "end": 100 + len(text)})

    records = generate_records(chunk, ProseReader(None))

    assert records is not None
    assert [(one.entity, one.text) for one in records.observations] == [
        ("Petrel", "Built: 1904"),
        ("Captain Merrin", "Born: 1870"),
        ("Petrel", "Lost: 1931"),
        ("Petrel", "Petrel : A cutter of the line."),
    ]


def test_records_are_kept_only_for_the_code_and_the_words_that_made_them(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("A = 1\n")
    (tmp_path / "a.toml").write_text("words = 'a'\n")
    (tmp_path / "a.md").write_text("of people\n")
    first = source_hash([tmp_path])

    (tmp_path / "a.md").write_text("of others\n")
    assert source_hash([tmp_path]) == first
    (tmp_path / "a.toml").write_text("words = 'b'\n")
    second = source_hash([tmp_path])
    (tmp_path / "a.py").write_text("A = 2\n")

    assert len({first, second, source_hash([tmp_path])}) == 3
