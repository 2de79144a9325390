"""The page about reliability says what was recorded, and names tests that exist."""

from __future__ import annotations

import json
from typing import Any

from tests.faults.render import DOCS, PAGE, with_list

ROOT = DOCS.parent


def recorded() -> dict[str, Any]:
    content = json.loads((DOCS / "faults.json").read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def test_the_list_is_that_of_the_record() -> None:
    page = (DOCS / PAGE).read_text(encoding="utf-8")
    assert page == with_list(page, recorded())


def test_every_promise_names_a_test_that_exists() -> None:
    for record in recorded()["records"]:
        file, _, test = record["test"].partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), record["test"]
