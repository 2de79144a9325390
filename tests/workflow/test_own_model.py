"""A model of one's own, made by doing what docs/models.md says."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from tests.workflow.checkouts import ROOT, checkout, with_own_data

pytestmark = pytest.mark.slow

NAMED = re.compile(r"`([\w/.-]+)`:\n\n```\w+\n(.*?)```", flags=re.DOTALL)
"""A file that the page shows: its name at the end of a line, then its text."""


def test_a_score_in_one_file_and_five_lines_of_yaml_are_a_model(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    files = dict(NAMED.findall(page))
    assert list(files) == ["pam/models/scores/cosine.py", "config/models/cosine-postr-joint.yaml"]
    assert files["config/models/cosine-postr-joint.yaml"].count("\n") == 5
    made = with_own_data(checkout(tmp_path / "mine"))
    for name, text in files.items():
        made.write(name, text)
    made.edit("own/experiment.yaml", "[soft, mono-postr-joint]", "[soft, cosine-postr-joint]")
    table = "results/tiny/tables/costs.csv"
    outcome = made.run(table, "--configfile", "own/experiment.yaml")
    assert outcome.code == 0, outcome.said
    with open(made.folder / table, encoding="utf-8") as file:
        labels = [row["model"] for row in csv.DictReader(file)]
    assert labels == ["soft", "cosine-postr-joint"]
    made.edit("config/models/cosine-postr-joint.yaml", "scale: 8", "scales: 8")
    wrong = made.plan(table, "--configfile", "own/experiment.yaml")
    assert wrong.code != 0
    assert "unknown option of score `cosine` `scales`" in wrong.said
    assert "did you mean `scale`?" in wrong.said
