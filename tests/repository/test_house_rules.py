"""Rules of the code that hold without exception, or with exceptions that are listed here."""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository.tree import ROOT, module_name, project_files, shipped_modules, syntax_tree

# A fault is a result there, not a crash: each entry says whose call or whose wait ends at that
# edge.
BROAD_EXCEPT_ALLOWED = {
    "wavewright.engine.interfaces.api.plan_run": (
        "the run behind a stream: what it raises is raised where the events are read"
    ),
    "wavewright.engine.interfaces.cli.common.output": (
        "the edge of the program: a failure becomes a message and an exit code"
    ),
    "wavewright.engine.interfaces.cli.lsp.server": (
        "the edge of a request of an editor: its fault is logged, and the editor goes on"
    ),
    "wavewright.engine.service.daemon.job_runner": (
        "the edge of a job: its fault is counted against it, and ends no daemon that is sound"
    ),
    "wavewright.engine.rehearsal.fake_model.server": (
        "the call of a rule given by the caller: raised to him when the test ends"
    ),
    "wavewright.engine.service.daemon.maintenance": (
        "the copy of progress on a server: a fault is logged, the work goes on"
    ),
    "wavewright.engine.run.pipeline.twin": (
        "the second pipeline of a twin run: whatever it raises is reported"
    ),
    "wavewright.engine.run.run_targets": (
        "the edge of a target: its fault is journaled, and its neighbours go on"
    ),
    "wavewright.packs.web.processes": (
        "the call of a function in another process: what it raises is raised to its caller"
    ),
    "wavewright.executor.run.emissions": (
        "the formatting of a log record: its arguments may be anything"
    ),
    "wavewright.executor.run.deadlines": (
        "the awaiting of a call step by step: whatever is thrown is thrown into it"
    ),
    "wavewright.executor.sqlite.journal": (
        "the end of a write: whoever waits for it is told, or would wait for ever"
    ),
    "wavewright.executor.store.writer": (
        "the end of a thread: whoever waits for it is told, or would wait for ever"
    ),
    "wavewright.engine.service.job_store.store": (
        "the call of a caller's projection: what it raises is raised to that caller"
    ),
    "wavewright.executor.run.exceptions": (
        "the text and properties of an exception: its class may be a tool's own"
    ),
    "wavewright.executor.run.calls": (
        "the call of a tool, and the evaluation of gates: those that raise have failed"
    ),
    "wavewright.executor.fleet.remote_calls": (
        "the import of a project's modules, and the call of a tool"
    ),
    "wavewright.tools.workers.agent_tools": (
        "the call of a tool by an agent: a failure is told to the model"
    ),
    "wavewright.tools.mcp.sessions": (
        "the connection to a server: its fault is told to whoever waits for an answer"
    ),
    "wavewright.tools.functions.code": "the class of a value that a tool reads, as it tells it",
    "wavewright.tools.functions.threads": (
        "the call of a tool in a thread: raised again in the task of the call"
    ),
    "wavewright.tools.functions.user_tools": "the import of a user's module",
    "wavewright.tools.packs": "the import of a pack, and the call of its function",
}

FORBIDDEN_IMPORTS = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
FORBIDDEN_CALLS = {
    "eval": "runs text as code",
    "exec": "runs text as code",
    "os.system": "runs text in a shell",
    "os.popen": "runs text in a shell",
    "yaml.load": "accepts tags and aliases",
    "yaml.unsafe_load": "builds any object",
    "yaml.full_load": "accepts tags and aliases",
    "jinja2.Template": "compiles text as a template",
}
FORBIDDEN_METHODS = {"from_string": "compiles text as a template"}

PACK_WORDS = re.compile(
    r"(?<![a-z])(lore|npcs?|factions?|zones?|stocks?|tickers?|research|knowledge)(?![a-z])",
    re.IGNORECASE,
)
"""Words of the domains of packs, also as parts of names with underscores."""

MODULES = shipped_modules()


def dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{dotted(value)}.{name}"
        case _:
            return ""


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def imported_roots(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.split(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.split(".")[0]
            case _:
                pass


def caught_names(handler: ast.ExceptHandler) -> list[str]:
    match handler.type:
        case None:
            return ["BaseException"]
        case ast.Tuple(elts=elements):
            return [dotted(element) for element in elements]
        case kind:
            return [dotted(kind)]


def where(path: Path, node: ast.expr | ast.ExceptHandler) -> str:
    return f"{path.relative_to(ROOT)}:{node.lineno}"


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT)) for path in MODULES if not ast.get_docstring(syntax_tree(path))
    ]

    assert silent == []


def test_no_two_classes_of_the_packages_have_one_name() -> None:
    places = defaultdict[str, list[str]](list)
    for path in MODULES:
        for node in ast.walk(syntax_tree(path)):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(f"{path.relative_to(ROOT)}:{node.lineno}")

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_nothing_is_stored_in_a_form_that_runs_code_when_it_is_read() -> None:
    offenders = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in MODULES
        for name in imported_roots(syntax_tree(path))
        if name in FORBIDDEN_IMPORTS
    ]

    assert offenders == []


def test_text_is_never_run_as_code_as_a_command_or_as_a_template() -> None:
    offenders = [
        f"{where(path, call)}: {dotted(call.func)} {reason}"
        for path in MODULES
        for call in calls(syntax_tree(path))
        if (reason := FORBIDDEN_CALLS.get(dotted(call.func)))
        or (reason := FORBIDDEN_METHODS.get(dotted(call.func).rpartition(".")[2]))
    ]

    assert offenders == []


def test_no_command_goes_through_a_shell() -> None:
    offenders = [
        where(path, call)
        for path in MODULES
        for call in calls(syntax_tree(path))
        for keyword in call.keywords
        if keyword.arg == "shell"
        and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
    ]

    assert offenders == []


def test_every_fault_is_caught_by_its_name_but_at_the_listed_edges() -> None:
    broad = {
        module_name(path): where(path, node)
        for path in MODULES
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.ExceptHandler)
        and {"Exception", "BaseException"} & set(caught_names(node))
        and not reraises(node)
    }

    assert set(broad) == set(BROAD_EXCEPT_ALLOWED), broad


RAISED = re.compile(r"^\s*((?:[A-Z]\w+)(?:, [A-Z]\w+)*):", re.MULTILINE)
"""Errors that one line of the section `Raises:` names."""


def reraises(handler: ast.ExceptHandler) -> bool:
    """Tell whether a handler ends by raising what it caught: it cleans up and hides nothing."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_every_error_that_leaves_a_module_derives_from_the_one_root() -> None:
    roots = {"Exception", "BaseException", "ValueError", "RuntimeError", "LookupError", "TypeError"}
    offenders = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in MODULES
        for node in syntax_tree(path).body
        if isinstance(node, ast.ClassDef)
        and not node.name.startswith("_")
        and (bases := {dotted(base) for base in node.bases}) & roots
        and bases <= roots
        # The second is no error: a phase leaves the road of a run by it, and the road takes it.
        and node.name not in {"WavewrightError", "PhaseExit"}
    ]

    assert offenders == []


@pytest.mark.parametrize("package", ["engine", "executor", "reviewer", "config"])
def test_no_pack_is_in_the_words_of_the_engine(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in project_files()
        if path.is_relative_to(ROOT / package)
        for match in PACK_WORDS.finditer(f"{path.name}\n{path.read_text(encoding='utf-8')}")
    ]

    assert found == []


@pytest.mark.parametrize("word", ["manager", "helper", "util", "utils", "misc", "common"])
def test_no_file_has_a_name_that_says_nothing(word: str) -> None:
    vague = [path.name for path in MODULES if word in path.stem.split("_")]

    assert vague == []


def test_a_docstring_names_only_errors_that_exist() -> None:
    trees = {path: syntax_tree(path) for path in MODULES}
    known = set(dir(builtins)) | {
        name
        for tree in trees.values()
        for node in ast.walk(tree)
        for name in (
            [node.name]
            if isinstance(node, ast.ClassDef)
            else [alias.asname or alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    unknown = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for listed in RAISED.findall((ast.get_docstring(node) or "").partition("Raises:\n")[2])
        for name in listed.split(", ")
        if name not in known
    ]

    assert unknown == []
