"""The page of messages says all that there is to know of them."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import get_args

import pytest

from tests.docs.blocks import blocks
from tests.engine.service.messages.sample_messages import delivered, refusal
from tests.repository.tree import ROOT
from wavewright.engine.service.messages.contract import payloads_of
from wavewright.engine.service.messages.delivery import sign
from wavewright.engine.service.messages.models import Envelope
from wavewright.engine.service.messages.reading import RejectionKind
from wavewright.packs.lore.messages import CONTRACT
from wavewright.tools.message_contract import JobStatus, MessageContract, Payload

PAGE = "\n".join(
    (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    for name in ("messages.md", "messages-sent.md", "message-rules.md")
)
MODELS = list(dict.fromkeys((*payloads_of(MessageContract()), *payloads_of(CONTRACT))))


def section(title: str) -> str:
    found = re.search(rf"^### `{title}`\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"no section is about {title}"
    return found[1]


@pytest.mark.parametrize("model", MODELS)
def test_every_field_of_a_message_stands_in_its_section(model: type[Payload]) -> None:
    text = section(model.message_type)

    assert [name for name in model.model_fields if f"`{name}`" not in text] == []


def test_every_field_of_the_envelope_is_described() -> None:
    assert [name for name in Envelope.model_fields if f"\n- `{name}`: " not in PAGE] == []


def test_every_status_is_described() -> None:
    text = section("job_status")
    names = (*get_args(JobStatus), *CONTRACT.statuses.values(), *CONTRACT.fields.values())

    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_kind_of_refusal_is_described_and_no_other() -> None:
    _, listed = PAGE.split("which begins with one of these kinds:\n\n")

    kinds = re.findall(r"^- (`\w+`(?:, `\w+`)*): ", listed.split("\n\n")[0], re.MULTILINE)
    assert sorted(re.findall(r"\w+", " ".join(kinds))) == sorted(get_args(RejectionKind))


def test_the_example_is_a_message_that_is_taken_in() -> None:
    [example] = [block.text for block in blocks(PAGE) if block.language == "json"]

    assert refusal(delivered(example.encode(), user_id="svc_ui")) is None


def test_the_shown_signature_is_the_daemons(tmp_path: Path) -> None:
    [program] = [block.text for block in blocks(PAGE) if block.language == "python"]
    (tmp_path / "shown.py").write_text(program, encoding="utf-8")

    shown = runpy.run_path(str(tmp_path / "shown.py"))["sign"]

    assert shown(b"key", b"{}", "m", "t", "r") == sign(
        b"key", body=b"{}", message_id="m", timestamp="t", routing_key="r"
    )
