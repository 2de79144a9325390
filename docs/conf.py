"""How `make docs` makes a site of the texts, with Sphinx and MyST.

The source is the repository itself: each page is the file that people read on GitHub, links between
files included. What no file holds is added while they are read: the menu, which GitHub has no
use for, and the
figures of the gallery.
"""

from __future__ import annotations

import shutil
import sys
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import gallery  # noqa: E402 -- beside this file

if TYPE_CHECKING:
    from sphinx.application import Sphinx

SECTIONS = {
    "Use": ("docs/data", "docs/models", "docs/library", "docs/extending", "docs/clusters"),
    "Results": (
        "docs/results",
        "docs/configurations",
        "docs/history",
        "docs/attentions",
        "docs/speed",
        "docs/claims",
        "docs/gallery",
        "results/reference/README",
    ),
    "Reference": (
        "docs/glossary",
        "config/README",
        "docs/commands",
        "docs/reliability",
        "docs/security",
        "benchmarks/peers/README",
    ),
}
"""Every page but the start, in the order of the menu."""
TABLES = "results/reference/*/tables/*"
"""What was measured: pages that the gallery links, in no menu."""

project, author = "pam", "the authors of pam"
root_doc = "README"
extensions = ["myst_parser", "sphinx_argparse_cli", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
autodoc_typehints = "none"
napoleon_use_ivar = True
# Python objects, of which the site has the library's alone
nitpick_ignore_regex = [("py:.*", ".*")]
include_patterns = [
    f"{page}.md" for page in (root_doc, *chain.from_iterable(SECTIONS.values()), TABLES)
]
exclude_patterns = [".*", "data", "site"]
myst_heading_anchors = 6  # as GitHub names them
nitpicky = True
html_theme = "furo"
html_title = "pam: posterior attention models"
html_copy_source = False
sphinx_argparse_cli_prefix_document = True


def tree() -> str:
    """The menu, as MyST writes it."""
    parts = []
    for caption, pages in SECTIONS.items():
        parts += ["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"]
    return "\n".join(parts) + "\n"


def add(app: Sphinx, page: str, source: list[str]) -> None:
    """Adds to a page that is read what its file does not hold; a table's heading becomes that of a
    page.
    """
    if page == root_doc:
        source[0] += tree()
    elif page == "docs/gallery":
        source[0] += gallery.text(ROOT, Path("docs"))
    elif fnmatch(page, TABLES):
        source[0] = f"---\norphan: true\n---\n\n{source[0].removeprefix('##')}"


def copy_start(app: Sphinx, error: Exception | None) -> None:
    """The start once more, under the name that browsers look for."""
    if error is None and app.builder.name == "html":
        shutil.copyfile(app.outdir / f"{root_doc}.html", app.outdir / "index.html")


def setup(app: Sphinx) -> None:
    app.connect("source-read", add)
    app.connect("build-finished", copy_start)
