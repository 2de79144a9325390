"""The package stays small enough to be entered: sizes of files, and no import cycles."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "pam").rglob("*.py"))
LONGEST_FILE, MOST_FILES, MOST_LINES = 500, 111, 21_958
"""Bounds that go down, but for what is new, last: schedules of the rate, schedules of options,
sources without an end symbol, trainings that
start from trained models, length penalties that the development split chooses; own data that are guessed, checked
before a run and answered from files, other folders of work, the progress of a run; copying and coverage, summaries;
the page of results; clips of vectors and their captions; attention and what is copied, in answers as JSON; where words
of summaries come from; tasks that test the models of others; texts that stay on disk;
penalties that are the largest of their candidates; fewer launches on CUDA, and jobs that share a GPU;
runs that are restored from another experiment; mistakes that newcomers make, named before a run;
large vocabularies and long sources without fresh memory at each step."""


def lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def module_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imports_of(file: Path, modules: set[str]) -> set[str]:
    """Modules of the package that a module imports while it is itself imported."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.add(name if name in modules else node.module)
    return found & modules - {module_of(file)}


def test_the_package_has_few_files_and_lines() -> None:
    assert len(FILES) <= MOST_FILES
    assert sum(map(lines, FILES)) <= MOST_LINES


@pytest.mark.parametrize("file", [*FILES, *sorted((ROOT / "tests").rglob("*.py"))], ids=module_of)
def test_no_file_is_longer_than_one_can_read(file: Path) -> None:
    assert lines(file) <= LONGEST_FILE


def test_modules_import_each_other_in_one_direction() -> None:
    modules = {module_of(file) for file in FILES}
    graph = {module_of(file): imports_of(file, modules) for file in FILES}
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


def test_no_folder_has_but_one_file() -> None:
    folders = {file.parent for file in FILES} - {ROOT / "pam"}
    lonely = [f for f in folders if len([x for x in f.glob("*.py") if x.name != "__init__.py"]) < 2]
    assert not lonely
