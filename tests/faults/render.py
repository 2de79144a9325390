"""Writes what a run recorded into the page about it: `python -m tests.faults.render`.

The table stands between two marks in `docs/faults.md`; the text around it is written by hand.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
BEGIN, END = "<!-- what a run showed -->\n", "<!-- end of what a run showed -->\n"


def main() -> None:
    page = DOCS / "faults.md"
    content = json.loads((DOCS / "faults.json").read_text(encoding="utf-8"))
    if content.get("failed"):
        raise SystemExit(f"not written, as these failed: {', '.join(content['failed'])}")
    page.write_text(with_table(page.read_text(encoding="utf-8"), content), encoding="utf-8")


def with_table(page: str, content: dict[str, Any]) -> str:
    """The page with this run's table in the place of the one before."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table(content)}{END}{after}"


def table(content: dict[str, Any]) -> str:
    """What was recorded, as Markdown: a heading for each test file, a line for each fault."""
    versions = ", ".join(f"{name} {number}" for name, number in content["versions"].items())
    tried = sum(one["tried"] for one in content["records"])
    text = (
        f"\nOn {content['date']}, {content['cores']} cores, {versions}: {tried:,} faults in "
        f"{content['minutes']:g} minutes, each of them survived as told.\n"
    )
    for file, records in groupby(
        content["records"], key=lambda one: one["test"].partition("::")[0]
    ):
        text += f"\n### {title(file)}\n\n| fault | times | what it showed | kept by |\n"
        text += "| --- | --: | --- | --- |\n" + "".join(map(line, records))
    if content["skipped"]:
        text += "\nNot tried on that machine:\n\n"
        for test, reason in content["skipped"].items():
            text += f"- `{test.partition('::')[2]}`: {reason}\n"
    return text + "\n"


def title(file: str) -> str:
    """The heading of a test file's faults: its name, in words."""
    return Path(file).stem.removeprefix("test_").replace("_", " ").capitalize()


def line(record: dict[str, Any]) -> str:
    """A line of the table."""
    file, _, test = record["test"].partition("::")
    struck = ", ".join(f"{place} {times}" for place, times in sorted(record["where"].items()))
    showed = record["showed"] + (f" (struck at: {struck})" if struck else "")
    return f"| {record['fault']} | {record['tried']:,} | {showed} | [`{test}`](../{file}) |\n"


if __name__ == "__main__":
    main()
