"""The papers' figures, read from one data file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field

from pam.io import Strict, UserError, parse, read_yaml
from pam.reporting.runs import TaskRuns


class PaperTable(Strict):
    """One table of a paper: metric -> row -> model -> figure, null where unreadable."""

    source: str = Field(description="paper, section and number of the table")
    note: str = Field("", description="what a reader has to know about the figures")
    metrics: dict[str, dict[str, dict[str, float | None]]]

    def figure(self, metric: str, row: str | None, model: str) -> float | None:
        """The figure, or None where the paper has none or it cannot be read."""
        if row is None:
            return None
        return self.metrics.get(metric, {}).get(row, {}).get(model)


def check_rows(papers: Mapping[str, PaperTable], tasks: Sequence[TaskRuns]) -> None:
    """Checks that every row that a task names is in one of the tables.

    Raises:
        UserError: a task names a row that no table has.
    """
    by_row = [rows for table in papers.values() for rows in table.metrics.values()]
    known = list(dict.fromkeys(name for rows in by_row for name in rows))
    for task in tasks:
        named = task.config.paper or task.config.paper_reference
        if named is not None and named not in known:
            raise UserError(
                f"task `{task.name}` names `{named}`, which is no row of the paper's tables",
                hint=f"rows: {', '.join(known)}; or leave `paper` and `paper_reference` null",
            )


def load(path: Path | str) -> dict[str, PaperTable]:
    """Reads all tables of `path`.

    Raises:
        UserError: not YAML, or a figure that is not a number; names file and line.
    """
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise UserError("expected tables by name", file=path, hint="see config/README.md")
    return {
        str(name): parse(PaperTable, value, path, [str(name)]) for name, value in content.items()
    }
