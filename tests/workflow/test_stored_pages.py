"""The pages of stored experiments are made of what is stored, without data and training."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from pam.runtime.files import read_json

ROOT = Path(__file__).parents[2]
STORED = ROOT / "results/reference"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of two small experiments; attention is stored of the first alone."""
    folder = tmp_path_factory.mktemp("elsewhere")
    script = ROOT / "workflow/scripts/make_pages.py"
    command = [sys.executable, str(script), "--out", "pages", "--jobs", "1", "batches", "captions"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    # Nothing is left of the runs that were restored.
    assert [path.name for path in folder.iterdir()] == ["pages"]
    return folder / "pages"


def of_paragraphs(page: Path) -> str:
    """Return the text of a page without tags."""
    return " ".join(re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8")).split())


def test_a_page_shows_the_stored_runs_and_data(pages: Path) -> None:
    text = (pages / "batches/index.html").read_text(encoding="utf-8")

    for label in ("Soft", "Prox-Postr-Joint", "Mono-Postr-Joint"):
        assert label in text
    scores = pd.read_csv(STORED / "batches/scores.csv")
    value = scores[scores["model"] == "soft"]["accuracy"].mean()
    data = read_json(STORED / "batches/data.json")["data"]["ddn13-de-noun"]
    rows = data["splits"]["train"]["rows"]

    assert f"{value:.2f}" in text and f"{rows:,}" in text


def test_commands_on_a_page_name_the_stored_configuration_and_no_file_that_is_not_there(
    pages: Path,
) -> None:
    text = (pages / "batches/index.html").read_text(encoding="utf-8")
    named = set(re.findall(r"--configfile (\S+?)<", text))

    assert len(named) == 1 and all((ROOT / path).is_file() for path in named)
    for address in re.findall(r'href="([^"#][^"]*)"', text):
        assert address.startswith(("data:", "https://")), address


def test_a_phone_has_figures_of_its_own_and_code_stands_as_code(pages: Path) -> None:
    for name in ("batches", "captions"):
        text = (pages / name / "index.html").read_text(encoding="utf-8")

        assert text.count('<img class="narrow"') == text.count('<img class="wide"') > 0
        # The script's own backticks are no text.
        assert "`" not in text.partition("<body>")[2].partition("<script>\n")[0]


def test_a_page_says_what_it_leaves_out_as_weights_are_not_stored(pages: Path) -> None:
    whole = of_paragraphs(pages / "batches/index.html")
    partial = of_paragraphs(pages / "captions/index.html")

    assert "figures/attention_" in partial.partition("What was found")[0]
    assert "left out" not in whole.partition("What was found")[0].lower()


def test_the_index_links_each_page_with_its_answer(pages: Path) -> None:
    index = (pages / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'<a href="([^"]+)">', index)

    assert links == ["batches/index.html", "captions/index.html"]
    for link in links:
        assert (pages / link).is_file()
    assert "Soft" in index


@pytest.mark.parametrize(
    "stored",
    sorted(path.parent for path in STORED.glob("*/data.json")),
    ids=lambda path: path.name,
)
def test_the_data_of_each_stored_experiment_has_a_summary(stored: Path) -> None:
    assert (stored / "runs.tar.xz").is_file()
    commands = read_json(stored / "record.json")["commands"]
    tasks = {run.partition("/")[0] for command in commands for run in command["runs"]}
    assert tasks <= read_json(stored / "data.json")["data"].keys()
