"""The first hour of somebody with data of their own: every command as the texts give it, in a fresh
checkout.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pam.api import load
from tests.data.test_own_files import paradigms
from tests.workflow.checkouts import Checkout, Outcome, checkout

pytestmark = pytest.mark.slow


def pam(made: Checkout, *arguments: str) -> Outcome:
    return made.command([sys.executable, "-m", "pam", *arguments])


def test_a_table_in_the_order_of_unimorph_becomes_a_report_and_a_model_that_predicts(
    tmp_path: Path,
) -> None:
    made = checkout(tmp_path / "checkout")
    made.write("my/nouns.tsv", paradigms(60, "lemma form features"))
    described = pam(made, "data", "new", "my/nouns.tsv")
    assert described.code == 0, described.said
    experiment = re.search(r"^experiment: .*?\n\n", described.said, re.MULTILINE | re.DOTALL)
    assert experiment is not None
    made.write("nouns.yaml", experiment[0])
    assert "make run ARGS='--configfile nouns.yaml'" in described.said

    checked = pam(made, "check", "--configfile", "nouns.yaml")
    assert checked.code == 0, checked.said
    assert re.search(r"nouns +postr-joint +1 +\d+\.\d ", checked.said)

    ran = made.command([sys.executable, "workflow/scripts/run.py", "--configfile", "nouns.yaml"])
    assert ran.code == 0, ran.said
    assert "==> in all about " in ran.said
    assert re.search(
        r"^\d+ of \d+ jobs: Training postr-joint on nouns, seed 1.* to go$", ran.said, re.MULTILINE
    )
    assert "localrule" not in ran.said
    assert "==> done: results/nouns/index.html" in ran.said
    for model in ("soft", "postr-joint"):
        scores = json.loads(
            (made.folder / f"results/nouns/nouns/{model}/seed1/scores.json").read_text(
                encoding="utf-8"
            )
        )
        assert scores["metrics"]["accuracy"]["n"] == 18

    made.write("words.tsv", "dspfla\tN,DAT,SG\nkorbae\tN,GEN,SG\n")
    run = ("--run", "results/nouns/nouns/postr-joint/seed1", "--input", "words.tsv")
    predicted = pam(made, "predict", *run, "--out", "forms.txt", "--attention", "attention.svg")
    assert predicted.code == 0, predicted.said
    assert len((made.folder / "forms.txt").read_text(encoding="utf-8").splitlines()) == 2
    assert (made.folder / "attention.svg").is_file()

    # The library reads the run.
    forms = (made.folder / "forms.txt").read_text(encoding="utf-8").splitlines()
    words = (made.folder / "words.tsv").read_text(encoding="utf-8").splitlines()
    assert load(made.folder / run[1]).predict(words) == forms

    # Somebody else opens the exported file, with nothing of the repository but the package.
    sent = tmp_path / "elsewhere/nouns.pam"
    exported = pam(made, "export", *run[:2], "--out", str(sent))
    assert exported.code == 0, exported.said
    (tmp_path / "site").mkdir()
    (tmp_path / "site/pam").symlink_to(made.folder / "pam")
    program = f"import pam; print(*pam.load('nouns.pam').predict({words!r}), sep='\\n')"
    opened = subprocess.run(
        [sys.executable, "-c", program],
        cwd=sent.parent,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site"), "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert opened.stdout.splitlines() == forms

    assert len(pam(made, "predict", *run, "--n-best", "2", "--beam", "2").said.splitlines()) == 2
