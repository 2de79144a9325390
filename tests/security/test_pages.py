"""What people write about an experiment is shown as they wrote it, and does nothing in a page."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import jinja2
import pytest
from docutils.core import publish_parts

from pam.reporting import style
from tests.security.names import WORDS
from tests.workflow.checkouts import ROOT

SUMMARY = runpy.run_path(str(ROOT / "workflow/scripts/summary.py"), run_name="summary")
TEMPLATE = (ROOT / "workflow/report/workflow.rst").read_text(encoding="utf-8")
DIRECTIVES = (".. raw:: html\n\n   <script>", "x\n\n.. include:: secret.txt")
"""In notes, which may stand on several lines, as titles may not."""
PRIVATE = "what nobody has asked to be shown"


def titled(words: str) -> str:
    """Render the head of the report's first page."""

    class Workflow:
        config = {"experiment": "tiny", "title": words, "models": [], "tasks": {}}  # noqa: RUF012

    text = jinja2.Template(TEMPLATE).render(snakemake=Workflow)
    return text.partition("Experiment *")[0]


def as_page(text: str) -> str:
    """Render a text as Snakemake's report does."""
    return str(publish_parts(text, writer="html")["html_body"])


NOTES = [(SUMMARY["escaped"], words) for words in (*WORDS, *DIRECTIVES)]
TITLES = [(titled, words) for words in WORDS]


@pytest.mark.parametrize(("made", "words"), NOTES + TITLES)
def test_no_markup_no_link_and_no_other_file_gets_into_the_report(
    made: Callable[[str], str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.txt").write_text(PRIVATE)
    monkeypatch.chdir(tmp_path)
    page = as_page(made(words))

    for unwanted in ("<script", "<a ", "href=", PRIVATE, "system-message"):
        assert unwanted not in page


def test_dollar_signs_in_a_figure_are_no_formula(tmp_path: Path) -> None:
    with style.styled():
        figure, (axes,) = style.panels(1, 1, 1.0)
        axes.set_title("$\\frac$ costs 5$ or 6$")
        figure.savefig(tmp_path / "figure.svg")
