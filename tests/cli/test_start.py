"""The first hour prints what docs/start.md shows: `pam run`, `pam data new` and `pam check`.

Numbers that depend on the machine, and its processor, may differ; all other words are the same.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.workflow.checkouts import ROOT, checkout

pytestmark = pytest.mark.slow

START = (ROOT / "docs/start.md").read_text(encoding="utf-8")
NOUNS = "my/nouns.tsv"


def shown(command: str) -> list[str]:
    """Return the lines that the page shows below a command, `...` for what it leaves out."""
    console = "\n".join(re.findall(r"^```console\n(.*?)^```", START, re.MULTILINE | re.DOTALL))
    (text,) = re.findall(
        rf"^\$ {re.escape(command)}\n(.*?)(?=^\$ |\Z)", console, re.MULTILINE | re.DOTALL
    )
    return str(text).splitlines()


def plain(text: str) -> str:
    """Return a text without its numbers, spaces, plurals and the name of the processor."""
    text = re.sub(r"each training on .*?, estimated", "each training on CPU, estimated", text)
    text = re.sub(r"\b(training|core)s?\b", r"\1", text)
    return " ".join(re.sub(r"\d+(\.\d+)?", "#", text).split())


def assert_shown(printed: str, lines: list[str]) -> None:
    """Check that lines were printed, in their order; `...` stands for any lines."""
    parts = re.split(r"^ *\.\.\.$", "\n".join(lines), flags=re.MULTILINE)
    pattern = " .* ".join(re.escape(plain(part)) for part in parts)
    assert re.search(pattern, plain(printed)), printed


@pytest.fixture(scope="module")
def nouns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the nouns that `pam run` has fetched, where the page puts them."""
    pytest.importorskip("german_nouns", reason="the package german-nouns is not installed")
    from pam.cli import main

    folder = tmp_path_factory.mktemp("first hour")
    assert main(["fetch", "--dataset", "de-noun-1000", "--out", str(folder / "fetched")]) == 0
    (folder / "my").mkdir()
    (folder / "fetched/train.tsv").rename(folder / NOUNS)
    return folder


def test_a_file_is_described_and_checked_as_the_start_shows(
    nouns: Path, monkeypatch: pytest.MonkeyPatch, called: Call
) -> None:
    monkeypatch.chdir(nouns)
    described = called("data", "new", NOUNS)
    lines = shown(f"pam data new {NOUNS}")
    printed = described.out + described.err

    assert described.code == 0
    assert_shown(printed, lines)
    # The rows are those of the file, to the letter.
    assert set(lines[: lines.index("    ...")]) <= set(printed.splitlines())

    (experiment,) = re.findall(r"Save it as `nouns.yaml`:\n\n```yaml\n(.*?)```", START, re.DOTALL)
    assert experiment in printed
    Path("nouns.yaml").write_text(experiment, encoding="utf-8")

    checked = called("check", "--configfile", "nouns.yaml")
    assert checked.code == 0
    assert_shown(checked.out, shown("pam check --configfile nouns.yaml"))


def test_the_default_experiment_has_the_jobs_and_says_the_lines_that_the_start_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: Call
) -> None:
    first, job, *_ = lines = shown("pam run")

    planned = checkout(tmp_path / "checkout").plan()
    of_job = re.fullmatch(r"1 of (\d+) jobs: (.*): (\S+) \(\d+ s\), about [\d:]+ to go", job)
    assert of_job
    total, rule, file = of_job.groups()
    assert int(total) == sum(planned.jobs.values())
    assert rule.replace(" ", "_") in planned.jobs and file in planned.said

    def run(command: list[str], **settings: Any) -> subprocess.CompletedProcess[str]:
        """Stand in for Snakemake and for the check, which has the line of the page."""
        page = Path("results/quick/index.html")
        page.parent.mkdir(parents=True, exist_ok=True)
        page.touch()
        return subprocess.CompletedProcess(command, 0, stdout=f"{first.removeprefix('==> ')}\n")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    assert called("run").out.splitlines() == [line for line in lines if line.startswith("==>")]


def test_the_expected_time_is_worded_as_the_start_shows(
    monkeypatch: pytest.MonkeyPatch, called: Call
) -> None:
    monkeypatch.chdir(ROOT)
    checked = called("check", "--brief")
    assert plain(checked.out) == plain(shown("pam run")[0].removeprefix("==> "))
