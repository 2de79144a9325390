"""The whole workflow on data of one's own, from eight lines of YAML to the report."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess

import pytest

from tests.warm import bin_folder
from tests.workflow.checkouts import Checkout, Outcome
from tests.workflow.conftest import OWN, front_door

pytestmark = pytest.mark.slow

RESULTS = "results/tiny"
MODELS = ("soft", "mono-postr-joint")


def test_everything_is_made_by_one_command(ran: tuple[Checkout, Outcome]) -> None:
    made, outcome = ran

    assert outcome.code == 0, outcome.said

    results = made.folder / RESULTS
    for model in MODELS:
        run = results / "nouns" / model / "seed1"
        for file in ("run.yaml", "history.csv", "training.json", "beam1/predictions.tsv"):
            assert (run / file).stat().st_size > 0, file
        for file in ("config.yaml", "weights.safetensors", "source.vocab", "target.vocab"):
            assert (run / "model" / file).stat().st_size > 0, file
        scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))
        assert scores["metrics"]["accuracy"]["n"] == 16

    assert {path.suffix for path in (results / "tables").iterdir()} == {
        ".csv",
        ".md",
        ".tex",
        ".html",
        ".json",
    }

    figures = {path.name for path in (results / "figures").iterdir()}
    assert {
        "accuracy.svg",
        "accuracy.png",
        "accuracy.csv",
        "curves.svg",
        "attention_nouns_seed1.svg",
    } <= figures


def test_files_follow_the_umask(
    ran: tuple[Checkout, Outcome], translated: tuple[Checkout, Outcome]
) -> None:
    mask = os.umask(0)
    os.umask(mask)

    for made, _ in (ran, translated):
        paths = [*(made.folder / "results").rglob("*"), *(made.folder / "data").rglob("*")]
        files = [path for path in paths if path.is_file()]
        suffixes = {".yaml", ".json", ".tsv", ".csv", ".html", ".png", ".svg"}
        assert {file.suffix for file in files} > suffixes
        modes = {str(file.relative_to(made.folder)): file.stat().st_mode & 0o777 for file in files}
        assert {file: oct(mode) for file, mode in modes.items() if mode != 0o666 & ~mask} == {}


def test_the_table_has_the_columns_that_others_build_on(ran: tuple[Checkout, Outcome]) -> None:
    with open(ran[0].folder / RESULTS / "tables/table2.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))

    assert [row["model"] for row in rows] == list(MODELS)

    expected = (
        "task model metric mean sd n low high paper difference gain gain_low gain_high p_vs_soft"
        " p_holm direction setting cpu_s gpu_s"
    )

    assert list(rows[0]) == expected.split()


def test_the_report_holds_tables_figures_cost_and_versions(ran: tuple[Checkout, Outcome]) -> None:
    report = (ran[0].folder / RESULTS / "report.html").read_text(encoding="utf-8")
    for category in ("1. Results", "2. Figures", "3. Data and cost"):
        assert category in report

    for figure in ("accuracy", "gains", "curves", "cost", "attention_nouns_seed1"):
        assert f"figures/{figure}.svg" in report

    for table in ("table2", "table2_paradigms", "overhead", "costs", "environment"):
        assert f"tables/{table}.html" in report

    # On the first page: the table with the rule by which models are compared, the cost, the
    # command.
    first = report.partition("workflow_desc")[2].partition("</script>")[0]
    for text in (
        "Mono-Postr-Joint",
        "Comparison.",
        "undecided",
        "CPU seconds",
        "--configfile",
        "index.html",
    ):
        assert text in first, text


def test_the_page_says_what_was_found_and_leads_to_the_report(
    ran: tuple[Checkout, Outcome],
) -> None:
    page = (ran[0].folder / RESULTS / "index.html").read_text(encoding="utf-8")

    answers = re.findall(r'<dd class="finding[^"]*">(.*?)</dd>', page)
    assert any("nouns" in answer and "Soft" in answer for answer in answers)

    for text in (
        'href="report.html"',
        'download="table2.csv"',
        "Outputs side by side",
    ):
        assert text in page, text

    # Own data have no figure of a paper, and so no verdict.
    report = (ran[0].folder / RESULTS / "report.html").read_text(encoding="utf-8")
    first = report.partition("workflow_desc")[2].partition("</script>")[0]
    words = re.sub('data:[^"]*', "", page.partition("</style>")[2])
    for text in ("verdict", "Table 2"):
        assert text.lower() not in words.lower(), text
        assert text.lower() not in first.lower(), text


def test_a_second_run_does_nothing(finished: Checkout) -> None:
    outcome = finished.run(*OWN)
    assert outcome.code == 0
    assert "Nothing to be done" in outcome.said


def test_a_model_predicts_by_itself(ran: tuple[Checkout, Outcome]) -> None:
    run = f"{RESULTS}/nouns/soft/seed1"
    done = subprocess.run(
        [str(bin_folder() / "python"), "-m", "pam", "predict", "--run", run],
        cwd=ran[0].folder,
        input="bad\tnumber=plural\n",
        capture_output=True,
        text=True,
        check=True,
    )

    assert len(done.stdout.splitlines()) == 1
    assert done.stdout.strip()


def test_the_front_door_says_how_long_it_takes_what_it_does_and_where_the_results_are(
    ran: tuple[Checkout, Outcome],
) -> None:
    _, outcome = ran

    assert "==> in all about " in outcome.said

    line = r"^\d+ of \d+ jobs: Training mono-postr-joint on nouns, seed 1.* to go$"
    assert re.search(line, outcome.said, re.MULTILINE)
    assert "localrule" not in outcome.said
    assert "==> done: results/tiny/index.html" in outcome.said


def test_the_front_door_says_that_nothing_is_to_be_done(finished: Checkout) -> None:
    outcome = front_door(finished)

    assert outcome.code == 0
    assert "the page is as it was: results/tiny/index.html" in outcome.said
    assert "no training is left to do" in outcome.said
