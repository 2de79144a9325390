"""The page about reliability says what was recorded, and names tests that exist."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.faults.render import DOCS, PAGE, ROWS, count, with_table

ROOT = DOCS.parent


def recorded() -> dict[str, Any]:
    content = json.loads((DOCS / "faults.json").read_text(encoding="utf-8"))
    assert isinstance(content, dict)

    return content


def test_the_table_is_that_of_the_record() -> None:
    page = (DOCS / PAGE).read_text(encoding="utf-8")
    assert page == with_table(page, recorded())


def test_every_promise_names_a_test_that_exists() -> None:
    for record in recorded()["records"]:
        file, _, test = record["test"].partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), record["test"]


def test_every_fault_is_counted_in_one_row_of_the_table() -> None:
    files = [file for row in ROWS for file in row.files]
    assert sorted(files) == sorted(set(files))
    assert all((ROOT / file).is_file() for file in files)

    records = recorded()["records"]
    assert sum(count(row, records) for row in ROWS) == sum(record["tried"] for record in records)


def test_every_test_file_that_notes_faults_has_a_row() -> None:
    noting = set()
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        if file != Path(__file__).resolve() and "record: Recorder" in file.read_text(
            encoding="utf-8"
        ):
            noting.add(str(file.relative_to(ROOT)))

    assert noting == {file for row in ROWS for file in row.files}
