"""The figures of results/reference/ as a page, each with what its report says of it.

Captions are those of the report: names of figures from `pam.reporting.catalogue`, texts from
workflow/report/. Nothing is said here of what a figure shows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace

import PIL.Image
from jinja2 import Environment, StrictUndefined

from pam.experiments.experiment import Experiment
from pam.experiments.parsing import parse
from pam.experiments.yaml import read_yaml
from pam.reporting.catalogue import FIGURES, TABLES

OF_THE_PAPER = ("small", "subwords", "table2")
"""Experiments with Tables 1 to 3 of the paper, and with its figures."""

HEAT_MAP = re.compile(r"attention_(?P<task>.+)_seed(?P<seed>\d+)")
TEMPLATES = {"figure": "figure.rst", "attention": "attention.rst"}
# what follows in a report's caption is about that report, not about the figure
AFTER = "\n.. include::"
IMAGE = re.compile(r'(<img [^>]*src=")([^"]*_images/([^"/]+\.png))(")')
THUMBNAIL = 480  # pixels, the longer side at most


def experiments(root: Path) -> list[Path]:
    """Folders of stored experiments that have figures: first those of the paper's own tables."""
    folders = [path.parent for path in (root / "results/reference").glob("*/figures")]
    return sorted(folders, key=lambda folder: (folder.name not in OF_THE_PAPER, folder.name))


def figures(folder: Path) -> list[Path]:
    """The figures of an experiment, in the catalogue's order, heat maps last."""
    order = list(FIGURES)
    return sorted(
        (folder / "figures").glob("*.png"),
        key=lambda path: (
            order.index(path.stem) if path.stem in FIGURES else len(order),
            path.stem,
        ),
    )


def tables(folder: Path) -> list[Path]:
    """The tables of an experiment, in the catalogue's order."""
    return sorted((folder / "tables").glob("*.md"), key=lambda path: list(TABLES).index(path.stem))


def label(figure: Path) -> str:
    """A figure's name in the menu of a report."""
    return (
        "Heat maps of attention" if HEAT_MAP.fullmatch(figure.stem) else FIGURES[figure.stem].label
    )


def caption(root: Path, figure: Path, experiment: Experiment) -> str:
    """What the report says of a figure, in a paragraph."""
    heat_map = HEAT_MAP.fullmatch(figure.stem)
    template = root / "workflow/report" / TEMPLATES["attention" if heat_map else "figure"]
    wildcards = (
        SimpleNamespace(**heat_map.groupdict()) if heat_map else SimpleNamespace(figure=figure.stem)
    )
    context = SimpleNamespace(config=experiment.model_dump(mode="json"), wildcards=wildcards)
    # Markdown, not HTML.
    environment = Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701
    said = environment.from_string(template.read_text(encoding="utf-8")).render(snakemake=context)
    return " ".join(said.partition(AFTER)[0].split())


def text(root: Path, page: Path, pages: Collection[str] | None = None) -> str:
    """All figures, with links to the tables beside them, as MyST writes them.

    Args:
        page: the folder, from the root, of the page that they are on.
        pages: the pages of the site, without their endings; tables that are none have no link.
    """
    parts: list[str] = []
    for folder in experiments(root):
        file = folder / "experiment.yaml"
        experiment = parse(Experiment, read_yaml(file), file)
        links = [
            f"[{TABLES[table.stem].label}]({os.path.relpath(table, root / page)})"
            for table in tables(folder)
            if pages is None or str(table.relative_to(root).with_suffix("")) in pages
        ]
        parts += ["", f"## {experiment.title} (`{folder.name}/`)", ""]
        if links:
            parts += [f"Tables: {', '.join(links)}.", ""]
        parts.append("````{container} gallery")
        for figure in figures(folder):
            place = os.path.relpath(figure, root / page)
            said = f"**{label(figure)}.** {caption(root, figure, experiment)}"
            parts += [
                "",
                f"```{{figure}} {place}",
                f":alt: {label(figure)}",
                ":loading: lazy",
                ":width: 100%",
                "",
                said,
                "```",
            ]
        parts.append("````")
    return "\n".join([*parts, ""])


def make_thumbnails(page: Path) -> None:
    """Show small copies of the figures on the page of the site; each links to its full size."""

    def shrunk(found: re.Match[str]) -> str:
        before, address, name, after = found.groups()
        folder = (page.parent / address).resolve().parent.with_name("_thumbnails")
        folder.mkdir(exist_ok=True)
        with PIL.Image.open(page.parent / address) as image:
            small = image.convert("RGB")
            small.thumbnail((THUMBNAIL, THUMBNAIL))
            small.quantize(64).save(folder / name, optimize=True)
        return f"{before}{address.replace('_images/', '_thumbnails/')}{after}"

    page.write_text(IMAGE.sub(shrunk, page.read_text(encoding="utf-8")), encoding="utf-8")
