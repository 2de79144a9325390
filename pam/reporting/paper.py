"""The papers' figures, read from one data file."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pam.config import Strict, parse
from pam.errors import UserError
from pam.yaml_files import read_yaml


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

    def check_row(self, row: str, task: str) -> None:
        """Raises UserError when a task names a row that the table does not have."""
        rows = sorted({name for by_row in self.metrics.values() for name in by_row})
        if row not in rows:
            raise UserError(
                f"task `{task}` names `{row}`, which is no row of the paper's table",
                remedy=f"rows: {', '.join(rows)}; or leave `paper` and `paper_beside` null",
            )


def load(path: Path | str) -> dict[str, PaperTable]:
    """Reads all tables of `path`.

    Raises:
        UserError: not YAML, or a figure that is not a number; names file and line.
    """
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise UserError("expected tables by name", file=path, remedy="see config/README.md")
    return {
        str(name): parse(PaperTable, value, path, [str(name)]) for name, value in content.items()
    }
