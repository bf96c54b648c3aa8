"""Family E6: which way untrusted text and secrets take, and what breaks it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from wavewright.planner.cel.functions.catalogue import function_entries
from wavewright.planner.cel.macros import MACROS
from wavewright.planner.checks.checker import check
from wavewright.planner.checks.influenced_functions import RULES
from wavewright.planner.diagnostics.diagnostic import Diagnostic, for_model
from wavewright.planner.language.goals import AvailableTool, Goal
from wavewright.planner.language.plan import SUB_PLAN, Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject, JsonSchema, StepId

TEXT: JsonSchema = {"type": "string"}
PAGE: JsonSchema = {
    "type": "object",
    "additionalProperties": False,
    "required": ["text", "status", "kind", "code", "day", "time", "links"],
    "properties": {
        "text": TEXT,
        "status": {"type": "integer"},
        "stars": {"type": "integer", "minimum": 0, "maximum": 5},
        "kind": {"enum": ["news", "wiki"]},
        "code": {"type": "string", "pattern": "^[A-Z]{1,5}$"},
        "day": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
        "time": {"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$"},
        "links": {"type": "array", "items": TEXT},
    },
}
OBJECT: JsonSchema = {"type": "object"}
MESSAGE: JsonSchema = {
    "type": "object",
    "required": ["id", "sender", "body"],
    "properties": {"id": TEXT, "sender": TEXT, "body": TEXT},
}


def tool(name: str, params: dict[str, JsonSchema], **fields: Any) -> ToolSignature:
    schema: JsonObject = {
        "type": "object",
        "properties": dict(params),
        "additionalProperties": False,
    }
    return ToolSignature(name=name, input_schema=schema, **fields)


TOOLS = {
    one.name: one
    for one in (
        tool(
            "fetch",
            {"url": TEXT},
            effects={"egress", "read"},
            output_schema=PAGE,
            untrusted_output=True,
        ),
        tool(
            "summarize",
            {"text": {}},
            effects={"egress", "read"},
            output_schema=TEXT,
            expected_tokens=100,
        ),
        tool("count", {"text": TEXT}, output_schema={"type": "integer"}),
        tool("open_file", {"path": TEXT, "note": TEXT}, output_schema=TEXT),
        tool("post", {"title": TEXT, "body": TEXT, "page": {"type": "integer"}}, effects={"write"}),
        tool(
            "guarded", {"title": TEXT, "body": TEXT}, effects={"write"}, accepts_untrusted={"body"}
        ),
        tool("approved", {"body": TEXT}, effects={"write"}, needs_approval=True),
        tool(
            "fetch_inside",
            {"url": TEXT},
            effects={"egress", "read"},
            allowed_hosts={"url": ["example.org"]},
        ),
        tool(
            "upload",
            {"url": TEXT},
            effects={"egress"},
            destination={"url"},
            allowed_hosts={"url": ["example.org"]},
        ),
        tool("mail", {"to": TEXT, "text": TEXT}, effects={"egress"}, accepts_untrusted={"text"}),
        tool("ask", {"payload": OBJECT, "anything": {}}, effects={"egress", "read"}),
        tool(
            "pay",
            {"account": {"type": "integer"}, "amount": {"type": "number"}},
            effects={"write"},
            destination={"account"},
        ),
        tool("own", {}, output_schema={"type": "array", "items": TEXT}),
        tool("inbox", {}, output_schema={"type": "array", "items": MESSAGE}, untrusted={"body"}),
        tool("letter", {"n": {"type": "integer"}}, output_schema={"type": "integer"}),
        tool(
            "call", {"request": {"type": "object", "properties": {"url": TEXT}}}, effects={"egress"}
        ),
        tool(
            "open_all",
            {"pages": {"type": "array", "items": {"type": "string", "format": "uri"}}},
            effects={"egress", "read"},
        ),
        tool("spell", {f"c{n}": {} for n in range(25)}, effects={"write"}),
        tool("join", {f"c{n}": TEXT for n in range(25)}, output_schema=TEXT),
        tool("customer", {"id": TEXT}, output_schema={"type": "array", "items": MESSAGE}),
        tool("raw", {}, untrusted_output=True),
        tool(
            "notes",
            {},
            output_schema={
                "type": "array",
                "items": {"type": "object", "additionalProperties": TEXT},
            },
            untrusted={"body"},
        ),
        tool(
            "ask_person",
            {"question": TEXT, "options": {"type": "array", "items": TEXT}, "default": TEXT},
            output_schema=TEXT,
        ),
        tool("agent", {"task": TEXT, "context": {}}, effects={"egress", "read"}),
    )
}
FETCH: JsonObject = {"id": "page", "tool": "fetch", "params": {"url": "https://example.org/"}}


def found(
    *steps: JsonObject, inputs: JsonObject | None = None, goal: Goal | None = None
) -> list[Diagnostic]:
    plan = Plan.model_validate(
        {"inputs": inputs or {}, "steps": [FETCH, *steps], "result": "${steps.page.status}"}
    )
    diagnostics = check(plan, goal, TOOLS)
    # What is wrong otherwise hides the warnings, and a test of them would find nothing.
    assert [one for one in diagnostics if one.severity == "error" and one.code[:2] != "E6"] == []
    return [one for one in diagnostics if one.code[:2] == "E6" or one.code == "W809"]


def step(name: str, tool: str, **fields: Json) -> JsonObject:
    params = fields.pop("params", {})
    return {"id": name, "tool": tool, "params": params, **fields}


def posting(body: str, **fields: Json) -> JsonObject:
    return step("send", "post", params={"body": body}, **fields)


def codes(*steps: JsonObject) -> list[str]:
    return [one.code for one in found(*steps)]


ONE_OF_16_LETTERS = (
    "".join(f"steps.page.text.charAt(i) == '{c}' ? '{c}' : " for c in "abcdefghijklmno") + "' '"
)
LETTER_OF_16 = "'abcdefghijklmnop'.charAt(steps.page.text.split('')[i].size())"
LETTERS = [LETTER_OF_16.replace("[i]", f"[{n}]") for n in range(17)]
CHOSEN = [f"'abcdefghijklmnop'.split('')[steps.page.text.split('')[{n}].size()]" for n in range(18)]
EITHER = "now() > timestamp('2026-01-01T00:00:00Z')"
EACH_MAY_BE_THE_FIRST = [f"({EITHER} ? {CHOSEN[0]} : {chosen})" for chosen in CHOSEN[1:]]
FIELDS_OF_LETTERS = ", ".join(f"'c{n}': {letter}" for n, letter in enumerate(LETTERS))
SINKS = {
    "a written text": posting("${steps.page.text}"),
    "a part of a written text": posting("It says: ${steps.page.text}"),
    "an expression over it": posting("${steps.page.text.upperAscii() + '!'}"),
    "an address": step("send", "fetch", params={"url": "${steps.page.links[0]}"}),
    "a part of an address": step(
        "send", "fetch", params={"url": "https://x.org/?q=${steps.page.text}"}
    ),
    "a recipient": step("send", "mail", params={"to": "${steps.page.text}", "text": "hello"}),
    "a path of a tool that only reads": step(
        "send", "open_file", params={"path": "${steps.page.text}"}
    ),
    "an address inside a parameter": step(
        "send", "call", params={"request": "${{'url': steps.page.text}}"}
    ),
    "a list of addresses": step("send", "open_all", params={"pages": "${steps.page.links}"}),
    "the task of an agent": step("send", "agent", params={"task": "${steps.page.text}"}),
    "items of a list": step(
        "send", "fetch", params={"url": "${item}"}, for_each="${steps.page.links}"
    ),
    "items of a list of steps": posting("${item.text}", for_each="${[steps.page]}"),
    "a text of a fixed form": posting("${steps.page.code}"),
    "a number inside text": posting("+49 ${steps.page.status}"),
    "a number inside an expression": posting("${'+49' + string(steps.page.status)}"),
    "a date inside text": posting("/logs/${steps.page.day}"),
    "a field of an object of an expression": step(
        "send", "ask", params={"payload": "${{'q': steps.page.text}}"}
    ),
    "a field of an object": step("send", "ask", params={"payload": {"q": "${steps.page.text}"}}),
    "a key of an object": step("send", "ask", params={"payload": "${{steps.page.text: 1}}"}),
    "a whole object of a tool": step("send", "ask", params={"payload": "${steps.page}"}),
    "an integer as the destination": step(
        "send", "pay", params={"account": "${steps.page.status}", "amount": 1}
    ),
    "one of a few integers as the destination": step(
        "send", "pay", params={"account": "${steps.page.stars}", "amount": 1}
    ),
    "a month as the destination": step(
        "send", "pay", params={"account": "${timestamp(steps.page.day).getMonth()}", "amount": 1}
    ),
    "how many are kept as the destination": step(
        "send",
        "pay",
        params={
            "account": "${[1, 2, 3].filter(i, steps.page.text.contains(string(i))).size()}",
            "amount": 1,
        },
    ),
    "a destination among allowed hosts": step(
        "send", "upload", params={"url": "https://example.org/${steps.page.status}"}
    ),
    "letters, one by one": posting("${lists.range(90).map(i, steps.page.text.charAt(i)).join('')}"),
    "letters, chosen of a constant": posting(
        "${steps.page.text.split('').map(c, 'abc'.charAt('abc'.indexOf(c))).join('')}"
    ),
    "a list of numbers": step(
        "send", "ask", params={"payload": "${{'n': steps.page.links.map(l, l.size())}}"}
    ),
    "a list of answers": step(
        "send", "ask", params={"payload": "${{'n': steps.page.links.map(l, l == 'a')}}"}
    ),
    "two numbers": step(
        "send",
        "ask",
        params={"payload": {"a": "${steps.page.status}", "b": "${steps.page.text.size()}"}},
    ),
    "more letters than a call may have": posting(
        "${lists.range(20).map(i, ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k']"
        ".filter(c, c == steps.page.text.charAt(i))[0]).join('')}"
    ),
    "letters, each by a condition within others": posting(
        f"${{lists.range(20).map(i, {ONE_OF_16_LETTERS}).join('')}}"
    ),
    "letters side by side in an object": step(
        "send", "ask", params={"payload": f"${{{{{FIELDS_OF_LETTERS}}}}}"}
    ),
    "letters in several fields of a parameter": step(
        "send", "ask", params={"payload": {f"c{n}": f"${{{c}}}" for n, c in enumerate(LETTERS)}}
    ),
    "letters of which each may be the first": step(
        "send", "ask", params={"payload": {"c": f"${{[{', '.join(EACH_MAY_BE_THE_FIRST)}]}}"}}
    ),
    "letters in several parameters, of which each may be the first": step(
        "send", "spell", params={f"c{n}": f"${{{c}}}" for n, c in enumerate(EACH_MAY_BE_THE_FIRST)}
    ),
    "letters in several parameters": step(
        "send", "spell", params={f"c{n}": f"${{{c}}}" for n, c in enumerate(LETTERS)}
    ),
    "numbers computed of several": step(
        "send",
        "spell",
        params={
            "c0": "${steps.page.status}",
            "c1": "${steps.page.status + int(steps.page.text)}",
        },
    ),
    "digits in several parameters": step(
        "send",
        "spell",
        params={f"c{n}": f"${{timestamp(steps.page.links[{n}]).getMonth()}}" for n in range(25)},
    ),
    "letters, some of them beside a number": step(
        "send",
        "spell",
        params={
            "c0": f"${{{{'n': steps.page.status, 'l': [{', '.join(LETTERS[:9])}]}}}}",
            "c1": f"${{[{', '.join(LETTERS[9:])}]}}",
        },
    ),
    "letters side by side in a list": step(
        "send", "ask", params={"payload": f"${{{{'n': lists.range(20).map(i, {LETTER_OF_16})}}}}"}
    ),
    "more choices of choices than a call has bits": posting(
        f"${{lists.range(12).map(i, [{LETTER_OF_16}, {LETTER_OF_16}.upperAscii(), '-']"
        "[steps.page.stars]).join('')}"
    ),
    "which of more constants than a call has bits": posting(
        "${lists.range(65).map(i, string(i)).filter(i, steps.page.text.contains(i)).join()}"
    ),
    "which of more letters are kept and changed": posting(
        "${lists.range(65).map(i, steps.page.text.contains(string(i)), string(i)).join()}"
    ),
    "the order of many letters": posting(
        "${'abcdefghijklmnopqrstuvwxyz'.split('').sortBy(c, steps.page.text.indexOf(c)).join('')}"
    ),
    "two selections in one text": posting(
        "${lists.range(40).map(i, string(i)).filter(i, steps.page.text.contains(i)).join()"
        " + lists.range(40).map(i, string(i)).filter(i, steps.page.text.endsWith(i)).join()}"
    ),
    "a word that is not among trusted ones": posting(
        "${steps.page.text in ['a'] ? 'b' : steps.page.text}"
    ),
    "a word that may be among trusted ones": posting(
        "${steps.page.text in ['a'] || true ? steps.page.text : 'b'}"
    ),
    "a word of which one of two conditions says nothing": posting(
        "${steps.page.text == 'a' || steps.page.links[0] == 'a' ? steps.page.text : ''}"
    ),
    "a word where not both of two conditions hold": posting(
        "${steps.page.text != 'a' && steps.page.stars > 2 ? '' : steps.page.text}"
    ),
    "another element than the one that is compared": posting(
        "${steps.page.links[0] in ['a'] ? steps.page.links[1] : ''}"
    ),
    "a word among those of the page": posting(
        "${steps.page.text}", when="steps.page.text in steps.page.links"
    ),
    "a word that some word of the page equals": posting(
        "${steps.page.links.exists(l, l == steps.page.text) ? steps.page.text : ''}"
    ),
    "a word that some word of the page is": posting(
        "${steps.page.links.filter(l, l == steps.page.text).size() > 0 ? steps.page.text : ''}"
    ),
    "a word that none of the constants is": posting(
        "${['a'].filter(a, a == steps.page.text).size() == 0 ? steps.page.text : ''}"
    ),
    "a word that no constant equals": posting(
        "${['a'].exists(a, a == steps.page.text) ? '' : steps.page.text}"
    ),
    "a word that not all constants equal": posting(
        "${['a'].all(a, a == steps.page.text) ? steps.page.text : 'b'}"
    ),
    "a word whose name a macro has for another": posting(
        "${steps.page.links.filter(l, ['a'].exists(l, l == 'a'))[0]}"
    ),
    "a field beside the one that is compared": posting(
        "${steps.page.links.map(l, {'a': l, 'b': l}).filter(x, x.a in ['a'])[0].b}"
    ),
    "an element of a list that has others": posting(
        "${steps.page.links.all(l, l in ['a']) ? 'b' : steps.page.links[0]}"
    ),
    "an element of a list in which one is a constant": posting(
        "${steps.page.links.exists_one(l, l != 'a') ? '' : steps.page.links[0]}"
    ),
    "a word among which are all constants": posting(
        "${sets.contains([steps.page.text, 'a'], ['a']) ? steps.page.text : 'b'}"
    ),
    "which keys of an object are kept": posting(
        f"${{{ {f'key{i}': i for i in range(70)} }.transformMap("
        "k, v, steps.page.text.contains(k), v).map(k, k).join('')}"
    ),
    "which entries of an object are kept": posting(
        f"${{{ {f'key{i}': i for i in range(70)} }.transformMapEntry("
        "k, v, steps.page.text.contains(k), {k: v}).map(k, k).join('')}"
    ),
    "a name of a macro that hides a word among trusted ones": posting(
        "${steps.page.links.map(x, x in ['a'] ? steps.page.links.map(x, x)[0] : 'b')[0]}"
    ),
    "the replacement in a constant": posting("${'to: X'.replace('X', steps.page.text)}"),
    "a value that format fills in": posting("${'to: %s'.format([steps.page.text])}"),
    "a name that is bound": posting("${cel.bind(x, steps.page.text, x.trim())}"),
    "the longest of several": posting("${steps.page.links.max()}"),
    "the untrusted one of two lists that are zipped": posting(
        "${zip(['a'], [steps.page.text])[0][1]}"
    ),
    "all of two lists that are zipped": posting("${zip(['a'], [steps.page.text])[0].join('')}"),
    "the replacement of what a page chooses": posting(
        "${'abc'.replace(steps.page.kind, steps.page.text)}"
    ),
    "the digits of a date": posting("${format(steps.page.day, '%Y%m%d')}"),
    "parts of a date side by side": posting(
        "${steps.page.day.substring(0, 4) + steps.page.day.split('-')[1]}"
    ),
    "dates side by side": posting("${steps.page.day}${steps.page.time}"),
    "a date in a format of another kind": posting("${format(steps.page.day, '/logs/%Y-%m-%d')}"),
    "a format that a page gives": posting("${format(now(), steps.page.text)}"),
    "one of two lists that are joined": posting("${(steps.page.links + steps.page.links)[0]}"),
    "an entry of a new map": step(
        "send",
        "ask",
        params={"payload": "${{'a': 1}.transformMap(k, v, steps.page.text)}"},
    ),
}


@pytest.mark.parametrize("sink", SINKS.values(), ids=SINKS)
def test_text_from_outside_is_refused_as(sink: JsonObject) -> None:
    [fault] = [one for one in found(sink) if one.severity == "error"]

    assert fault.code == "E601"
    assert fault.pointer.startswith("/steps/1/params")
    assert "'page' → " in fault.message
    assert "needs_approval: true" in (fault.hint or "")


DECIDED = {
    "a number as text": ("post", "body", "${string(steps.page.status)}"),
    "one of a few words": ("post", "body", "${steps.page.kind}"),
    "one of a few words inside text": ("post", "body", "it is ${steps.page.kind}"),
    "how long it is": ("post", "page", "${steps.page.text.size()}"),
    "a comparison": ("post", "body", "${string(steps.page.text == 'yes')}"),
    "a number, by the parameter": ("post", "page", "${steps.page.status}"),
    "an amount": ("pay", "amount", "${steps.page.status / 2}"),
    "a day": ("post", "body", "${steps.page.day}"),
    "a day and a time": ("post", "body", "${steps.page.day} ${steps.page.time}"),
    "a day and a time of an expression": (
        "post",
        "body",
        "${steps.page.day + 'T' + steps.page.time + ':00Z'}",
    ),
    "a day and a time of an inner sum": (
        "post",
        "body",
        "${steps.page.day + ('T' + steps.page.time)}",
    ),
    "parts of a date with marks": (
        "post",
        "body",
        "${steps.page.day.substring(0, 4) + '/' + steps.page.day.substring(5, 7)}",
    ),
    "one of a few numbers inside text": ("post", "body", "${steps.page.stars} stars"),
    "one of a few accounts": ("pay", "account", "${steps.page.stars > 2 ? 4 : 5}"),
    "an account by one of a few numbers": ("pay", "account", "${[41, 42][steps.page.stars]}"),
    "a later day": (
        "post",
        "body",
        "${string(timestamp(steps.page.day) + duration('4h'))}",
    ),
    "a day as people write it": ("post", "body", "${format(steps.page.day, '%d. %B %Y')}"),
    "a part that a page chooses of a text": ("post", "body", "${'a,b'.split(steps.page.text)[0]}"),
    "where a page cuts a text": (
        "post",
        "body",
        "${steps.own[0].split(steps.page.text).join('-')}",
    ),
    "what is replaced in a text": ("post", "body", "${'abc'.replace(steps.page.text, 'x')}"),
    "how often it is replaced": ("post", "body", "${'aab'.replace('a', 'x', steps.page.status)}"),
    "the other one of two lists, by what a page says": (
        "post",
        "body",
        "${zip(steps.own, steps.page.links).maxBy(pair, pair[1])[0]}",
    ),
    "a month": ("post", "body", "${steps.page.day.substring(0, 7)}"),
    "a choice of constants": ("post", "body", "${steps.page.text == 'x' ? 'a' : 'b'}"),
    "joined choices": (
        "post",
        "body",
        "${[steps.page.text == 'x' ? 'a' : 'b', 'c'].join(', ')}",
    ),
    "a few letters, each by a condition within others": (
        "post",
        "body",
        f"${{lists.range(12).map(i, {ONE_OF_16_LETTERS}).join('')}}",
    ),
    "a few words of a table of constants": (
        "post",
        "body",
        "${lists.range(20).map(i, {'a': 'x', 'b': 'y', 'c': 'z'}[steps.page.text.charAt(i)]).join('')}",
    ),
    "how many entries an object gets": (
        "post",
        "body",
        "${string(['a', 'b'].filter(w, steps.page.kind == w).transformMapEntry(i, w, {w: 1}).size())}",
    ),
    "a trusted value by an index": ("post", "body", "${steps.own[steps.page.status]}"),
    "a trusted value by a condition": (
        "post",
        "body",
        "${steps.own.filter(o, steps.page.text.contains(o))[0]}",
    ),
    "which of a few letters are kept": (
        "post",
        "body",
        "${'abcdefghijklmnopqrstuvwxyz'.split('').filter(c, steps.page.text.contains(c)).join('')}",
    ),
    "the order of a few words": (
        "post",
        "body",
        "${['a', 'b', 'c', 'd'].sortBy(w, steps.page.text.indexOf(w)).join(', ')}",
    ),
    "which of the values that a tool gives are kept": (
        "post",
        "body",
        "${steps.own.filter(o, steps.page.text.contains(o)).join(', ')}",
    ),
    "the first of many that are kept": (
        "post",
        "body",
        "${lists.range(100).filter(i, steps.page.text.contains(string(i))).map(i, string(i))[0]}",
    ),
    "how many of many are kept": (
        "post",
        "body",
        "${string(lists.range(100).filter(i, steps.page.text.contains(string(i))).size())}",
    ),
    "which of a few keys of an object are kept": (
        "post",
        "body",
        "${{'a': 1, 'b': 2}.transformMap(k, v, steps.page.text.contains(k), v).map(k, k).join()}",
    ),
    "a word that a condition has found among trusted ones": (
        "post",
        "body",
        "${steps.page.text in steps.own && steps.page.stars > 2 ? steps.page.text : 'none'}",
    ),
    "a word that is one of two": (
        "post",
        "body",
        "${steps.page.text == 'a' || steps.page['text'] in steps.own ? steps.page.text : ''}",
    ),
    "a word that is not another than a trusted one": (
        "post",
        "body",
        "${steps.page.text != 'a' && !(steps.page.text in steps.own) ? '' : steps.page.text}",
    ),
    "an element that is a trusted one": (
        "post",
        "body",
        "${!(steps.page.links[0] in steps.own) ? '' : steps.page.links[0]}",
    ),
    "the first of a page's words that are trusted ones": (
        "post",
        "body",
        "${steps.page.links.filter(l, l in steps.own)[0]}",
    ),
    "a field of a mail that is a trusted one": (
        "post",
        "body",
        "${steps.inbox.filter(m, m.id != '' && m.body in steps.own)[0].body}",
    ),
    "a field within a field, which a condition has compared": (
        "post",
        "body",
        "${steps.page.links.map(l, {'a': {'b': l}}).filter(l, l.a.b in steps.own).map(l, l.a.b)[0]}",
    ),
    "an element of a list of trusted ones alone": (
        "post",
        "body",
        "${steps.page.links.all(l, l in steps.own) ? steps.page.links[0] : ''}",
    ),
    "an element of a list in which no other is": (
        "post",
        "body",
        "${!steps.page.links.exists(l, l != 'a') ? steps.page.links[0] : ''}",
    ),
    "a word that some trusted one equals": (
        "post",
        "body",
        "${steps.own.exists(o, o == steps.page.text) ? steps.page.text : ''}",
    ),
    "a word that is among those that were kept of trusted ones": (
        "post",
        "body",
        "${steps.own.filter(o, o == steps.page.text).size() > 0 ? steps.page.text : ''}",
    ),
    "a word of which no trusted one is left": (
        "post",
        "body",
        "${[] == steps.own.filter(o, o == steps.page['text']) ? '' : (steps.page.text)}",
    ),
    "a word under a name, which some trusted one equals": (
        "post",
        "body",
        "${cel.bind(x, steps.page.text, 0 < size(steps.own.filter(o, o == x)) ? x : '')}",
    ),
    "a word from which not all trusted ones differ": (
        "post",
        "body",
        "${steps.own.all(i, o, o != steps.page.text) ? '' : steps.page.text}",
    ),
    "an element that some trusted one equals": (
        "post",
        "body",
        "${steps.page.links.filter(l, steps.own.exists_one(o, o == l))[0]}",
    ),
    "a word that is in a set of trusted ones": (
        "post",
        "body",
        "${sets.contains(steps.own, ['a', steps.page.text]) ? steps.page.text : ''}",
    ),
    "ids of the server's": ("post", "body", "${steps.inbox.map(m, m.id).join(' ')}"),
    "an id of the server's by an index": ("post", "body", "${steps.inbox[steps.page.status].id}"),
}


@pytest.mark.parametrize(("tool", "name", "text"), DECIDED.values(), ids=DECIDED)
def test_a_warning_is_of(tool: str, name: str, text: str) -> None:
    own: tuple[JsonObject, ...] = (step("own", "own"), step("inbox", "inbox"))

    [warning] = found(*own, step("send", tool, params={name: text}))

    assert (warning.code, warning.pointer) == ("W809", f"/steps/3/params/{name}")
    assert f"decides '{name}' of '{tool}'" in warning.message
    assert found(*own, step("send", tool, params={name: text}, needs_approval=True)) == []


def test_a_step_may_send_what_its_condition_has_found_among_trusted_values() -> None:
    sent = posting("${steps.page.text}")

    assert codes({**sent, "when": "steps.page.text in ['a@example.org', 'b@example.org']"}) == [
        "W809"
    ]
    assert codes({**sent, "when": "steps.page.text == 'a' || steps.page.text == 'b'"}) == ["W809"]
    assert codes({**sent, "when": "steps.page.kind in ['news']"}) == ["E601"]


ITEMS = {
    "an item": ("${steps.page.links}", "steps.page.links.all(l, l in ['a'])", "${item}"),
    "an item of which no other is there": (
        "${steps.page.links}",
        "!steps.page.links.exists(l, !(l in ['a', 'b']))",
        "${item}",
    ),
    "a field of an item": (
        "${steps.inbox}",
        "steps.inbox.all(m, m.body in ['a', 'b'])",
        "${item.body}",
    ),
    "an item of a list of two": (
        ["${steps.page.text}", "b"],
        "steps.page.text in ['a'] && steps.page.status > 0",
        "${item}",
    ),
}


@pytest.mark.parametrize(("items", "when", "sent"), ITEMS.values(), ids=ITEMS)
def test_a_step_may_send_what_its_condition_has_found_of_all_items(
    items: Json, when: str, sent: str
) -> None:
    inbox = step("inbox", "inbox")

    assert codes(inbox, posting(sent, for_each=items, when=when)) == ["W809"]
    assert "E601" in codes(inbox, posting(sent, for_each=items))


@pytest.mark.parametrize("holds", ["l == item", "l in [item]", "[item, 'a'].exists(i, i == l)"])
def test_a_condition_that_compares_items_with_the_item_itself_says_nothing(holds: str) -> None:
    when = f"steps.page.links.all(l, {holds})"

    assert "E601" in codes(posting("${item}", for_each="${steps.page.links}", when=when))


def test_letters_that_a_tool_has_joined_are_text() -> None:
    params: JsonObject = {f"c{n}": f"${{{letter}}}" for n, letter in enumerate(LETTERS)}

    assert codes(step("word", "join", params=params), posting("${steps.word}")) == ["E601"]
    few: JsonObject = {name: params[name] for name in ("c0", "c1", "c2")}
    assert codes(step("word", "join", params=few), posting("${steps.word}")) == ["W809"]


READ_OF_ONE_RECORD: dict[str, tuple[JsonObject, str, JsonObject]] = {
    "a record that a tool has found": (
        step("row", "customer", params={"id": "${steps.own[steps.page.status]}"}),
        "${steps.row[0].sender}",
        {},
    ),
    "a record of a list at a place that a page chooses": (
        step("own", "own"),
        "${inputs.rows[steps.page.status].sender}",
        {},
    ),
    "one of two records, each at a place that a page chooses": (
        step("own", "own"),
        f"${{({EITHER} ? inputs.rows[steps.page.status] : inputs.rows[steps.page.stars]).sender}}",
        {},
    ),
    "the record of one item that a page chooses": (
        step(
            "row",
            "customer",
            for_each=["${steps.own[steps.page.status]}", "${steps.own[steps.page.stars]}"],
            params={"id": "${item}"},
        ),
        "${steps.row[0][0].sender}",
        {},
    ),
    "the first record of a list that a page's text is found in": (
        step("own", "own"),
        "${inputs.rows.filter(r, r.sender == steps.page.text)[0].sender}",
        {},
    ),
    "the first record of a list that an item is found in": (
        step("own", "own"),
        "${inputs.rows.filter(r, r.sender == item)[0].sender}",
        {"for_each": "${steps.page.links}"},
    ),
    "an item among chosen ones": (
        step("own", "own"),
        "${item}",
        {"for_each": "${steps.own.filter(o, steps.page.text.contains(o))}"},
    ),
    "a record of a step that a page has let run": (
        step("row", "customer", params={"id": "x"}, when="steps.page.text == 'x'"),
        "${steps.row[0].sender}",
        {"when": "has(steps.row)"},
    ),
}


@pytest.mark.parametrize(
    ("row", "read", "fields"), READ_OF_ONE_RECORD.values(), ids=READ_OF_ONE_RECORD
)
def test_what_is_read_of_one_choice_counts_once(
    row: JsonObject, read: str, fields: JsonObject
) -> None:
    params: JsonObject = {f"c{n}": read for n in range(25)}
    others = () if row["id"] == "own" else (step("own", "own"),)

    sent = step("send", "spell", params=params, **fields)
    rows: JsonObject = {"rows": [{"sender": f"s{n}"} for n in range(40)]}

    assert [one.code for one in found(*others, row, sent, inputs=rows)] == ["W809"]


ROW = "inputs.rows[steps.page.status]"
FIELDS = 2 * "abcdefg"
COUNTED_ONCE: dict[str, tuple[JsonObject, JsonObject]] = {
    "fields of one record in one text": (
        {"c0": " ".join(f"${{{ROW}.{field}}}" for field in FIELDS)},
        {},
    ),
    "fields of one record in one expression": (
        {"c0": f"${{{' + '.join(f'{ROW}.{field}' for field in FIELDS)}}}"},
        {},
    ),
    "fields of records of several lists with one key": (
        {f"c{n}": f"${{inputs.rows{n}[steps.page.status].a}}" for n in range(25)},
        {},
    ),
    "what a condition has found among trusted values": (
        {f"c{n}": "${steps.page.text}" for n in range(12)},
        {"when": "steps.page.text in steps.own"},
    ),
    "what a condition has found among items of a list": (
        {f"c{n}": "${item}" for n in range(12)},
        {"when": "steps.own.exists(o, o == item)", "for_each": "${steps.page.links}"},
    ),
    "what one condition chooses": (
        {f"c{n}": 3 * f"${{steps.page.text == 'a' ? 'yes{n}' : 'no'}}" for n in range(25)},
        {},
    ),
    "a number in several parameters": (
        {f"c{n}": "${steps.page.status}" for n in range(4)},
        {},
    ),
    "a number and what is computed of it": (
        {f"c{n}": f"${{{n} - steps.page.status * {n}}}" for n in range(4)},
        {},
    ),
    "a number and what is made of it": (
        {
            "c0": "${steps.page.status}",
            "c1": "${int(steps.page.status)}",
            "c2": "${double(steps.page.status)}",
        },
        {},
    ),
    "a date in several fields": (
        {"c0": "${{'from': steps.page.day, 'to': steps.page.day, 'by': steps.page.day}}"},
        {},
    ),
    "a number of an item in several parameters": (
        {f"c{n}": "${item.status}" for n in range(4)},
        {"for_each": "${[steps.page]}"},
    ),
    "a number beside fields of one record": (
        {f"c{n}": f"${{{{'n': steps.page.status, 'a': {ROW}.a}}}}" for n in range(9)},
        {},
    ),
}


@pytest.mark.parametrize(("params", "fields"), COUNTED_ONCE.values(), ids=COUNTED_ONCE)
def test_what_a_call_reads_twice_counts_once(params: JsonObject, fields: JsonObject) -> None:
    sent = step("send", "spell", params=params, **fields)
    records: list[Json] = [{**dict.fromkeys("abcdefg", "x")}] * 40
    rows: JsonObject = dict.fromkeys(["rows", *(f"rows{n}" for n in range(25))], records)

    assert [one.code for one in found(step("own", "own"), sent, inputs=rows)] == ["W809"]


READ_OF_SEVERAL_RECORDS = {
    "records at places": "${inputs.rows[steps.page.text.split('')[N].size()].sender}",
    "records that a sub-plan has found for each item": "${steps.each[N].found.sender}",
    "what a sub-plan has made of each item": "${steps.each[N].made[0]}",
}


@pytest.mark.parametrize(
    "read", READ_OF_SEVERAL_RECORDS.values(), ids=READ_OF_SEVERAL_RECORDS.keys()
)
def test_what_is_read_of_several_choices_counts_for_each(read: str) -> None:
    rows: JsonObject = {"rows": [{"sender": f"s{n}"} for n in range(40)]}
    records = "${inputs.rows.map(r, inputs.rows[steps.page.text.split('')[r.size()].size()])}"
    result: Json = {
        "found": "${inputs.rows.filter(r, r.sender == item.sender)[0]}",
        "made": ["${item.sender}"],
    }
    each = step("each", SUB_PLAN, for_each=records, params={"result": result})
    sent = step("send", "spell", params={f"c{n}": read.replace("N", str(n)) for n in range(25)})

    assert [one.code for one in found(each, sent, inputs=rows)] == ["E601"]


def test_what_is_read_of_several_items_counts_for_each() -> None:
    ids: list[Json] = [f"${{steps.own[steps.page.text.split('')[{n}].size()]}}" for n in range(8)]
    rows = step("row", "customer", for_each=ids, params={"id": "${item}"})
    of_each: JsonObject = {f"c{n}": f"${{steps.row[{n}][0].sender}}" for n in range(8)}

    sent = step("send", "spell", params=of_each)
    assert codes(step("own", "own"), rows, sent) == ["E601"]


def test_a_warning_names_all_that_is_decided_of_a_step() -> None:
    [warning] = found(
        step(
            "send",
            "post",
            for_each="${steps.page.links}",
            when="steps.page.text == 'go'",
            params={"page": "${steps.page.status}"},
        )
    )

    assert "decides whether and how often step 'send' calls 'post', and 'page'" in warning.message


def test_a_goal_may_demand_an_approval_of_what_is_decided() -> None:
    allowed = tuple(AvailableTool(name=name) for name in TOOLS)
    goal = Goal(name="g", job="j", text="x", inputs={}, tools=allowed, untrusted_writes="approve")
    often: JsonObject = {"for_each": "${steps.page.links}", "params": {"body": "fixed"}}

    assert [one.code for one in found(step("send", "post", **often), goal=goal)] == ["E604"]
    assert found(step("send", "post", **often, needs_approval=True), goal=goal) == []


def test_fields_that_the_server_makes_are_not_the_senders_text() -> None:
    inbox = step("inbox", "inbox")

    assert found(inbox, posting("${steps.inbox[0].sender}")) == []
    assert codes(inbox, posting("${steps.inbox[0].body}")) == ["E601"]
    assert codes(inbox, step("send", "ask", params={"payload": "${steps.inbox[0]}"})) == ["E601"]


@pytest.mark.parametrize(
    "listed",
    [
        "steps.inbox",
        "steps.inbox.filter(m, m.sender in ['a', 'b'])",
        "steps.inbox.map(m, {'sender': m.sender})",
        "steps.inbox.filter(m, m.sender != '').slice(0, 3)",
    ],
)
def test_what_stands_at_a_place_is_not_decided_by_how_many_were_sent(listed: str) -> None:
    inbox = step("inbox", "inbox")

    for place in ("[0]", "[inputs.n]"):
        send = posting(f"${{{listed}{place}.sender}}")
        assert found(inbox, send, inputs={"n": 1}) == []


@pytest.mark.parametrize(
    "listed",
    [
        "steps.inbox.reverse()",
        "steps.inbox.sortBy(m, m.sender)",
        "steps.inbox.filter(m, m.body.contains('a'))",
        "steps.inbox.sortBy(m, m.body)",
        "lists.range(steps.page.status).map(i, {'sender': string(i)}).reverse()",
        "lists.range(steps.page.status).sortBy(i, -i).map(i, {'sender': string(i)})",
    ],
)
def test_what_stands_at_a_place_of_another_order_is_a_choice(listed: str) -> None:
    inbox = step("inbox", "inbox")

    assert codes(inbox, posting(f"${{{listed}[0].sender}}")) == ["W809"]


@pytest.mark.parametrize(
    "nested",
    [
        "cel.bind(x{n}, [{inner}, {inner2}], {rest})",
        "[0, 1, 2, 3, 4, 5, 6, 7].map(x{n}, {rest})",
    ],
)
def test_an_expression_that_doubles_at_each_level_is_checked_at_once(nested: str) -> None:
    text = "x20"
    for number in range(20, 0, -1):
        inner = "steps.page.text" if number == 1 else f"x{number - 1}"
        text = nested.format(n=number, inner=inner, inner2=inner, rest=text)
    began = time.process_time()

    found(step("send", "ask", params={"payload": f"${{{{'a': {text}}}}}"}))

    assert time.process_time() - began < 2


def test_text_that_goes_through_a_tool_of_numbers_is_text() -> None:
    coded = step(
        "coded",
        "letter",
        for_each="${steps.page.text.split('').map(c, 'abc'.indexOf(c))}",
        params={"n": "${item}"},
    )
    send = posting("${steps.coded.map(n, 'abc'.charAt(n)).join('')}")

    assert "E601" in codes(coded, send)


@pytest.mark.parametrize("joined", ["steps.raw.a + steps.raw.b", "(steps.raw.a + steps.raw.b)[0]"])
def test_a_sum_of_what_nothing_types_may_be_text(joined: str) -> None:
    assert codes(step("raw", "raw"), posting(f"${{{joined}}}")) == ["E601"]


def test_a_sum_of_what_nothing_types_and_of_a_number_is_a_number() -> None:
    send = step("send", "post", params={"page": "${int(steps.raw.a + 1)}"})

    assert codes(step("raw", "raw"), send) == ["W809"]


@pytest.mark.parametrize(
    "read", ["steps.notes[0]['bo' + 'dy']", "steps.notes[0].transformList(k, v, v)[0]"]
)
def test_a_field_under_a_key_that_is_computed_may_be_the_senders_text(read: str) -> None:
    send = posting(f"${{{read}}}")

    assert codes(step("notes", "notes"), send) == ["E601"]


ANSWERED: dict[str, tuple[JsonObject, list[str]]] = {
    "their own words": ({"question": "What of ${steps.page.text}?"}, []),
    "one of the answers that the plan gives": (
        {"question": "Is ${steps.page.text} right?", "options": ["yes", "no"]},
        [],
    ),
    "one of the answers that a page gives": (
        {"question": "Which?", "options": "${steps.page.links}"},
        ["E601"],
    ),
    "an answer that a page gives for them": (
        {"question": "Which?", "default": "${steps.page.text}"},
        ["E601"],
    ),
}


@pytest.mark.parametrize(("params", "expected"), ANSWERED.values(), ids=ANSWERED)
def test_a_persons_answer_is(params: JsonObject, expected: list[str]) -> None:
    send = posting("${steps.asked}")

    assert codes(step("asked", "ask_person", params=params), send) == expected


def test_calls_that_a_page_chooses_reach_an_address_also_beside_a_worker() -> None:
    todo: Json = "${[{'tool': 'fetch', 'params': {'url': steps.page.text}}]}"
    calls = step("calls", "dispatch.fetch.summarize", for_each=todo, params={"call": "${item}"})

    assert codes(calls) == ["E601"]


CLEAN = {
    "a text that the tool takes as data": step(
        "send", "guarded", params={"body": "${steps.page.text}"}
    ),
    "what a person approves, by the tool": step(
        "send", "approved", params={"body": "${steps.page.text}"}
    ),
    "what a person approves, by the step": posting("${steps.page.text}", needs_approval=True),
    "an address within allowed hosts": step(
        "send", "fetch_inside", params={"url": "${steps.page.links[0]}"}
    ),
    "the text of a letter": step(
        "send", "mail", params={"to": "a@example.org", "text": "${steps.page.text}"}
    ),
    "the context of an agent": step(
        "send", "agent", params={"task": "Sum up", "context": "${steps.page.text}"}
    ),
    "order without data": posting("done", depends_on=["page"]),
    "the other one of two lists that are zipped": posting("${zip(['a'], [steps.page.text])[0][0]}"),
    "calls of workers that a page chooses": step(
        "send",
        "dispatch.summarize",
        for_each="${[{'tool': 'summarize', 'params': {'text': steps.page.text}}]}",
        params={"call": "${item}"},
    ),
    "an index": step(
        "look", "count", params={"text": "${index} of"}, for_each="${steps.page.links}"
    ),
}


@pytest.mark.parametrize("use", CLEAN.values(), ids=CLEAN)
def test_no_fault_is(use: JsonObject) -> None:
    assert found(use) == []


def test_the_whole_way_is_named() -> None:
    [fault] = found(
        step("short", "summarize", params={"text": "${steps.page}"}),
        step("shorter", "summarize", params={"text": ["${steps.short}"]}),
        step("send", "post", params={"title": "News", "body": "${steps.shorter}"}),
    )

    assert "'fetch' → 'page' → 'short' → 'shorter' → 'body' of 'send'" in fault.message
    assert fault.pointer == "/steps/3/params/body"


def test_a_tool_that_gives_a_number_carries_a_number() -> None:
    assert codes(
        step("words", "count", params={"text": "${steps.page.text}"}),
        posting("${steps.words} words"),
    ) == ["E601"]
    assert codes(
        step("words", "count", params={"text": "${steps.page.text}"}),
        step("send", "post", params={"page": "${steps.words}"}),
    ) == ["W809"]


def test_a_parameter_is_reported_once_and_each_of_them() -> None:
    twice = "${steps.page.text} ${steps.page.links[0]}"

    faults = found(step("send", "post", params={"title": "${steps.page.text}", "body": twice}))

    assert [one.pointer for one in faults] == ["/steps/1/params/title", "/steps/1/params/body"]


def test_readers_of_a_superseded_step_read_what_stands_for_it() -> None:
    local = step("first", "open_file", params={"path": "a.txt"})
    instead = step("second", "fetch", params={"url": "https://x.org"}, supersedes="first")

    send = posting("${steps.first}")

    diagnostics = check(Plan.model_validate({"steps": [local, instead, send]}), None, TOOLS)

    [fault] = [one for one in diagnostics if one.code == "E601"]
    assert "'second' → 'body' of 'send'" in fault.message


def test_a_condition_on_text_from_outside_warns_where_something_would_be_written() -> None:
    condition = "steps.page.text.contains('go')"

    [warning] = found(posting("fixed", when=condition))

    assert (warning.code, warning.severity, warning.pointer) == ("W809", "warning", "/steps/1/when")
    assert found(posting("x", when=condition, needs_approval=True)) == []
    assert found(step("look", "count", params={"text": "fixed"}, when=condition)) == []


@pytest.mark.parametrize(
    ("called", "told"),
    [
        (step("send", "approved", params={"body": "x"}), "leave the step out"),
        (posting("x", needs_approval=True), "leave out `needs_approval`"),
    ],
)
def test_a_step_that_needs_approval_is_a_fault_where_nobody_can_be_asked(
    called: JsonObject, told: str
) -> None:
    plan = Plan.model_validate({"steps": [called]})
    [fault] = check(plan, None, TOOLS, can_ask=False)
    [of_model] = for_model([fault])

    assert fault.code == "E602"
    assert "run it where somebody can answer" in (fault.hint or "")
    assert told in (of_model.hint or "")
    assert check(plan, None, TOOLS) == []


def test_a_model_is_told_what_it_can_write_of_untrusted_text() -> None:
    sent = step("send", "mail", params={"to": "${steps.page.text}", "text": "hello"})
    [fault] = found(sent)
    [of_model] = for_model([fault])

    assert "accepts_untrusted" in (fault.hint or "")
    assert "needs_approval: true" in (of_model.hint or "")
    assert "accepts_untrusted" not in (of_model.hint or "")


@pytest.mark.parametrize(("params", "found"), [({}, ["E602"]), ({"default": "yes"}, [])])
def test_a_question_without_a_default_is_a_fault_where_nobody_answers(
    params: JsonObject, found: list[str]
) -> None:
    ask = tool("ask_person", {"question": TEXT, "default": TEXT}, output_schema=TEXT)
    plan = Plan.model_validate(
        {"steps": [step("which", "ask_person", params={"question": "Which?", **params})]}
    )

    assert [one.code for one in check(plan, None, {"ask_person": ask}, can_answer=False)] == found
    assert check(plan, None, {"ask_person": ask}, can_ask=False) == []


NOBODY_IS_ASKED: list[tuple[JsonObject, list[str]]] = [
    ({"when": "inputs.more"}, []),
    ({"when": "!inputs.more"}, ["E602"]),
    ({"when": "steps.first > 1"}, ["E602"]),
    ({"for_each": "${inputs.none}"}, []),
    ({"for_each": "${inputs.some}", "when": "item > 2"}, []),
    ({"for_each": "${inputs.some}", "when": "item > 1"}, ["E602"]),
    ({"for_each": "${inputs.some}", "when": "item > steps.first"}, ["E602"]),
]


@pytest.mark.parametrize(("condition", "faults"), NOBODY_IS_ASKED)
def test_a_step_that_is_known_to_call_nothing_needs_nobody(
    condition: JsonObject, faults: list[str]
) -> None:
    plan = Plan.model_validate(
        {
            "inputs": {"more": False, "none": [], "some": [1, 2]},
            "steps": [
                step("first", "count", params={"text": "x"}),
                step("send", "approved", params={"body": "x"}, **condition),
            ],
        }
    )

    assert [fault.code for fault in check(plan, None, TOOLS, can_ask=False)] == faults


def test_a_finished_step_needs_nobody() -> None:
    plan = Plan.model_validate({"steps": [step("send", "approved", params={"body": "x"})]})

    assert check(plan, None, TOOLS, can_ask=False, finished=[StepId("send")]) == []


KEY = "api_key=9f8e7d6c5b4a39281706f5e4d3c2b1a0"


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        pytest.param({"key": KEY}, "${inputs.key}", id="an input that looks like a key"),
        pytest.param(
            {"password": "hunter2hunter2"}, "pw ${inputs.password}", id="an input declared as one"
        ),
        pytest.param({}, f"use {KEY}", id="a literal"),
        pytest.param(
            {"password": "hunter2hunter2"}, "${string(inputs.size())}${inputs}", id="all inputs"
        ),
        pytest.param({"login": {"pin": "hunter2"}}, "${inputs.login.pin}", id="a part of an input"),
        pytest.param({"untyped": "hunter2"}, "${string(inputs.untyped)}", id="without a type"),
    ],
)
def test_a_secret_in_what_is_sent_is_refused(inputs: JsonObject, text: str) -> None:
    declared: JsonSchema = {
        "type": "object",
        "properties": {
            "password": {"anyOf": [{"type": "string", "format": "password"}, {"type": "null"}]},
            "untyped": {"format": "password"},
            "login": {
                "type": "object",
                "properties": {
                    "pin": {"type": "string", "writeOnly": True, "pattern": "^[a-z0-9]{7}$"}
                },
            },
        },
    }
    allowed = tuple(AvailableTool(name=name) for name in TOOLS)
    goal = Goal(name="g", job="j", text="x", inputs=inputs, inputs_schema=declared, tools=allowed)

    faults = found(
        step("send", "mail", params={"to": "a@x.org", "text": text}), inputs=inputs, goal=goal
    )

    assert [one.code for one in faults] == ["E603"]
    assert "hunter2" not in str(faults)
    assert KEY not in str(faults)
    assert found(step("send", "open_file", params={"note": text}), inputs=inputs, goal=goal) == []


def test_each_function_has_a_rule_or_passes_on_all_that_it_was_given() -> None:
    called = {entry.name for entry in function_entries()} - MACROS

    assert called - RULES.keys() == {"now", "has", "cel.bind", "strings.quote"}
    assert RULES.keys() <= called


def secret_codes(text: str, result: Json = None) -> list[str]:
    """Return what is found of a plan with a secret input that mails a text."""
    password: JsonObject = {"type": "string", "format": "password"}
    goal = Goal(
        name="g",
        job="j",
        text="x",
        inputs={"password": "hunter2", "typed": "hunter3"},
        inputs_schema={"type": "object", "properties": {"password": password}},
        tools=tuple(AvailableTool(name=name) for name in TOOLS),
    )
    send = step("send", "mail", params={"to": "a@x.org", "text": text})
    plan = Plan.model_validate({"inputs": goal.inputs, "steps": [send], "result": result})
    return [one.code for one in check(plan, goal, TOOLS) if one.code == "E603"]


@pytest.mark.parametrize("text", ["${inputs.password.split('u').join('-')}", "${inputs}"])
def test_a_secret_is_followed_through_what_is_made_of_it(text: str) -> None:
    assert secret_codes(text) == ["E603"]


def test_a_secret_is_followed_through_the_result_of_an_earlier_run() -> None:
    sent = "${has(previous.result) ? previous.result.kept : 'none'}"

    assert secret_codes(sent, {"kept": "${inputs.password}"}) == ["E603"]
    assert secret_codes(sent, {"kept": "a word"}) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${inputs.more ? inputs.page.token : 'beginning'}", []),
        ("\u00e4 ${inputs.more ? 'a' + inputs.page.token : 'beginning'} ${1}", []),
        ("${inputs.more ? 'token: beginning1234' : 'a'}", ["E603"]),
        ("${[inputs.page].exists(p, p.token==inputs.more)}", []),
        ("${inputs.page.token=='beginning1234' && inputs.page.api_key==\"a1\"}", []),
        ("${['token=beginning1234'].exists(p, p==inputs.more)}", ["E603"]),
        ("${inputs.more ? {'token': 'beginning1234'} : {}}", ["E603"]),
        ("token: beginning1234 ${inputs.more ? 1 : 2}", ["E603"]),
    ],
)
def test_what_stands_behind_an_operator_is_no_key(text: str, expected: list[str]) -> None:
    assert secret_codes(text) == expected


def test_what_a_secret_only_decides_holds_none_of_it() -> None:
    assert secret_codes("${inputs.password == 'x' ? 'same' : 'other'}") == []
    assert secret_codes("${inputs.password != '' ? inputs.password : 'none'}") == ["E603"]
    assert secret_codes("${inputs.password == inputs.typed ? inputs.password : 'none'}") == ["E603"]
    assert secret_codes("${[inputs.password].filter(p, p in ['hunter2'])[0]}") == ["E603"]


EARLIER = {
    "id": "old",
    "tool": "post",
    "params": {"title": "${has(previous.result) ? previous.result.s : ''}"},
}


def earlier_codes(result: Json, *steps: JsonObject) -> list[str]:
    """Return what is found of a plan that posts what its run before gave as `s`."""
    page: JsonObject = {"id": "p", "tool": "fetch", "params": {"url": "https://example.org"}}
    plan = Plan.model_validate({"steps": [page, *steps, EARLIER], "result": result})
    found = check(plan, None, TOOLS)
    return [one.code for one in found if one.code in {"E601", "W809"}]


@pytest.mark.parametrize(
    ("result", "codes"),
    [
        ({"s": "${steps.p.text}"}, ["E601"]),
        ({"s": "${'%s!'.format([steps.p.text])}", "n": 1}, ["E601"]),
        (
            {"s": "${has(previous.result) ? previous.result.t : ''}", "t": "${steps.p.text}"},
            ["E601"],
        ),
        ({"s": "fixed", "t": "${steps.p.text}"}, []),
        ({"s": "${steps.p.kind}"}, ["W809"]),
    ],
)
def test_a_field_of_an_earlier_result_is_as_trusted_as_that_of_the_plans_own(
    result: Json, codes: list[str]
) -> None:
    assert earlier_codes(result) == codes


def test_choices_that_add_up_from_run_to_run_are_text() -> None:
    grows = "${(has(previous.result) ? previous.result.s : '') + steps.p.kind}"

    assert earlier_codes({"s": grows}) == ["E601"]


def test_when_an_earlier_run_began_is_not_decided_by_what_it_has_read() -> None:
    step = {
        "id": "w",
        "tool": "post",
        "params": {"title": "${has(previous.started) ? previous.started : ''}"},
    }
    page = {"id": "p", "tool": "fetch", "params": {"url": "https://example.org"}}
    plan = Plan.model_validate({"steps": [page, step], "result": {"s": "${steps.p.text}"}})

    found = check(plan, None, TOOLS)

    assert not {"E601", "W809"} & {one.code for one in found}
