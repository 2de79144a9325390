"""Models of one's own: as docs/models.md says, and from a package outside the repository."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from tests.workflow.checkouts import ROOT, Checkout, checkout, with_own_data

pytestmark = pytest.mark.slow

NAMED = re.compile(r"`([\w/.-]+)`:\n\n```\w+\n(.*?)```", flags=re.DOTALL)
"""A file that the page shows: its name at the end of a line, then its text."""

OWN = ("--configfile", "own/experiment.yaml")
TABLE = "results/tiny/tables/costs.csv"
LAB = {
    "mylab/__init__.py": "",
    "mylab/attention.py": '''
from typing import Literal

from pydantic import Field

from pam.models import options


class Sharp(options.Options):
    """The general score, sharpened."""

    kind: Literal["sharp"] = "sharp"
    implementation = "mylab.sharp:SharpScore"
    scale: bool = False
    sharpness: float = Field(2.0, gt=0, description="what scores are multiplied with")


options.register("score", Sharp)
''',
    "mylab/sharp.py": '''
from pam.models.scores import General


class SharpScore(General):
    """e_t(a) = sharpness * s_t W h_a."""

    def __init__(self, options, sizes):
        super().__init__(options, sizes)
        self.sharpness = options.sharpness

    def forward(self, *inputs):
        return self.sharpness * super().forward(*inputs)
''',
}
SHARP = "label: Sharp\nscore:\n  kind: sharp\n  sharpness: 3.0\n"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A folder with a package of somebody's own, which is not in the repository."""
    for name, text in LAB.items():
        path = tmp_path / "lab" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "lab"


@pytest.fixture
def mine(tmp_path: Path) -> Checkout:
    """A checkout with an experiment that uses that package."""
    made = with_own_data(checkout(tmp_path / "mine"))
    made.write("config/models/sharp.yaml", SHARP)
    made.edit("own/experiment.yaml", "mono-postr-joint]", "sharp]\nplugins: [mylab.attention]")
    return made


def trained(made: Checkout) -> list[str]:
    """The models in the table of costs."""
    with open(made.folder / TABLE, encoding="utf-8") as file:
        return [row["model"] for row in csv.DictReader(file)]


def test_what_the_page_shows_is_a_model(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    files = dict(NAMED.findall(page))
    model = "config/models/cosine-postr-joint.yaml"
    assert model in files and any(name.endswith(".py") for name in files)
    made = with_own_data(checkout(tmp_path / "mine"))
    for name, text in files.items():
        made.write(name, text)
    modules = [
        name.removesuffix(".py").replace("/", ".")
        for name, text in files.items()
        if "register(" in text
    ]
    made.edit(
        "own/experiment.yaml",
        "[soft, mono-postr-joint]",
        f"[soft, cosine-postr-joint]\nplugins: [{', '.join(modules)}]",
    )
    path = str(made.folder)
    outcome = made.run(TABLE, *OWN, PYTHONPATH=path)
    assert outcome.code == 0, outcome.said
    assert trained(made) == ["soft", "cosine-postr-joint"]
    made.edit(model, "scale: 8", "scales: 8")
    wrong = made.plan(TABLE, *OWN, PYTHONPATH=path)
    assert wrong.code != 0
    assert "unknown option of score `cosine` `scales`" in wrong.said
    assert "did you mean `scale`?" in wrong.said


def test_a_dry_run_knows_a_kind_from_elsewhere(mine: Checkout, lab: Path) -> None:
    outcome = mine.plan(TABLE, *OWN, PYTHONPATH=str(lab))
    assert outcome.code == 0, outcome.said
    assert outcome.trained == {"soft on nouns, seed 1", "sharp on nouns, seed 1"}


@pytest.mark.parametrize(
    ("file", "old", "new", "messages"),
    [
        (
            "config/models/sharp.yaml",
            "sharpness",
            "sharpnes",
            ("sharp.yaml:4: unknown option of score `sharp` `sharpnes`", "mean `sharpness`?"),
        ),
        (
            "config/models/sharp.yaml",
            "3.0",
            "-1",
            ("sharp.yaml:4: `score.sharpness`: input should be greater than 0", "correct the"),
        ),
        (
            "config/models/sharp.yaml",
            "kind: sharp",
            "kind: shrap",
            ("sharp.yaml:3: unknown score `shrap`", "did you mean `sharp`?"),
        ),
        (
            "own/experiment.yaml",
            "device:",
            "options: {score: {sharp: {sharpnes: 1}}}\ndevice:",
            ("own/experiment.yaml:9: unknown option of score `sharp` `sharpnes`", "`sharpness`?"),
        ),
        (
            "own/experiment.yaml",
            "mylab.attention",
            "mylab.atention",
            ("own/experiment.yaml:5: no module `mylab.atention`", "PYTHONPATH"),
        ),
        (
            "own/experiment.yaml",
            "mylab.attention",
            "mylab.attention; import os",
            ("own/experiment.yaml:5: `plugins.0`: string should match pattern", "correct the"),
        ),
    ],
)
def test_a_mistake_with_a_kind_from_elsewhere_ends_a_dry_run(
    mine: Checkout, lab: Path, file: str, old: str, new: str, messages: tuple[str, ...]
) -> None:
    mine.edit(file, old, new)
    outcome = mine.plan(*OWN, PYTHONPATH=str(lab))
    assert outcome.code != 0
    for message in messages:
        assert message in outcome.said
    assert outcome.said.count("error: ") == 1 and "Traceback" not in outcome.said


def test_a_plugin_that_cannot_be_imported_ends_a_dry_run(mine: Checkout, lab: Path) -> None:
    with open(lab / "mylab/attention.py", "a", encoding="utf-8") as file:
        file.write("\n1 / 0\n")
    outcome = mine.plan(*OWN, PYTHONPATH=str(lab))
    assert outcome.code != 0
    assert "`mylab.attention` cannot be imported: ZeroDivisionError" in outcome.said
    assert outcome.said.count("error: ") == 1 and "Traceback" not in outcome.said


def test_a_kind_from_elsewhere_is_trained_and_its_code_counts(mine: Checkout, lab: Path) -> None:
    outcome = mine.run(TABLE, *OWN, PYTHONPATH=str(lab))
    assert outcome.code == 0, outcome.said
    assert trained(mine) == ["soft", "sharp"]
    assert "Nothing to be done" in mine.plan(TABLE, *OWN, PYTHONPATH=str(lab)).said
    with open(lab / "mylab/sharp.py", "a", encoding="utf-8") as file:
        file.write("\nNEW = 1\n")
    again = mine.plan(TABLE, *OWN, PYTHONPATH=str(lab))
    assert again.trained == {"sharp on nouns, seed 1"}, again.said
