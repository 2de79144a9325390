"""Writes the tables of all claims, computed from the stored runs: `python
workflow/scripts/write_claims.py`.

`docs/claims.yaml` names experiment, models, metric and beam of each claim; `pam.reporting.claims`
computes figures and verdicts. The tables stand between two marks: all claims in `docs/claims.md`,
the `main` ones in `README.md`, in `docs/results.md` those that hold, those that do not, and the
experiments with their cost; all with a line that counts.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pam.io import read_json
from pam.reporting.catalogue import load_papers
from pam.reporting.claims import (
    Claim,
    Outcome,
    Source,
    Stored,
    corrected,
    counted,
    load_sources,
    outcome,
)
from pam.reporting.reference import EXPERIMENT, unpacked
from pam.reporting.render import probability, signed
from pam.reporting.runs import load_experiment

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "results/reference"
CLAIMS = ROOT / "docs/claims.yaml"
PAPERS = ROOT / "config/paper_results.yaml"
BEGIN, END = "<!-- claims -->\n", "<!-- end of claims -->\n"
WIDTH = 120  # characters of a line
ALL = "| | claim | in | paper | ours | verdict |\n| --: | --- | --- | --: | --- | --- |\n"
MAIN = (
    "| claim | paper | ours | data, size | seeds | verdict |\n| --- | --: | --- | --- | --: |"
    " --- |\n"
)
Judged = list[tuple[Source, list[Outcome]]]


def main() -> None:
    for page, text in written().items():
        page.write_text(text, encoding="utf-8")


def written() -> dict[Path, str]:
    """Both pages with the claims of today in the place of those before."""
    judged = judge_all(load_sources(CLAIMS))
    every = [one for _, outcomes in judged for one in outcomes]
    line = counted(every, sum(len(source.open) for source, _ in judged))
    rows = ""
    for source, outcomes in judged:
        for claim, found in zip(source.claims, outcomes, strict=True):
            if claim.main:
                verdict = found.verdict.words
                rows += table_row(
                    claim.claim, figure_of_paper(found), ours(found), *short(found.setting), verdict
                )
    tables = {
        ROOT / "docs/claims.md": f"\n{wrapped(line)}{''.join(section(*one) for one in judged)}\n",
        ROOT / "README.md": f"\n{wrapped(line)}\n{MAIN}{rows}",
    }
    tables[ROOT / "docs/results.md"] = doubters(judged, line)
    return {
        page: between_marks(page.read_text(encoding="utf-8"), table)
        for page, table in tables.items()
    }


def doubters(judged: Judged, line: str) -> str:
    """What holds, what does not, what cannot be told; then what each experiment cost, and its
    command.
    """
    every = [
        (claim, found)
        for source, outcomes in judged
        for claim, found in zip(source.claims, outcomes, strict=True)
    ]
    text = f"\n{wrapped(line)}"
    for title, word in (("What holds", "agrees"), ("What does not", "contradicts")):
        text += (
            f"\n## {title}\n\n| claim | ours | data, size | seeds | Holm |\n| --- | --- | --- | --:"
            " | --: |\n"
        )
        for claim, found in every:
            if found.word == word:
                holm = "" if found.p_holm is None else probability(found.p_holm)
                text += table_row(claim.claim, ours(found), *short(found.setting), holm)
    text += "\n## What nobody can tell yet\n\n"
    for title, word in (
        ("Seeds or test units are too few", "cannot tell"),
        ("Not judged", "not judged"),
    ):
        text += (
            wrapped(
                f"**{title}**:"
                f" {'; '.join(claim.claim for claim, found in every if found.word == word)}."
            )
            + "\n"
        )
    open_claims = [one for source, _ in judged for one in source.open]
    text += wrapped(f"**No run**: {'; '.join(open_claims)}.")
    text += (
        "\n## Seeds, hardware, cost, command\n\n| experiment | runs | seeds | hardware | CPU h |"
        " GPU h |\n"
    )
    text += "| --- | --: | --: | --- | --: | --: |\n"
    for name in dict.fromkeys(claim.experiment for claim, _ in every):
        text += experiment_row(name)
    return text


def experiment_row(name: str) -> str:
    """Runs, seeds, hardware and cost of a stored experiment, by its record."""
    record = read_json(STORED / name / "record.json")
    runs = [run for command in record["commands"] for run in command["runs"]]
    seeds = Counter(run.rpartition("/")[0] for run in runs).values()
    machines = dict.fromkeys(
        one["hardware"]["gpu"]
        or one["hardware"]["cpu"].replace("(R)", "").removesuffix(" Processor")
        for one in record["machines"]
    )
    count = "-".join(map(str, dict.fromkeys([min(seeds), max(seeds)])))
    hours = [f"{record['cost'][key] / 3600:.1f}" for key in ("cpu_s", "gpu_s")]
    address = f"[`{name}`](../results/reference/{name}/record.json)"
    return table_row(address, str(record["runs"]), count, ", ".join(machines), *hours)


def judge_all(sources: list[Source]) -> Judged:
    """Judge every claim by the stored runs, each experiment unpacked once."""
    papers = load_papers(PAPERS)
    stored: dict[str, Stored] = {}
    with ExitStack() as ending:

        def runs_of(experiment: str) -> Stored:
            if experiment not in stored:
                folder = ending.enter_context(unpacked(STORED / experiment))
                about = [
                    claim
                    for source in sources
                    for claim in source.claims
                    if claim.experiment == experiment
                ]
                stored[experiment] = Stored(
                    load_experiment(STORED / experiment / EXPERIMENT), folder, about
                )
            return stored[experiment]

        judged = []
        for source in sources:
            outcomes = [
                outcome(claim, runs_of(claim.experiment), papers) for claim in source.claims
            ]
            judged.append((source, corrected(outcomes)))
    return judged


def between_marks(page: str, table: str) -> str:
    before, _, after = page.partition(BEGIN)
    return f"{before}{BEGIN}{table}{END}{after.partition(END)[2]}"


def section(source: Source, outcomes: list[Outcome]) -> str:
    """A source's claims: a row for each, below the table its words, the setting and why, then what
    is open.
    """
    rows = ""
    notes = ""
    for number, (claim, found) in enumerate(zip(source.claims, outcomes, strict=True), 1):
        rows += table_row(
            str(number),
            claim.claim,
            claim.where,
            figure_of_paper(found),
            ours(found),
            found.verdict.words,
        )
        indent = {"initial_indent": f"{number}. ", "subsequent_indent": " " * len(f"{number}. ")}
        notes += textwrap.fill(note(claim, found), WIDTH, break_on_hyphens=False, **indent) + "\n"
    text = f"\n## {source.paper}\n\n{ALL}{rows}\n{notes}"
    if source.open:
        text += "\n" + wrapped(
            f"**Open**, without a run of today's code: {'; '.join(source.open)}."
        )
    return text


def note(claim: Claim, found: Outcome) -> str:
    """The source's words, the runs with their setting and test, and the line of why."""
    says = f"\u201c{claim.says}\u201d " if claim.says else ""
    beam = f", beam {claim.beam}" if claim.beam else ""
    runs = (
        f"`{claim.experiment}`, {claim.task}, {' / '.join(claim.models)}, {claim.metric}{beam}:"
        f" {found.setting}"
    )
    test = ""
    if found.p is not None:
        test = f", p {probability(found.p)}"
    if found.p_holm is not None:
        test += f", Holm {probability(found.p_holm)}"
    return f"{says}{runs}{test}. {found.verdict.reason.capitalize()}. {claim.why}"


def figure_of_paper(found: Outcome) -> str:
    if found.paper is None:
        return ""
    if found.unit == "gain":
        return signed(found.paper, found.digits)
    return f"{found.paper:.{found.digits}f}"


def ours(found: Outcome) -> str:
    """Our figure with its interval, signed if it is a gain, `x` behind a ratio."""
    write = signed if found.unit == "gain" else unsigned
    value = write(found.ours, found.digits) + (" x" if found.unit == "ratio" else "")
    if found.interval is None:
        return value
    digits = found.digits
    low, high = found.interval.low, found.interval.high
    while digits < 6 and 0 < min(abs(low), abs(high)) < 0.5 * 10**-digits:
        digits += 1
    return f"{value} [{write(low, digits)}, {write(high, digits)}]"


def short(setting: str) -> tuple[str, str]:
    """Whose data and size, and how many seeds."""
    where, _, seeds = setting.rpartition(", ")
    return where.replace("the paper's data and size", "the paper's"), seeds.partition(" ")[0]


def unsigned(number: float, digits: int) -> str:
    return f"{number:.{digits}f}"


def wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False) + "\n"


def table_row(*cells: str) -> str:
    made = f"| {' | '.join(cells)} |\n"
    if len(made) > WIDTH + 1:
        raise SystemExit(
            f"{CLAIMS}: a row of {len(made) - 1} characters, more than {WIDTH}: {made}"
        )
    return re.sub(r"\|  \|", "| |", made)


if __name__ == "__main__":
    main()
