"""A kind of task of one's own, from a package outside the repository, as docs/extending.md says."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pam.data.dataset import Prepared
from pam.data.download import fetch
from pam.data.prepare import prepare
from pam.data.registry import Dataset
from pam.evaluation.records import save
from pam.evaluation.scores import Scores
from pam.evaluation.scoring import Scored, score
from pam.experiments.check import check_experiment
from pam.experiments.fingerprint import closure, entries_of
from pam.experiments.plan import Plan
from pam.reporting import render, tables
from pam.reporting.catalogue import TABLES
from pam.reporting.comparison import Inputs
from pam.runtime.errors import UserError
from pam.tasks import KINDS, TaskKind, find_kind, register
from pam.workflow import JobInputs, ReportFiles, WorkflowFiles
from tests.workflow.checkouts import ROOT, Checkout

NAMED = re.compile(r"`(mylab/[\w/.]+)`:\n\n```\w+\n(.*?)```", flags=re.DOTALL)
PAGE = dict(NAMED.findall((ROOT / "docs/extending.md").read_text(encoding="utf-8")))
EXPERIMENT = """\
experiment: tags
models: [soft]
plugins: [mylab.tagging]
registries: [own/datasets.yaml]
tasks: {tags: {dataset: tags}}
"""
REGISTRY = """\
tags:
  task: tagging
  files: {train.tsv: {path: train.tsv}, dev.tsv: {path: dev.tsv}, test.tsv: {path: test.tsv}}
"""
ROWS = "the dog barks\tdet noun verb\na cat sleeps\tdet noun verb\n"
OUTPUTS = (
    "source\ttarget\tpredicted\n"
    "the dog barks\tdet noun verb\tdet noun noun\n"
    "a cat sleeps\tdet noun verb\tdet noun verb\n"
)


@pytest.fixture
def made(own: Checkout, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checkout]:
    """An experiment on tagging; this process forgets the kind after the test."""
    for name, text in PAGE.items():
        own.write(f"lab/{name}", text)
    for split in ("train", "dev", "test"):
        own.write(f"own/{split}.tsv", ROWS)
    own.write("own/datasets.yaml", REGISTRY)
    own.write("own/experiment.yaml", EXPERIMENT)
    monkeypatch.syspath_prepend(own.folder / "lab")
    yield own

    KINDS.pop("tagging", None)
    for name in [name for name in sys.modules if name.split(".")[0] == "mylab"]:
        del sys.modules[name]


def planned() -> tuple[Plan, dict[str, Dataset]]:
    """Check the experiment as the workflow does."""
    return check_experiment(None, ["own/experiment.yaml"])


def prepared(dataset: Dataset, folder: Path) -> Path:
    """Prepare the data."""
    fetch("tags", dataset, folder / "raw")
    prepare("tags", dataset, folder / "raw", folder / "data")
    return folder / "data"


def scored(data: Path) -> Scores:
    """Score outputs of which five of six tags are right."""
    predictions = data.parent / "predictions.tsv"
    predictions.write_text(OUTPUTS, encoding="utf-8")
    return score(Scored([predictions], [None], data=data))


def test_its_files_are_prepared_scored_and_shown_in_its_table(made: Checkout) -> None:
    plan, datasets = planned()
    data = prepared(datasets["tags"], made.folder / "tags")

    assert Prepared(data).target.symbols == ("det", "noun", "verb")
    assert [tuple(row) for row in Prepared(data).rows("test")] == [
        ("the dog barks", "det noun verb"),
        ("a cat sleeps", "det noun verb"),
    ]

    scores = scored(data)
    assert scores.kind == "tagging"
    assert scores.metrics["tag_accuracy"].value == pytest.approx(100 * 5 / 6)

    identity = {"experiment": "tags", "task": "tags", "model": "soft", "label": "Soft", "seed": 1}
    path = made.folder / "scores.json"
    save(scores.model_copy(update=identity), path)
    table = tables.build("tags", Inputs(plan.experiment, {}, [path]))
    assert "83.33" in render.to_markdown(table)


def test_the_workflow_plans_its_jobs_and_its_report(made: Checkout) -> None:
    plan, datasets = planned()
    files = WorkflowFiles(plan, datasets)
    inputs = JobInputs(plan, datasets, files)

    assert files.kinds == {"tags": "tagging"}
    assert "results/tags/tables/tags.csv" in ReportFiles(plan, files).tables()
    assert "--plugin=mylab.tagging" in inputs._source("tags")


def test_what_computes_its_scores_counts_for_its_jobs_alone(made: Checkout) -> None:
    planned()
    own = closure(entries_of("score", "tagging"))
    other = closure(entries_of("score", "inflection"))

    assert "mylab.tagging.scores" in own and "mylab.tagging.data" not in own
    assert not [name for name in other if name.startswith("mylab")]


def test_a_fault_in_its_files_is_told_with_the_line(made: Checkout) -> None:
    made.write("own/dev.tsv", ROWS + "a dog\tdet\n")
    _, datasets = planned()

    with pytest.raises(UserError, match="tag for each word") as caught:
        prepared(datasets["tags"], made.folder / "tags")
    assert (Path(str(caught.value.file)).name, caught.value.line) == ("dev.tsv", 3)


def test_without_its_plugin_it_is_unknown(made: Checkout) -> None:
    made.edit("own/experiment.yaml", "plugins: [mylab.tagging]\n", "")

    with pytest.raises(UserError, match="unknown kind of task `tagging`"):
        planned()


def test_its_table_goes_where_the_kind_goes(made: Checkout) -> None:
    assert "tags" not in TABLES
    planned()
    assert "tags" in TABLES


def test_a_part_that_does_not_exist_is_refused() -> None:
    kind = find_kind("inflection")
    made_up = TaskKind(
        name="made-up",
        title="",
        purpose="",
        data=kind.data,
        codec=kind.codec,
        counts="nowhere.scores:count",
        metrics=kind.metrics,
    )
    with pytest.raises(UserError, match=r"nowhere\.scores:count"):
        register(made_up)


def test_a_name_that_another_kind_has_is_refused() -> None:
    kind = find_kind("inflection")
    other = TaskKind(
        name="inflection",
        title="Another",
        purpose="",
        data=kind.data,
        codec=kind.codec,
        counts=kind.counts,
        metrics=kind.metrics,
    )
    with pytest.raises(UserError, match="already"):
        register(other)
