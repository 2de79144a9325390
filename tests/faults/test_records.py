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
    entries = [("fault", {"fault": fault, "tried": 2, "showed": "nothing", "where": "train"}) for fault in faults]
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
    for one in reports:
        records.pytest_runtest_logreport(one)
    records.pytest_sessionfinish(code)
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def test_tests_that_failed_are_tried_again_and_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "DOCS", tmp_path)
    file = tmp_path / "faults.json"
    page = tmp_path / render.PAGE
    page.write_text(f"Before.\n{render.BEGIN}{render.END}After.\n", encoding="utf-8")
    passed = report("t.py::test_it[1]", "passed", "a kill")
    found = run(file, False, 1, passed, report("t.py::test_it[2]", "failed"))
    assert found["failed"] == ["t.py::test_it[2]"]
    with pytest.raises(SystemExit, match=r"these failed: t.py::test_it\[2\]"):
        render.main()
    found = run(file, True, 0, report("t.py::test_it[2]", "passed", "a kill", "a flood"))
    assert found["failed"] == []
    assert [(one["fault"], one["tried"]) for one in found["records"]] == [("a flood", 2), ("a kill", 4)]
    render.main()
    assert "6 faults" in page.read_text(encoding="utf-8")


def test_a_run_that_was_interrupted_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    before = run(file, False, 0, report("t.py::test_it", "passed", "a kill"))
    assert run(file, False, 2, report("t.py::test_it", "passed")) == before
