"""Write the tables of all claims, computed from the stored runs.

    python workflow/scripts/write_claims.py

`docs/claims.yaml` names experiment, models, metric and beam of each claim; `pam.reporting.claims`
computes figures and verdicts. The tables stand between two marks: all claims in `docs/claims.md`,
the `main` claims in `README.md`, and in `docs/results.md` the claims that hold, the claims that do
not, and the experiments with their cost. Each page also has a line that counts the claims.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pam.reporting.catalogue import load_papers
from pam.reporting.cells import probability, signed
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
from pam.reporting.runs import load_experiment
from pam.runtime.files import read_json

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "results/reference"
CLAIMS = ROOT / "docs/claims.yaml"
PAPERS = ROOT / "config/paper_results.yaml"
BEGIN = "<!-- claims -->\n"
END = "<!-- end of claims -->\n"
JUDGED = ("scores.json", "gold_scores.json", "analysis.json")  # files that claims are judged by
WIDTH = 120  # characters of a line
ALL = "| no. | claim | in | paper | ours | verdict |\n| --: | --- | --- | --: | --- | --- |\n"
MAIN = (
    "| claim | paper | ours | data, size | seeds | verdict |\n| --- | --: | --- | --- | --: |"
    " --- |\n"
)
Judged = list[tuple[Source, list[Outcome]]]


def main() -> None:
    """Write the pages."""
    for page, text in written().items():
        page.write_text(text, encoding="utf-8")


def written() -> dict[Path, str]:
    """Return the pages with their old tables replaced by the current ones."""
    judged = judge_all(load_sources(CLAIMS))
    line = counted(pairs(judged), sum(len(source.open) for source, _ in judged))
    sections = "".join(section(source, results) for source, results in judged)
    main_rows = "".join(main_row(claim, result) for claim, result in pairs(judged) if claim.main)
    tables = {
        ROOT / "docs/claims.md": f"\n{wrapped(line)}{sections}\n",
        ROOT / "README.md": f"\n{wrapped(line)}\n{MAIN}{main_rows}",
        ROOT / "docs/results.md": doubters(judged, line),
    }

    return {
        page: between_marks(page.read_text(encoding="utf-8"), table)
        for page, table in tables.items()
    }


def pairs(judged: Judged) -> list[tuple[Claim, Outcome]]:
    """List all claims with their outcomes."""
    return [
        (claim, result)
        for source, results in judged
        for claim, result in zip(source.claims, results, strict=True)
    ]


def main_row(claim: Claim, result: Outcome) -> str:
    """Return the row of a claim in README."""
    setting, seeds = short(result.setting)
    verdict = result.verdict.direction
    return table_row(claim.claim, figure_of_paper(result), ours(result), setting, seeds, verdict)


def has_margin(claim: Claim, result: Outcome) -> bool:
    """Return whether a claim states a ratio or that two models are alike."""
    return claim.alike or (result.unit == "ratio" and result.paper is not None)


def doubters(judged: Judged, line: str) -> str:
    """Return the claims that hold, do not hold and are open, and the cost of each experiment."""
    claims = pairs(judged)
    text = f"\n{wrapped(line)}"
    for title, word in (("What holds", "agrees"), ("What does not hold", "contradicts")):
        text += (
            f"\n## {title}\n\n| claim | ours | data, size | seeds | Holm |\n| --- | --- | --- | --:"
            " | --: |\n"
        )
        for claim, result in claims:
            if result.word == word:
                holm = "" if result.p_holm is None else probability(result.p_holm)
                setting, seeds = short(result.setting)
                text += table_row(claim.claim, ours(result), setting, seeds, holm)

    text += "\n## What is still open\n\n"
    names: dict[str, list[str]] = {
        "Seeds or test units are too few": [],
        "At the edge of the margin, neither inside nor outside": [],
        "Not judged": [],
    }
    few, at_edge, not_judged = names.values()
    for claim, result in claims:
        if result.word == "not judged":
            not_judged.append(claim.claim)
        elif result.word == "cannot tell" and has_margin(claim, result):
            at_edge.append(f"{claim.claim}, {ours(result)}")
        elif result.word == "cannot tell":
            few.append(claim.claim)
    for title, of_title in names.items():
        text += wrapped(f"**{title}**: {'; '.join(of_title)}.") + "\n"

    open_claims = [name for source, _ in judged for name in source.open]
    text += wrapped(f"**No run**: {'; '.join(open_claims)}.")

    text += (
        "\n## Seeds, hardware, cost, command\n\n| experiment | runs | seeds | hardware | CPU h |"
        " GPU h |\n"
    )
    text += "| --- | --: | --: | --- | --: | --: |\n"
    for experiment in dict.fromkeys(claim.experiment for claim, _ in claims):
        text += experiment_row(experiment)
    return text


def experiment_row(name: str) -> str:
    """Return runs, seeds, hardware and cost of a stored experiment, by its record."""
    record = read_json(STORED / name / "record.json")
    runs = [run for command in record["commands"] for run in command["runs"]]
    seeds = Counter(run.rpartition("/")[0] for run in runs).values()
    seeds_text = "-".join(map(str, dict.fromkeys([min(seeds), max(seeds)])))

    machines = []
    for machine in record["machines"]:
        hardware = machine["hardware"]
        cpu = hardware["cpu"].replace("(R)", "").removesuffix(" Processor")
        machines.append(hardware["gpu"] or cpu)

    return table_row(
        f"[`{name}`](../results/reference/{name}/record.json)",
        str(record["runs"]),
        seeds_text,
        ", ".join(dict.fromkeys(machines)),
        f"{record['cost']['cpu_s'] / 3600:.1f}",
        f"{record['cost']['gpu_s'] / 3600:.1f}",
    )


def judge_all(sources: list[Source]) -> Judged:
    """Judge every claim by the stored runs, each experiment unpacked once."""
    papers = load_papers(PAPERS)
    stored: dict[str, Stored] = {}
    with ExitStack() as ending:

        def runs_of(experiment: str) -> Stored:
            if experiment not in stored:
                folder = ending.enter_context(unpacked(STORED / experiment, JUDGED))
                config = load_experiment(STORED / experiment / EXPERIMENT)
                stored[experiment] = Stored(config, folder)

            return stored[experiment]

        judged = []
        for source in sources:
            outcomes = [
                outcome(claim, runs_of(claim.experiment), papers) for claim in source.claims
            ]
            judged.append((source, corrected(source.claims, outcomes)))

    return judged


def between_marks(page: str, table: str) -> str:
    """Return a page with a table between its two marks."""
    before, _, after = page.partition(BEGIN)
    return f"{before}{BEGIN}{table}{END}{after.partition(END)[2]}"


def section(source: Source, outcomes: list[Outcome]) -> str:
    """Return a source's claims: a table, a note on each claim, then the open claims."""
    rows = ""
    notes = ""
    for number, (claim, result) in enumerate(zip(source.claims, outcomes, strict=True), 1):
        rows += table_row(
            str(number),
            claim.claim,
            claim.where,
            figure_of_paper(result),
            ours(result),
            result.verdict.direction,
        )
        bullet = f"{number}. "
        filled = textwrap.fill(
            note(claim, result),
            WIDTH,
            break_on_hyphens=False,
            initial_indent=bullet,
            subsequent_indent=" " * len(bullet),
        )
        notes += f"{filled}\n"

    text = f"\n## {source.paper}\n\n{ALL}{rows}\n{notes}"
    if source.open:
        open_claims = "; ".join(source.open)
        text += "\n" + wrapped(f"**Open**, without a run of the current code: {open_claims}.")

    return text


def note(claim: Claim, result: Outcome) -> str:
    """Return a note: the source's words, the runs with setting and test, and the explanation."""
    says = f"\u201c{claim.says}\u201d " if claim.says else ""
    beam = f", beam {claim.beam}" if claim.beam else ""
    runs = (
        f"`{claim.experiment}`, {claim.task}, {' / '.join(claim.models)}, {claim.metric}{beam}:"
        f" {result.setting}"
    )
    test = ""
    if result.p is not None:
        test = f", p {probability(result.p)}"
    if result.p_holm is not None:
        test += f", Holm {probability(result.p_holm)}"

    return f"{says}{runs}{test}. {result.verdict.reason.capitalize()}. {claim.why}"


def figure_of_paper(result: Outcome) -> str:
    """Return the paper's figure, signed if it is a gain; nothing where it has none."""
    if result.paper is None:
        return ""
    if result.unit == "gain":
        return signed(result.paper, result.digits)
    return f"{result.paper:.{result.digits}f}"


def ours(result: Outcome) -> str:
    """Return our figure with its interval, signed if it is a gain, `x` behind a ratio."""
    if result.ours is None:
        return "not stored"
    write = signed if result.unit == "gain" else unsigned
    value = write(result.ours, result.digits)
    if result.unit == "ratio":
        value += " x"
    if result.interval is None:
        return value

    # An end of the interval that is not 0 is not written as 0.
    digits = result.digits
    low = result.interval.low
    high = result.interval.high
    while digits < 6 and 0 < min(abs(low), abs(high)) < 0.5 * 10**-digits:
        digits += 1
    return f"{value} [{write(low, digits)}, {write(high, digits)}]"


def short(setting: str) -> tuple[str, str]:
    """Split a setting into data and size, and the number of seeds."""
    where, _, seeds = setting.rpartition(", ")
    return where.replace("the paper's data and size", "the paper's"), seeds.partition(" ")[0]


def unsigned(number: float, digits: int) -> str:
    return f"{number:.{digits}f}"


def wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False) + "\n"


def table_row(*cells: str) -> str:
    """Return a row of a table; a row that is too long ends the process: reword it."""
    row = f"| {' | '.join(cells)} |\n"
    if len(row) > WIDTH + 1:
        raise SystemExit(f"{CLAIMS}: a row of {len(row) - 1} characters, more than {WIDTH}: {row}")
    return re.sub(r"\|  \|", "| |", row)


if __name__ == "__main__":
    main()
