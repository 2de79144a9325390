"""Writes what a run recorded into the page about it: `python -m tests.faults.render`.

The list is between two marks in `docs/reliability.md`; the text around it is written by hand. It is
a list and not a table, as a row of a table cannot be broken into lines of readable length.
"""

from __future__ import annotations

import json
import textwrap
from itertools import groupby
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = "reliability.md"
BEGIN, END = "<!-- what a run showed -->\n", "<!-- end of what a run showed -->\n"
WIDTH = 118
"""Characters in a line; `tests/test_texts.py` allows two more."""


def main() -> None:
    page = DOCS / PAGE
    content = json.loads((DOCS / "faults.json").read_text(encoding="utf-8"))
    if content.get("failed"):
        raise SystemExit(f"not written, as these failed: {', '.join(content['failed'])}")
    page.write_text(with_list(page.read_text(encoding="utf-8"), content), encoding="utf-8")


def with_list(page: str, content: dict[str, Any]) -> str:
    """The page with this run's list in the place of the one before."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{listing(content)}{END}{after}"


def listing(content: dict[str, Any]) -> str:
    """What was recorded, as Markdown: a heading for each test file, an item for each fault."""
    versions = ", ".join(f"{name} {number}" for name, number in content["versions"].items())
    tried = sum(one["tried"] for one in content["records"])
    text = "\n" + _filled(
        f"On {content['date']}, {content['cores']} cores, {versions}: {tried:,} faults in "
        f"{content['minutes']:g} minutes, each of them survived as stated."
    )
    for file, records in groupby(content["records"], key=lambda one: one["test"].partition("::")[0]):
        text += f"\n### {title(file)}\n\nTests: [`{file}`](../{file})\n\n"
        text += "".join(map(item, records))
    if content["skipped"]:
        text += "\nNot tried on that machine:\n\n"
        for test, reason in content["skipped"].items():
            text += _filled(f"`{test.partition('::')[2]}`: {reason}", "- ")
    return text + "\n"


def title(file: str) -> str:
    """The heading of a test file's faults: its name, in words."""
    return Path(file).stem.removeprefix("test_").replace("_", " ").capitalize()


def item(record: dict[str, Any]) -> str:
    """A fault, how often it was tried, what that showed, and the test that checks it."""
    test = record["test"].partition("::")[2]
    struck = ", ".join(f"{place} {times}" for place, times in sorted(record["where"].items()))
    showed = record["showed"] + (f" (struck at: {struck})" if struck else "")
    times = "once" if record["tried"] == 1 else f"{record['tried']:,} times"
    return _filled(f"**{record['fault']}**, {times}: {showed}. Test: `{test}`", "- ")


def _filled(text: str, mark: str = "") -> str:
    lines = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
