"""`pam run` hands its words to Snakemake, waits for it, and says how to go on."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Programs that are called, in a folder with an experiment; each ends well at once."""
    called: list[list[str]] = []

    def run(command: list[str], **settings: Any) -> subprocess.CompletedProcess[str]:
        called.append(command)
        return subprocess.CompletedProcess(command, 0, stdout="")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("experiment: mine\n", encoding="utf-8")
    return called


def test_words_are_handed_on_and_all_cores_are_used(called: Call, calls: list[list[str]]) -> None:
    words = ["data", "--configfile", "mine.yaml", "--config", "seeds=[1, 2]", "--quiet"]
    assert called("run", *words).code == 0

    check, snakemake = calls
    assert check[2:4] == ["pam", "check"] and check[-4:] == words[1:5]
    assert snakemake[-len(words) :] == words
    assert snakemake[snakemake.index("--cores") + 1] == "all"
    assert Path(snakemake[snakemake.index("--snakefile") + 1]).is_file()
    assert Path(snakemake[snakemake.index("--workflow-profile") + 1], "config.yaml").is_file()

    called("run", "--configfile", "mine.yaml", "-c1")
    assert "--cores" not in calls[-1]


def test_a_target_after_configfile_is_refused_before_anything_is_called(
    called: Call, calls: list[list[str]]
) -> None:
    message, hint = called("run", "--configfile", "mine.yaml", "tables").message()
    assert "`tables`" in message and "-- tables" in hint
    assert calls == []


def test_after_an_interruption_one_line_says_how_to_go_on(
    called: Call, calls: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(command: list[str], **settings: Any) -> subprocess.CompletedProcess[str]:
        os.kill(os.getpid(), signal.SIGINT)
        return subprocess.CompletedProcess(command, 1, stdout="")

    monkeypatch.setattr(subprocess, "run", interrupted)
    before = signal.getsignal(signal.SIGINT)
    result = called("run", "--configfile", "mine.yaml")

    assert result.code == 128 + signal.SIGINT
    (line,) = result.err.splitlines()
    assert "the same command goes on" in line
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--cores", "4"], ["--cores", "4"]),
        (["-c2"], ["--cores", "2"]),
        (["--cores", "all"], []),
        (["--profile", "cluster"], ["--elsewhere"]),
        (["--executor", "slurm", "--jobs", "9"], ["--elsewhere"]),
    ],
)
def test_the_check_is_told_where_jobs_will_run(
    called: Call, calls: list[list[str]], words: list[str], told: list[str]
) -> None:
    called("run", "--configfile", "mine.yaml", *words)
    options = calls[0][calls[0].index("--expected") + 2 :]
    assert [word for word in options if word not in ("--configfile", "mine.yaml")] == told


def test_the_page_is_that_of_the_last_file_that_names_an_experiment(
    called: Call, calls: list[list[str]]
) -> None:
    Path("changes.yaml").write_text("seeds: [2]\n", encoding="utf-8")
    page = Path("results/mine/index.html")
    page.parent.mkdir(parents=True)
    page.touch()
    result = called("run", "--configfile", "mine.yaml", "changes.yaml")
    assert f"the page is as it was: {page}" in result.out
