"""The modules of the package depend on each other in one direction."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "pam").rglob("*.py"))


def module_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imports_of(file: Path, modules: set[str]) -> set[str]:
    """Return the modules of the package that a module imports, inside of functions too."""
    imported = set()
    waiting: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue  # for type checkers alone

        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                imported.add(name if name in modules else node.module)

        waiting += ast.iter_child_nodes(node)

    return imported & modules - {module_of(file)}


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    """Return each module of the package with the modules that it imports."""
    modules = {module_of(file) for file in FILES}
    return {module_of(file): imports_of(file, modules) for file in FILES}


def test_modules_import_each_other_in_one_direction(graph: dict[str, set[str]]) -> None:
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


def test_the_runtime_imports_nothing_above_it(graph: dict[str, set[str]]) -> None:
    runtime = {module for module in graph if f"{module}.".startswith("pam.runtime.")}
    outside = set().union(*(graph[module] for module in runtime)) - runtime

    assert "pam.runtime.files" in runtime
    # What imports nothing itself, as the version, stands below.
    assert {module for module in outside if graph[module]} == set()


def test_a_table_of_scores_needs_neither_data_nor_what_scores(graph: dict[str, set[str]]) -> None:
    reached = set()
    waiting = ["pam.reporting.tables.comparisons"]
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += graph[module]

    assert "pam.evaluation.scores" in reached
    assert [module for module in reached if module.startswith("pam.data.")] == []
    assert not reached & {"pam.evaluation.scoring", "pam.evaluation.inputs"}


def test_make_faults_runs_every_file_that_has_a_long_form() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    command = makefile.partition("\nfaults:")[2].partition("\n\n")[0]
    listed = [ROOT / path for path in re.findall(r"tests/[\w/.]+", command)]
    makers = re.compile(r"mark\.faults\b|\b(long_form|in_turn|numbered)\(")

    files = [
        file
        for file in (ROOT / "tests").rglob("test_*.py")
        if file != Path(__file__) and makers.search(file.read_text(encoding="utf-8"))
    ]

    assert len(files) > 10
    left_out = [file for file in files if not any(file.is_relative_to(path) for path in listed)]
    assert left_out == []
