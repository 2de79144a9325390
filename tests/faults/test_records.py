"""What a run has tried is kept, also where one of its tests failed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import Records
from tests.faults import render


def report(test: str, outcome: str, *faults: str) -> Any:
    entries = [
        ("fault", {"fault": fault, "tried": 2, "showed": "nothing", "where": "train"})
        for fault in faults
    ]
    return SimpleNamespace(
        nodeid=test,
        when="call",
        passed=outcome == "passed",
        failed=outcome == "failed",
        skipped=False,
        user_properties=entries,
    )


def run(file: Path, goes_on: bool, code: int, *reports: Any) -> dict[str, Any]:
    records = Records(file, goes_on)
    for report_of_test in reports:
        records.pytest_runtest_logreport(report_of_test)

    records.pytest_sessionfinish(code)
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))

    return content


def test_tests_that_failed_are_tried_again_and_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "DOCS", tmp_path)
    file = tmp_path / "faults.json"
    page = tmp_path / render.PAGE
    page.write_text(f"Before.\n{render.BEGIN}{render.END}After.\n", encoding="utf-8")
    test = "tests/faults/test_kills.py::test_it"
    passed = report(f"{test}[1]", "passed", "a kill")
    content = run(file, False, 1, passed, report(f"{test}[2]", "failed"))

    assert content["failed"] == [f"{test}[2]"]
    with pytest.raises(SystemExit, match=r"these failed: .*::test_it\[2\]"):
        render.main()

    content = run(file, True, 0, report(f"{test}[2]", "passed", "a kill", "a flood"))
    assert content["failed"] == []
    assert [(entry["fault"], entry["tried"]) for entry in content["records"]] == [
        ("a flood", 2),
        ("a kill", 4),
    ]

    render.main()
    written = page.read_text(encoding="utf-8")

    assert "0 inputs and 6 kills" in written
    assert written.startswith("Before.\n") and written.endswith("After.\n")

    (row,) = [line for line in written.splitlines() if "test_kills.py" in line]
    assert "|  | 6 |" in row


def test_a_record_of_a_fault_that_no_row_has_is_an_error() -> None:
    content = {"records": [{"test": "t.py::test_it", "tried": 1}]}
    with pytest.raises(SystemExit, match=r"no row of the table has the faults of t\.py"):
        render.rendered(content)


def test_the_table_tells_what_was_left_out() -> None:
    record = {"test": "tests/faults/test_clock.py::test_it", "tried": 1234}
    content = {
        "date": "2026-01-02",
        "minutes": 3.5,
        "cores": 2,
        "versions": {"torch": "2"},
        "records": [record],
        "skipped": {"t.py::test_of_a_disk": "no file system can be mounted here"},
    }
    text = render.rendered(content)

    assert "On 2026-01-02, 2 cores, torch 2: 1,234 inputs and 0 kills in 3.5 minutes" in text
    assert len([line for line in text.splitlines() if line.startswith("| ")]) == 3
    assert "- `test_of_a_disk`: no file system can be mounted here" in text


def test_a_run_that_was_interrupted_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    before = run(file, False, 0, report("t.py::test_it", "passed", "a kill"))

    assert run(file, False, 2, report("t.py::test_it", "passed")) == before
