from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import pytest

from wavewright.tools import make_tool
from wavewright.tools.functions.code import code_hash, own_code_hash


def code_of(source: str, name: str = "tool") -> str:
    module = types.ModuleType("mine")
    exec(compile(source, "mine.py", "exec"), module.__dict__)  # noqa: S102 - the test's own text
    return code_hash(getattr(module, name))


CHANGES = {
    "instructions": ("def tool(x): return x + 1", "+ 1", "+ 2"),
    "constant": ("RATE = 3\ndef tool(x): return x * RATE", "RATE = 3", "RATE = 4"),
    "table": ("T = {'a': [1]}\ndef tool(x): return T[x]", "[1]", "[2]"),
    "default": ("def tool(x, y=3): return x * y", "y=3", "y=4"),
    "keyword default": ("def tool(x, *, y=3): return x * y", "y=3", "y=4"),
    "helper": ("def h(x): return x + 1\ndef tool(x): return h(x)", "+ 1", "+ 2"),
    "helper's constant": (
        "R = 3\ndef h(x): return x + R\ndef tool(x): return h(x)",
        "R = 3",
        "R = 4",
    ),
    "closure": (
        "def make(k):\n    def scaled(x): return x * k\n    return scaled\ntool = make(3)",
        "make(3)",
        "make(4)",
    ),
    "decorator": (
        (
            "import functools\n"
            "def deco(k):\n    def d(f):\n        @functools.wraps(f)\n"
            "        def w(*a): return f(*a) * k\n        return w\n    return d\n"
            "@deco(3)\ndef tool(x): return x + 0"
        ),
        "+ 0",
        "+ 1",
    ),
    "decorator's argument": (
        (
            "def deco(k):\n    def d(f):\n        def w(*a): return f(*a) * k\n        return w\n"
            "    return d\n@deco(3)\ndef tool(x): return x"
        ),
        "deco(3)",
        "deco(4)",
    ),
    "call": ("class C:\n    def __call__(self, x): return x + 1\ntool = C()", "+ 1", "+ 2"),
    "class attribute": (
        "class C:\n    k = 3\n    def __call__(self, x): return self.k\ntool = C()",
        "k = 3",
        "k = 4",
    ),
    "attribute": (
        (
            "class C:\n    def __init__(self, k): self.k = k\n    def m(self, x): return self.k\n"
            "tool = C(3).m"
        ),
        "C(3)",
        "C(4)",
    ),
    "method that is called": (
        "class C:\n    def h(self): return 3\n    def m(self, x): return self.h()\ntool = C().m",
        "return 3",
        "return 4",
    ),
    "base class": (
        (
            "class B:\n    def h(self): return 3\nclass C(B):\n"
            "    def m(self, x): return self.h()\ntool = C().m"
        ),
        "return 3",
        "return 4",
    ),
    "partial's argument": (
        "import functools\ndef f(x, y): return x * y\ntool = functools.partial(f, y=3)",
        "y=3",
        "y=4",
    ),
    "partial's function": (
        "import functools\ndef f(x, y): return x * y\ntool = functools.partial(f, y=3)",
        "x * y",
        "x + y",
    ),
    "pattern": (
        "import re\nP = re.compile('a')\ndef tool(x): return P.match(x)",
        "'a'",
        "'b'",
    ),
    "helper with a cache": (
        "import functools\n@functools.lru_cache\ndef h(x): return x + 1\ndef tool(x): return h(x)",
        "+ 1",
        "+ 2",
    ),
    "function with a cache": (
        "import functools\n@functools.cache\ndef tool(x): return 3",
        "3",
        "4",
    ),
    "function of a type": (
        (
            "import functools\n@functools.singledispatch\ndef h(x): return 0\n"
            "@h.register\ndef _(x: int): return 3\ndef tool(x): return h(x)"
        ),
        "return 3",
        "return 4",
    ),
    "cached property": (
        (
            "import functools\nclass C:\n    @functools.cached_property\n    def k(self): return 3\n"
            "def tool(x): return C().k"
        ),
        "return 3",
        "return 4",
    ),
    "member of an enumeration": (
        "import enum\nclass E(enum.Enum):\n    A = 3\ndef tool(x): return E.A.value",
        "A = 3",
        "A = 4",
    ),
    "method of an enumeration": (
        (
            "import enum\nclass E(enum.Enum):\n    A = 1\n    def k(self): return 3\n"
            "A = E.A\ndef tool(x): return A.k()"
        ),
        "return 3",
        "return 4",
    ),
    "metaclass": (
        "class M(type):\n    k = 3\nclass C(metaclass=M): ...\ndef tool(x): return C.k",
        "k = 3",
        "k = 4",
    ),
    "slot": (
        (
            "class C:\n    __slots__ = ('k',)\n    def __init__(self, k): self.k = k\n"
            "c = C(3)\ndef tool(x): return c.k"
        ),
        "C(3)",
        "C(4)",
    ),
    "default of a model": (
        (
            "from pydantic import BaseModel\nclass C(BaseModel):\n    k: int = 3\n"
            "def tool(x): return C().k"
        ),
        "k: int = 3",
        "k: int = 4",
    ),
    "missing key": (
        "import collections\nT = collections.defaultdict(lambda: 3)\ndef tool(x): return T[x]",
        "3",
        "4",
    ),
    "object of the standard library": (
        "import types\nN = types.SimpleNamespace(k=3)\ndef tool(x): return N.k",
        "k=3",
        "k=4",
    ),
    "attribute of a function": (
        "def rate(): return rate.k\nrate.k = 3\ndef tool(x): return rate()",
        "k = 3",
        "k = 4",
    ),
    "fraction": (
        "from fractions import Fraction\nR = Fraction(1, 3)\ndef tool(x): return R",
        "(1, 3)",
        "(1, 4)",
    ),
    "key of a table that it fills": (
        "K = 1\nDONE = {}\ndef tool(x): DONE[K] = x",
        "K = 1",
        "K = 2",
    ),
    "object of which it fills a part": (
        "class C:\n    k = 1\n    kept = {}\nG = C()\ndef tool(x):\n    G.kept[x] = G.k",
        "k = 1",
        "k = 2",
    ),
    "name inside a comprehension": ("R = 3\ndef tool(x): return [R for _ in x]", "R = 3", "R = 4"),
}


@pytest.mark.parametrize(("source", "old", "new"), CHANGES.values(), ids=[*CHANGES])
def test_a_change_of_what_a_tool_computes_with_is_a_change_of_its_code(
    source: str, old: str, new: str
) -> None:
    assert code_of(source) == code_of(source)
    assert code_of(source.replace(old, new)) != code_of(source)


@pytest.mark.parametrize(
    ("library", "built", "other"),
    [
        pytest.param("numpy", "zeros(9)", "ones(9)", id="array"),
        pytest.param("numpy", "ma.array([1], mask=[0])", "ma.masked", id="masked array"),
        pytest.param("numpy", "array([{'a': 1}])", "array([{'a': 2}])", id="array of objects"),
        pytest.param("pandas", "DataFrame({'a': [1]})", "DataFrame({'a': [2]})", id="table"),
        pytest.param("pandas", "DataFrame({'a': [1]})", "DataFrame({'b': [1]})", id="columns"),
        pytest.param("pandas", "Timestamp('2026-01-01')", "Timestamp('2026-01-02')", id="time"),
    ],
)
def test_data_of_libraries_is_code(library: str, built: str, other: str) -> None:
    pytest.importorskip(library)
    source = f"import {library}\nT = {library}.{built}\ndef tool(x): return T"

    assert code_of(source) == code_of(source)
    assert code_of(source.replace(built, other)) != code_of(source)


@pytest.mark.parametrize(
    ("source", "same"),
    [
        pytest.param("def tool(x): return x", "# a note\n\ndef tool(x): return x", id="comment"),
        pytest.param(
            "OTHER = 1\ndef tool(x): return x", "OTHER = 2\ndef tool(x): return x", id="unread"
        ),
        pytest.param(
            "DONE = []\ndef tool(x): DONE.append(x)",
            "DONE = [1]\ndef tool(x): DONE.append(x)",
            id="state that it changes",
        ),
        pytest.param(
            "N = 0\ndef tool(x):\n    global N\n    N += 1",
            "N = 7\ndef tool(x):\n    global N\n    N += 1",
            id="counter",
        ),
        pytest.param(
            "DONE = {}\ndef tool(x):\n    DONE[x.id] = 1\n    return DONE[x.id]",
            "DONE = {2: 1}\ndef tool(x):\n    DONE[x.id] = 1\n    return DONE[x.id]",
            id="table that it fills",
        ),
        pytest.param(
            "def made(kept):\n    def tool(x):\n        kept[x] = 1\n    return tool\ntool = made({})",
            "def made(kept):\n    def tool(x):\n        kept[x] = 1\n    return tool\ntool = made({2: 1})",
            id="closed over table that it fills",
        ),
        pytest.param(
            "from pathlib import Path\nROOT = Path('/a')\ndef tool(x): return ROOT",
            "from pathlib import Path\nROOT = Path('/b')\ndef tool(x): return ROOT",
            id="absolute path",
        ),
        pytest.param(
            "import random\nR = random.Random(1)\ndef tool(x): return R.random()",
            "import random\nR = random.Random(2)\ndef tool(x): return R.random()",
            id="random numbers",
        ),
    ],
)
def test_what_computes_nothing_else_is_no_change(source: str, same: str) -> None:
    assert code_of(source) == code_of(same)


def test_the_code_of_a_tool_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "S = {'a', 'b', 'c', 'd'}\nF = frozenset(S)\ndef tool(x): return x in S and x in {'e', 'f'} | F\n"
    )
    program = (
        "import mine; from wavewright.tools.functions.code import code_hash; "
        "print(code_hash(mine.tool))"
    )
    codes = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env={"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(codes) == 1


def test_what_is_not_written_in_python_has_no_code() -> None:
    assert code_hash(len) == ""


def test_machines_know_a_tool_by_its_instructions_alone() -> None:
    source = "HOST = {!r}\ndef tool(x): return HOST"
    here, there = (types.ModuleType("mine") for _ in range(2))
    for module, name in ((here, "a"), (there, "b")):
        exec(source.format(name), module.__dict__)  # noqa: S102 - the test's own text

    assert own_code_hash(here.tool) == own_code_hash(there.tool)
    assert code_hash(here.tool) != code_hash(there.tool)


def test_the_signature_has_the_code_and_does_not_write_it_down() -> None:
    def tool(x: int) -> int:
        return x

    signature = make_tool(tool).signature

    assert signature.code == code_hash(tool)
    assert "code" not in signature.model_dump()
