"""Write the page of results of each stored experiment that has its runs, and an index of the pages.

    python workflow/scripts/make_pages.py                      site/results/NAME/index.html
    python workflow/scripts/make_pages.py --out DIR table2     one of them

Each page is made of `results/reference/NAME` alone: its configuration, its runs and the summaries
of its data. Nothing is downloaded and nothing is trained. Weights are not stored, so a page says
which tables and figures it leaves out, and why.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pam.reporting import figures, page, render, tables
from pam.reporting.catalogue import FIGURES, TABLES, kind_of, load_papers, menu_label
from pam.reporting.comparison import Inputs
from pam.reporting.reference import ARCHIVE, DATA, EXPERIMENT
from pam.reporting.runs import load_experiment, load_runs
from pam.reporting.stored_tables import tested_by_sacrebleu, with_controls
from pam.reporting.tables.data import summaries_of
from pam.runtime.errors import UserError
from pam.runtime.files import scratch_folder, write_text
from pam.runtime.messages import write_utf8
from pam.workflow.stored import StoredRuns

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "results/reference"
TEXTS = ROOT / "workflow/report"
PAPERS = ROOT / "config/paper_results.yaml"


@dataclass(frozen=True)
class Entry:
    """A page in the index."""

    name: str
    title: str
    answers: tuple[str, ...]


def main() -> int:
    """Write the pages that the command line names, and return the exit code."""
    write_utf8()
    known = sorted(path.parent.name for path in STORED.glob(f"*/{DATA}"))
    archived = {path.parent.name for path in STORED.glob(f"*/{ARCHIVE}")}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(known)}; none: all")
    parser.add_argument("--out", type=Path, default=Path("site/results"), help="(%(default)s)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="pages made at once (%(default)s)"
    )
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(known))
    if unknown:
        parser.error(f"no stored runs: {', '.join(unknown)}; there are: {', '.join(known)}")

    write = partial(write_page, out=arguments.out.resolve())
    entries = []
    try:
        with ProcessPoolExecutor(arguments.jobs) as pool:
            for entry in pool.map(write, arguments.names or known):
                print(arguments.out / entry.name / "index.html", flush=True)
                entries.append(entry)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2

    without_page = sorted(archived - set(known))
    if without_page:
        print(f"no summary of the data is stored, so no page: {', '.join(without_page)}")

    write_index(entries, arguments.out)
    print(arguments.out / "index.html")
    return 0


def write_page(name: str, out: Path) -> Entry:
    """Write the page of a stored experiment into a folder of its name."""
    # Commands on the page name files from here.
    with scratch_folder() as folder, chdir(folder):
        stored_page = StoredPage(STORED / name)
        content = stored_page.write(out / name / "index.html")

    return Entry(name, content["title"], tuple(content["answers"]))


class StoredPage:
    """The page of a stored experiment, whose runs are restored into the current folder."""

    def __init__(self, stored: Path) -> None:
        self.stored = stored
        self.experiment = load_experiment(stored / EXPERIMENT)
        self.papers = load_papers(PAPERS)
        self.results = Path("results", self.experiment.experiment)

        self.runs = StoredRuns(stored, self.results)
        self._restore_significance()
        self.files = self.runs.files
        self.report = self.runs.report
        self.left_out = self.report.left_out_texts()

    def write(self, out: Path) -> dict[str, Any]:
        """Write tables, figures and the page; return what the page's template was given."""
        scores = [Path(file) for file in self.files.of_runs("scores.json")]
        made_tables = self._made(self.report.tables(), self._write_table)
        made_figures = self._made(self.report.figures(), self._write_figure)
        page_files = page.Files(
            experiment=self.experiment,
            folder=self.results,
            tables=made_tables,
            figures=made_figures,
            summaries=summaries_of(self.files.of_tasks("summary.json")),
            gold=summaries_of(self.files.gold_summaries()),
            texts=TEXTS,
            left_out=self.left_out,
            runs=load_runs(scores, self.experiment),
            outputs=[Path(file) for file in self.report.outputs()],
            config=self.stored.relative_to(ROOT) / EXPERIMENT,
            report="",
        )
        return page.write(page_files, out)

    @staticmethod
    def _made(targets: list[str], write: Callable[[Path], bool]) -> list[str]:
        """Write tables or figures; return the names of those that could be made."""
        return [Path(target).stem for target in targets if write(Path(target))]

    def _restore_significance(self) -> None:
        """Write the tests by sacreBLEU that the stored tables tell of."""
        for name, spec in TABLES.items():
            file = self.stored / f"tables/{name}.csv"
            if "significance" in spec.files and file.is_file():
                before = render.read_csv(file)
                if "p_sacrebleu" in before:
                    files = self.results / "{task}/significance/seed{seed}.json"
                    tested_by_sacrebleu(before, self.experiment.baseline, files)

    def _write_table(self, target: Path) -> bool:
        """Write a table, with the stored rows of no model; return whether it can be made."""
        spec = TABLES[target.stem]
        options = self.report.inputs()(SimpleNamespace(table=target.stem))
        missing = [file for file in options.pop("beside") if not Path(file).exists()]
        if missing:
            label = menu_label(spec, self.experiment)
            self.left_out.append(
                f"{label}: left out, as it needs prepared data, which are not stored ({target})."
            )
            return False

        # Outputs of no model are not stored, only their rows in tables.
        paths = {
            option.replace("-", "_"): [Path(file) for file in files if Path(file).exists()]
            for option, files in options.items()
        }
        table = tables.build(target.stem, Inputs(self.experiment, self.papers, **paths))
        shown = self.stored / f"tables/{target.stem}.md"
        if spec.controls and shown.is_file():
            table = with_controls(table, render.read_csv(shown.with_suffix(".csv")), shown)

        render.write(table, target.parent, target.stem)
        return True

    def _write_figure(self, target: Path) -> bool:
        """Draw a figure; all that are asked for can be drawn."""
        options = [*self.runs.figure_options(target.stem), "--out", str(target)]
        if target.stem in FIGURES:
            options += ["--narrow", str(target.parent / "narrow" / target.name)]

        figures.write(kind_of(target.stem), options)
        return True


def write_index(entries: list[Entry], out: Path) -> None:
    """Write the page that links the others."""
    html = page.template(TEXTS / "stored_pages.html").render(entries=entries)
    write_text(out / "index.html", html)


if __name__ == "__main__":
    sys.exit(main())
