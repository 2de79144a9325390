"""Models of one's own: as docs/models.md says, and from a package outside the repository.

That they are trained is tested in test_special_models.py.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pam.experiments.loading import load_plan
from pam.models.options import COMPONENTS
from tests.workflow.checkouts import ROOT, Checkout
from tests.workflow.conftest import refusal

NAMED = re.compile(r"`([\w/.-]+)`:\n\n```\w+\n(.*?)```", flags=re.DOTALL)
"""A file that the page shows: its name at the end of a line, then its text."""

PAGE = dict(NAMED.findall((ROOT / "docs/models.md").read_text(encoding="utf-8")))
LAB = {
    "ourlab/__init__.py": "",
    "ourlab/attention.py": '''
from typing import Literal

from pydantic import Field

from pam.models import options


class Sharp(options.Options):
    """The general score, sharpened."""

    kind: Literal["sharp"] = "sharp"
    implementation = "ourlab.sharp:SharpScore"
    scale: bool = False
    sharpness: float = Field(2.0, gt=0, description="what scores are multiplied with")


options.register("score", Sharp)
''',
    "ourlab/sharp.py": '''
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


def write_lab(folder: Path) -> Path:
    """Write a package of somebody's own, which is not in the repository."""
    for name, text in LAB.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    return folder


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """The folder with that package."""
    return write_lab(tmp_path / "lab")


@pytest.fixture
def mine(own: Checkout, lab: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checkout]:
    """An experiment that uses that package; this process forgets it after the test."""
    monkeypatch.setitem(COMPONENTS, "score", dict(COMPONENTS["score"]))
    monkeypatch.syspath_prepend(lab)
    own.write("config/models/sharp.yaml", SHARP)
    own.edit("own/experiment.yaml", "mono-postr-joint]", "sharp]\nplugins: [ourlab.attention]")
    yield own

    for name in [name for name in sys.modules if name.split(".")[0] in ("ourlab", "mylab")]:
        del sys.modules[name]


def test_a_kind_from_elsewhere_is_one_of_the_experiment(mine: Checkout) -> None:
    run = load_plan(files=["own/experiment.yaml"]).run("nouns", "sharp", 1)
    assert (run.components.score.kind, run.components.score.sharpness) == ("sharp", 3.0)
    assert run.plugins == ["ourlab.attention"]


def test_a_wrong_option_of_the_pages_kind_is_named(mine: Checkout) -> None:
    for name, text in PAGE.items():
        mine.write(name, text)
    sys.path.insert(0, str(mine.folder))  # the fixture's monkeypatch puts the path back
    model = "config/models/cosine-postr-joint.yaml"
    mine.edit("own/experiment.yaml", "sharp]", "cosine-postr-joint]")
    mine.edit("own/experiment.yaml", "ourlab.attention", "mylab.attention")
    load_plan(files=["own/experiment.yaml"])

    mine.edit(model, "scale: 8", "scales: 8")
    message = refusal()

    assert "unknown option of score `cosine` `scales`" in message
    assert "did you mean `scale`?" in message


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
            "ourlab.attention",
            "ourlab.atention",
            ("own/experiment.yaml:5: no module `ourlab.atention`", "PYTHONPATH"),
        ),
        (
            "own/experiment.yaml",
            "ourlab.attention",
            "ourlab.attention; import os",
            ("own/experiment.yaml:5: `plugins.0`: string should match pattern", "correct the"),
        ),
    ],
)
def test_a_mistake_with_a_kind_from_elsewhere_ends_the_run_before_it_starts(
    mine: Checkout, file: str, old: str, new: str, messages: tuple[str, ...]
) -> None:
    mine.edit(file, old, new)
    error = refusal()
    for message in messages:
        assert message in error


def test_a_plugin_that_cannot_be_imported_ends_the_run_before_it_starts(
    mine: Checkout, lab: Path
) -> None:
    with open(lab / "ourlab/attention.py", "a", encoding="utf-8") as file:
        file.write("\n1 / 0\n")

    assert "`ourlab.attention` cannot be imported: ZeroDivisionError" in refusal()
