"""Write what a run recorded into the page about it: `python -m tests.faults.render`.

The table is between two marks in `docs/reliability.md`; the text around it is written by hand. Each
row adds up the records of some test files; `docs/faults.json` has them one by one.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = "reliability.md"
BEGIN = "<!-- what a run showed -->\n"
END = "<!-- end of what a run showed -->\n"
WIDTH = 118
"""Characters in a line of text."""


@dataclass(frozen=True)
class Row:
    """A kind of fault.

    Attributes:
        kind: what was done, in words.
        outcome: what followed each time; a test that saw anything else has failed.
        files: the test files that try it.
        kills: whether processes were killed; else inputs were tried.
    """

    kind: str
    outcome: str
    files: tuple[str, ...]
    kills: bool = False


ROWS = (
    Row(
        "SIGKILL of a whole run: of Snakemake, of a job, of both, at each stage",
        "the same command, called again, ends with bit-identical results",
        ("tests/faults/test_kills.py",),
        kills=True,
    ),
    Row(
        "SIGKILL of a command before and during each file that it writes",
        "the same command, called again, writes the same files; nothing is left behind",
        ("tests/faults/test_killed_commands.py",),
        kills=True,
    ),
    Row(
        "files damaged, cut, swapped or missing: data, models, states, archives, stored runs",
        "an error that names the file, or the same result",
        ("tests/faults/test_damage.py",),
    ),
    Row(
        "states and results of a killed training damaged",
        "the training resumes from the last good state, or starts over; bit-identical weights",
        ("tests/faults/test_damaged_training.py",),
    ),
    Row(
        "random configurations, and each key with each kind of wrong value",
        "refused with a hint before any work, or the experiment can be run",
        ("tests/faults/test_fuzz_config.py",),
    ),
    Row(
        "random texts, JSON lines, captions, frames and alignment links",
        "refused with file and place, or every symbol and number is kept",
        ("tests/faults/test_fuzz_corpora.py",),
    ),
    Row(
        "names and texts that contain shell syntax, paths, markup or scripts",
        "refused with file and line, or shown as text; nothing is executed",
        ("tests/security/test_names.py",),
    ),
    Row(
        "disks that are full or read-only, missing permissions, no memory",
        "one message; once the cause is removed, the next call ends with bit-identical results",
        ("tests/faults/test_storage.py", "tests/training/test_memory.py"),
    ),
    Row(
        "mirrors that are slow, cut transfers short, or send something else",
        "tried again where that may help, else one message; nothing is left behind",
        ("tests/faults/test_network.py",),
    ),
    Row(
        "clocks that jump, and two runs at once",
        "bit-identical results; the second run names the first and ends",
        ("tests/faults/test_clock.py", "tests/faults/test_two_runs.py"),
    ),
)


def main() -> None:
    page = DOCS / PAGE
    content = json.loads((DOCS / "faults.json").read_text(encoding="utf-8"))
    if content.get("failed"):
        raise SystemExit(f"not written, as these failed: {', '.join(content['failed'])}")

    page.write_text(with_table(page.read_text(encoding="utf-8"), content), encoding="utf-8")


def with_table(page: str, content: dict[str, Any]) -> str:
    """Return the page with this run's table in place of the one before."""
    before, _, from_table = page.partition(BEGIN)
    _, _, after = from_table.partition(END)

    return f"{before}{BEGIN}{rendered(content)}{END}{after}"


def rendered(content: dict[str, Any]) -> str:
    """Return the records as Markdown.

    It has a sentence, a row for each kind of fault, and a list of the tests that were left out.
    """
    counts = {row: count(row, content["records"]) for row in ROWS}
    kills = sum(tried for row, tried in counts.items() if row.kills)
    inputs = sum(tried for row, tried in counts.items() if not row.kills)
    versions = ", ".join(f"{name} {number}" for name, number in content["versions"].items())
    text = "\n" + _filled(
        f"On {content['date']}, {content['cores']} cores, {versions}: {inputs:,} inputs and"
        f" {kills:,} kills in {content['minutes']:g} minutes; each ended as the table says."
    )

    text += (
        "\n| fault | inputs | kills | outcome, each time | tests |\n| --- | ---: | ---: | ---"
        " | --- |\n"
    )

    for row, tried in counts.items():
        if tried:
            text += line_of(row, tried)

    if content["skipped"]:
        text += "\nNot tried on that machine:\n\n"
        for test, reason in content["skipped"].items():
            text += _filled(f"`{test.partition('::')[2]}`: {reason}", "- ")

    return text + "\n"


def count(row: Row, records: Iterable[dict[str, Any]]) -> int:
    """Count the trials of a row's faults; a SystemExit names a record that no row has."""
    files_of_rows = {file for any_row in ROWS for file in any_row.files}
    tried = 0
    for record in records:
        file = file_of(record)
        if file not in files_of_rows:
            raise SystemExit(f"no row of the table has the faults of {file}: add it to one of ROWS")

        if file in row.files:
            tried += record["tried"]

    return tried


def line_of(row: Row, tried: int) -> str:
    counts = f"{tried:,} | "
    if row.kills:
        counts = f" | {tried:,}"

    tests = ", ".join(f"[{Path(file).stem.removeprefix('test_')}](../{file})" for file in row.files)

    return f"| {row.kind} | {counts} | {row.outcome} | {tests} |\n"


def file_of(record: dict[str, Any]) -> str:
    """Return the test file of a record."""
    return str(record["test"]).partition("::")[0]


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
