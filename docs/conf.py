"""How `make docs` makes a site of the texts, with Sphinx and MyST.

The source is the repository itself: each page is the file that people read on GitHub, links between
files included. What no file holds is added while they are read: the menu, which GitHub has no use
for, and the figures of the gallery. The search leaves out generated tables, and lists the history
and all claims last (`search_order.js`).
"""

from __future__ import annotations

import html
import json
import shutil
import sys
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from docutils.nodes import Element, document, section

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import gallery  # noqa: E402 -- beside this file

if TYPE_CHECKING:
    from sphinx.application import Sphinx

SECTIONS = {
    "Start": ("docs/README", "docs/start", "docs/method"),
    "Use": ("docs/recipes", "docs/data", "docs/models", "docs/transformers-library"),
    "Results": (
        "docs/results",
        "docs/attentions",
        "docs/transformers",
        "docs/alignment",
        "docs/speed",
        "docs/peers",
        "docs/gallery",
    ),
    "Run": ("docs/clusters", "docs/reliability", "docs/security"),
    "Extend": ("docs/extending", "CONTRIBUTING"),
    "Reference": (
        "config/README",
        "docs/commands",
        "docs/library",
        "docs/glossary",
        "docs/claims",
        "docs/papers",
        "docs/configurations",
        "results/reference/README",
        "results/unfinished/README",
        "benchmarks/peers/README",
    ),
    "History": ("CHANGELOG", "docs/history"),
}
"""Every page but the start, in the order of the menu."""
TABLES = "results/reference/*/tables/*"
"""What was measured: pages that the gallery links, in no menu and not in the search."""

EXCERPTS = "texts.js"
"""The texts of all pages, for the excerpts of search results."""

project, author = "pam", "the pam authors"
copyright = f"2026, {author}"  # noqa: A001 -- its name in Sphinx
root_doc = "README"
extensions = ["myst_parser", "sphinx_argparse_cli", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
autodoc_typehints = "none"
napoleon_use_ivar = True
napoleon_attr_annotations = False  # types of arrays would be longer than what is said of them
default_role = "code"
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
html_static_path = ["gallery.css", "reachable.js", "excerpts.js"]
html_css_files = ["gallery.css"]
html_js_files = ["reachable.js"]
html_search_scorer = str(ROOT / "docs/search_order.js")
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
        source[0] += gallery.text(ROOT, Path("docs"), app.env.found_docs)
    elif fnmatch(page, TABLES):
        front = "---\norphan: true\nno-search: true\n---\n"
        source[0] = f"{front}\n{source[0].removeprefix('##')}"


def finish(app: Sphinx, error: Exception | None) -> None:
    """Copies the start to the name that browsers look for, and makes the gallery's thumbnails and
    the excerpts of the search.
    """
    if error is None and app.builder.name == "html":
        texts = {page: marked(app.env.get_doctree(page)) for page in searched(app)}
        content = f"const TEXTS = {json.dumps(texts)};\n"
        (app.outdir / "_static" / EXCERPTS).write_text(content, encoding="utf-8")
        shutil.copyfile(app.outdir / f"{root_doc}.html", app.outdir / "index.html")
        page = app.outdir / "docs/gallery.html"
        if page.is_file():
            gallery.make_thumbnails(page)


def searched(app: Sphinx) -> list[str]:
    """The pages that are found by the search."""
    return [page for page in app.env.found_docs if not fnmatch(page, TABLES)]


def marked(node: Element) -> str:
    """The text of a page or section, in whose HTML the search finds sections by their names."""
    parts = []
    for child in node.children:
        if isinstance(child, section):
            parts.append(f'<section id="{child["ids"][0]}">{marked(child)}</section>')
        else:
            parts.append(html.escape(child.astext()))
    text = "\n".join(parts)
    if isinstance(node, document):
        return f'<div role="main">{text}</div>'
    return text


def add_excerpts(app: Sphinx, page: str, *_: object) -> None:
    """Let the page of the search have excerpts, also where it is opened as a file."""
    if page == "search":
        app.add_js_file(EXCERPTS)
        app.add_js_file("excerpts.js")


def setup(app: Sphinx) -> None:
    app.connect("source-read", add)
    app.connect("html-page-context", add_excerpts)
    app.connect("build-finished", finish)
