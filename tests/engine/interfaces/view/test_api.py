"""The JSON API, by its own description: OpenAPI, with answers that are as it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
from openapi_spec_validator import validate

from tests.engine.interfaces.view.served_page import ServedPage, command, served_page, write_project


def assert_described(document: dict[str, Any], path: str, answer: httpx.Response) -> None:
    """Check an answer by the schema that the document has for it."""
    described = document["paths"][path][answer.request.method.lower()]["responses"][
        str(answer.status_code)
    ]
    schema = described["content"]["application/json"]["schema"]
    jsonschema_rs.validate({**schema, "components": document["components"]}, answer.json())


def test_the_description_is_valid_and_each_answer_is_as_it_says(tmp_path: Path) -> None:
    project = write_project(tmp_path)
    with command(project, "run", "posting.plan.yaml", "--approve", "wait") as run:
        run.wait()
    with served_page(project) as served, served.client() as client:
        document = client.get("/api/v1/openapi.json").json()
        validate(document)
        [question] = client.get("/api/v1/decisions").json()
        root = "/api/v1"
        decision = f"{root}/decisions/{question['id']}"
        answers = {
            f"{root}/runs": [
                client.get(f"{root}/runs?text=posting"),
                client.get(f"{root}/runs?txt=posting"),
            ],
            f"{root}/runs/{{run}}": [
                client.get(f"{root}/runs/{question['run']}"),
                client.get(f"{root}/runs/none"),
            ],
            f"{root}/decisions": [client.get(f"{root}/decisions")],
            f"{root}/decisions/{{decision}}": [
                client.post(decision, json={"choice": "approve"}),
                client.post(decision, json={"choice": "approve", "by": "ada"}),
                client.post(decision, json={"choice": "approve", "by": "ada"}),
            ],
        }
        codes = [answer.status_code for found in answers.values() for answer in found]

        assert codes == [200, 422, 200, 404, 200, 422, 200, 409]
        assert answers.keys() <= document["paths"].keys()
        for path, found in answers.items():
            for answer in found:
                assert_described(document, path, answer)
        described = document["paths"][f"{root}/runs"]["get"]
        assert {one["name"] for one in described["parameters"]} >= {"text", "status", "before"}
        assert httpx.get(f"{served.root}{root}/openapi.json").status_code == 401


def test_a_run_serves_the_page_until_its_end_is_shown(tmp_path: Path) -> None:
    project = write_project(tmp_path)
    with command(project, "run", "waiting.plan.yaml", "--view") as run:
        served = ServedPage(run.stderr.readline().strip().removeprefix("live page: "))
        with served.client() as client:
            found: list[dict[str, str]] = []
            while not found:
                found = client.get("/api/v1/runs").json()["runs"]
            (project / "one.txt").touch()
            (project / "two.txt").touch()
            with client.stream("GET", f"/runs/{found[0]['run']}/stream") as stream:
                events = [line for line in stream.iter_lines() if line.startswith("event: ")]

        assert events[-1] == "event: ended"
        assert run.wait() == 0
