"""No file imports, by whatever way, a file that imports it; imports for types count as well."""

from __future__ import annotations

import ast
from functools import cache

import networkx as nx

from tests.repository.tree import module_name, shipped_modules, syntax_tree


@cache
def imports() -> nx.DiGraph[str]:
    """Return which file of the packages imports which."""
    files = {module_name(path): path for path in shipped_modules()}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(files)
    for name, path in files.items():
        for node in ast.walk(syntax_tree(path)):
            if not isinstance(node, ast.ImportFrom) or node.level or node.module is None:
                continue
            for alias in node.names:
                target = f"{node.module}.{alias.name}"
                graph.add_edge(name, target if target in files else node.module)
    return graph


def test_no_files_import_each_other_in_a_circle() -> None:
    circles = [
        sorted(circle) for circle in nx.strongly_connected_components(imports()) if len(circle) > 1
    ]

    assert len(imports()) > 500
    assert circles == []
