"""Writes the table of all claims, its figures drawn from the stored tables: `python workflow/scripts/write_claims.py`.

`docs/claims.yaml` has each claim, its verdict and the reason in words, and names a figure by where it is stored:
`{table2 ddn13-de-noun soft accuracy}` is a mean with its deviation over seeds and its interval, `{gain ...}` the paired
gain over the baseline, `{gain ... over hard}` that over another model, from the stored runs, `{mean ...}` the mean
alone, `{entropy ...}` any other column. The tables stand between two marks: all claims in `docs/claims.md`, the `main`
ones in `README.md`.
"""

from __future__ import annotations

import atexit
import re
import sys
import textwrap
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pam.reporting.comparison import compare
from pam.reporting.reference import EXPERIMENT, unpacked
from pam.reporting.runs import load_experiment, load_runs

ROOT = Path(__file__).resolve().parents[2]
STORED, CLAIMS = ROOT / "results/reference", ROOT / "docs/claims.yaml"
BEGIN, END = "<!-- claims -->\n", "<!-- end of claims -->\n"
WIDTH = 120  # characters of a line
FIGURE = re.compile(r"\{(?:(\w+) )?([\w.-]+) ([\w.-]+) ([\w.-]+) (\w+)(?: over ([\w.-]+))?\}")
HEADER = "| | claim | in | what we measured | seeds | verdict |\n| --: | --- | --- | --- | --: | --- |\n"
MAIN = "| claim | what we measured | seeds | verdict |\n| --- | --- | --: | --- |\n"
Key = tuple[str, str, str, str]  # experiment, task, model, metric


def main() -> None:
    for page, text in written().items():
        page.write_text(text, encoding="utf-8")


def written() -> dict[Path, str]:
    """Both pages with the claims of today in the place of those before."""
    papers = yaml.safe_load(CLAIMS.read_text(encoding="utf-8"))
    most = [one for paper in papers for one in paper["claims"] if one.get("main")]
    rows = MAIN + "".join(table_row(one["claim"], *outcome(one)) for one in most)
    tables = {ROOT / "docs/claims.md": "".join(map(section, papers)) + "\n", ROOT / "README.md": rows}
    return {page: between_marks(page.read_text(encoding="utf-8"), table) for page, table in tables.items()}


def between_marks(page: str, table: str) -> str:
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}{table}{END}{rest.partition(END)[2]}"


def section(paper: dict[str, Any]) -> str:
    """A paper's claims: a row for each, and below the table the reasons by number."""
    rows, reasons = "", ""
    for number, one in enumerate(paper["claims"], 1):
        rows += table_row(str(number), one["claim"], one["in"], *outcome(one))
        indent = {"initial_indent": f"{number}. ", "subsequent_indent": " " * len(f"{number}. ")}
        reasons += textwrap.fill(filled(one["why"]), WIDTH, break_on_hyphens=False, **indent) + "\n"
    return f"\n## {paper['paper']}\n\n{HEADER}{rows}\n{reasons}"


def outcome(claim: dict[str, Any]) -> tuple[str, str, str]:
    """What was measured, of how many trainings, and the verdict."""
    return filled(claim["measured"]), seeds(claim["measured"]), claim["verdict"]


def table_row(*cells: str) -> str:
    made = f"| {' | '.join(cells)} |\n"
    if len(made) > WIDTH + 1:
        raise SystemExit(f"{CLAIMS}: a row of {len(made) - 1} characters, more than {WIDTH}: {made}")
    return made


def filled(text: str) -> str:
    """The text with its figures."""
    return FIGURE.sub(lambda found: figure(found[1] or "value", key_of(found), found[6]), text)


def key_of(found: re.Match[str]) -> Key:
    return found[2], found[3], found[4], found[5]


def seeds(text: str) -> str:
    """How many trainings the figures of a text are of: one number, or the fewest and the most."""
    counts = {int(row(key_of(found), "n")["n"]) for found in FIGURE.finditer(text)}
    return "-".join(str(count) for count in sorted({min(counts), max(counts)})) if counts else ""


def figure(form: str, key: Key, over: str | None) -> str:
    """One figure of a stored table, or of the stored runs of two models, the second of them `over`."""
    digits = {"accuracy": 2, "ppl": 2, "cider": 3}.get(key[3], 3 if "aer" in key[3] else 1)
    if form == "gain":
        gain = gain_over(key, over) if over else row(key, "gain", "low", "high")[["gain", "low", "high"]]
        mean, low, high = (signed(number, digits) for number in gain)
        return f"{mean} [{low}, {high}]"
    if form not in ("mean", "value"):
        return f"{row(key, form)[form]:.2f}"
    found = row(key, "mean", "sd", "low", "n")
    if form == "mean":
        return f"{found['mean']:.{digits}f}"
    deviation = f" ± {found['sd']:.{digits}f}" if found["n"] > 1 else ""
    return f"{found['mean']:.{digits}f}{deviation} [{found['low']:.{digits}f}, {found['high']:.{digits}f}]"


def signed(number: float, digits: int) -> str:
    return f"{number:+.{digits}f}".replace("-", "−")


@cache
def gain_over(key: Key, other: str) -> tuple[float, float, float]:
    """The paired gain of a model over one that is not the baseline, and its interval; an error if no stored run has
    the metric."""
    experiment, task, model, metric = key
    plan = load_experiment(STORED / experiment / EXPERIMENT).model_copy(update={"baseline": other})
    # Alignment errors are scored in a file of their own.
    for name in ("scores.json", "gold_scores.json"):
        mine, others = (sorted(runs(experiment).glob(f"{task}/{one}/seed*/{name}")) for one in (model, other))
        if mine and others and (read := load_runs([*mine, *others], plan))[0].metrics([metric]):
            found = next(one for one in compare(read, plan, [metric], None) if one.model == model)
            return found.gain, found.gain_low, found.gain_high
    raise SystemExit(f"{CLAIMS}: no stored run has {' '.join(key)}, or {other} to compare it with")


@cache
def runs(experiment: str) -> Path:
    """A folder with the experiment's stored runs, gone when this program ends."""
    ending = ExitStack()
    atexit.register(ending.close)
    return ending.enter_context(unpacked(STORED / experiment))


@cache
def tables(experiment: str) -> list[pd.DataFrame]:
    """The stored tables that have a row for a task, a model and a metric, or the phase of a run."""
    files = sorted((STORED / experiment / "tables").glob("*.csv"))
    read = [pd.read_csv(file).rename(columns={"phase": "metric"}) for file in files]
    return [table for table in read if {"task", "model", "metric"} <= set(table.columns)]


def row(key: Key, *columns: str) -> pd.Series:
    """The figure's row in the first table that has it and these columns; an error if none has."""
    for table in tables(key[0]):
        if set(columns) <= set(table.columns):
            found = table[(table.task == key[1]) & (table.model == key[2]) & (table.metric == key[3])]
            if len(found):
                return found.iloc[0]
    raise SystemExit(f"{CLAIMS}: no stored table has {', '.join(columns)} of {' '.join(key)}")


if __name__ == "__main__":
    main()
