"""The first hour of somebody with data of their own: every command as the texts give it, in a fresh
checkout.

That the same command goes on to the page is tested in test_whole.py.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from pam.library.api import load
from tests.data.test_own_files import paradigms
from tests.workflow.checkouts import Checkout, Outcome, checkout

pytestmark = pytest.mark.slow

RUN = "results/nouns/nouns/postr-joint/seed1"


def pam(made: Checkout, *arguments: str) -> Outcome:
    return made.command([sys.executable, "-m", "pam", *arguments])


def read(made: Checkout, file: str) -> str:
    return (made.folder / file).read_text(encoding="utf-8")


def test_a_table_in_the_order_of_unimorph_becomes_scores_and_a_model_that_predicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = checkout(tmp_path / "checkout")
    made.write("my/nouns.tsv", paradigms(60, "lemma form features"))

    described = pam(made, "data", "new", "my/nouns.tsv")
    assert described.code == 0, described.said
    assert "pam run --configfile nouns.yaml" in described.said
    experiment = re.search(r"^experiment: .*?\n\n", described.said, re.MULTILINE | re.DOTALL)
    assert experiment is not None
    made.write("nouns.yaml", experiment[0])

    checked = pam(made, "check", "--configfile", "nouns.yaml")
    assert checked.code == 0, checked.said
    assert re.search(r"nouns +postr-joint +1 +\d+\.\d ", checked.said)

    door = [sys.executable, "-m", "pam", "run", f"{RUN}/scores.json"]
    ran = made.command([*door, "--configfile", "nouns.yaml"])
    assert ran.code == 0, ran.said
    assert json.loads(read(made, f"{RUN}/scores.json"))["metrics"]["accuracy"]["n"] == 18

    words = ["dspfla\tN,DAT,SG", "korbae\tN,GEN,SG"]
    made.write("words.tsv", "".join(f"{word}\n" for word in words))
    predict = ["predict", "--run", RUN, "--input", "words.tsv"]
    predicted = pam(made, *predict, "--out", "forms.txt", "--attention", "attention.svg")
    assert predicted.code == 0, predicted.said
    forms = read(made, "forms.txt").splitlines()
    assert len(forms) == 2
    assert (made.folder / "attention.svg").is_file()
    assert len(pam(made, *predict, "--n-best", "2", "--beam", "2").said.splitlines()) == 2

    # The library reads the run.
    assert load(made.folder / RUN).predict(words) == forms

    # Somebody else opens the exported file, in a folder with nothing else.
    exported = pam(made, "export", "--run", RUN, "--out", str(tmp_path / "elsewhere/nouns.pam"))
    assert exported.code == 0, exported.said
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load("nouns.pam").predict(words) == forms
