"""The workflow from another folder, and as a module of somebody's own: what that folder lacks is
the workflow's.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.workflow.checkouts import Checkout, Outcome

TRAINED = "results/tiny/nouns/mono-postr-joint/seed1"
MODULE = """\
configfile: "mine.yaml"


module pam:
    snakefile:
        "{folder}/Snakefile"
    config:
        config["pam"]


use rule * from pam as pam_*


rule mine:
    default_target: True
    input:
        "results/tiny/report.html",
        "results/tiny/tables/table2.csv",
    output:
        "mine.csv",
    shell:
        "cp {{input[1]}} {{output}}"
"""


@pytest.fixture
def elsewhere(fresh: Checkout, tmp_path: Path) -> Checkout:
    """An empty folder beside the checkout."""
    (tmp_path / "elsewhere").mkdir()
    return Checkout(tmp_path / "elsewhere")


def section(fresh: Checkout) -> str:
    """Return the experiment of `fresh` as a section of a configuration."""
    text = (fresh.folder / "own/experiment.yaml").read_text(encoding="utf-8")

    return "theirs: 1\npam:\n" + "".join(f"  {line}\n" for line in text.splitlines())


@pytest.mark.slow
def test_a_module_trains_and_scores_in_its_users_folder_with_the_same_weights(
    fresh: Checkout, elsewhere: Checkout, ran: tuple[Checkout, Outcome]
) -> None:
    elsewhere.write("Snakefile", MODULE.format(folder=fresh.folder))
    fresh.edit("own/experiment.yaml", "[soft, mono-postr-joint]", "[mono-postr-joint]")
    text = section(fresh).replace("own/datasets.yaml", f"{fresh.folder}/own/datasets.yaml")
    elsewhere.write("mine.yaml", text)
    before = {path for path in fresh.folder.rglob("*") if "__pycache__" not in path.parts}

    outcome = elsewhere.run("results/tiny/tables/table2.csv")

    assert outcome.code == 0, outcome.said
    table = elsewhere.folder / "results/tiny/tables/table2.md"
    assert "Mono-Postr-Joint" in table.read_text(encoding="utf-8")
    after = {path for path in fresh.folder.rglob("*") if "__pycache__" not in path.parts}
    assert after == before
    # The other run trained another model at the same time.
    weights = f"{TRAINED}/model/weights.safetensors"
    assert (elsewhere.folder / weights).read_bytes() == (ran[0].folder / weights).read_bytes()


@pytest.mark.slow
def test_a_module_writes_the_report_in_its_users_folder(
    fresh: Checkout, elsewhere: Checkout, ran: tuple[Checkout, Outcome]
) -> None:
    # With `config`: jobs have the paths of registries and of the papers' figures.
    for name in ("results", "data", "own", "config", ".snakemake"):
        shutil.copytree(ran[0].folder / name, elsewhere.folder / name)
    (elsewhere.folder / "results/tiny/report.html").unlink()
    elsewhere.write("Snakefile", MODULE.format(folder=fresh.folder))
    elsewhere.write("mine.yaml", section(fresh))

    outcome = elsewhere.run()

    assert outcome.code == 0, outcome.said
    assert outcome.jobs == {"pam_write_report": 1, "mine": 1}
    assert (elsewhere.folder / "results/tiny/report.html").stat().st_size > 0
    assert (elsewhere.folder / "mine.csv").is_file()
    assert "Nothing to be done" in elsewhere.plan().said


def test_a_module_without_configuration_is_the_default_experiment(
    fresh: Checkout, elsewhere: Checkout
) -> None:
    module = f'module pam:\n    snakefile: "{fresh.folder}/Snakefile"\nuse rule * from pam\n'
    elsewhere.write("Snakefile", module)
    fresh.edit("config/config.yaml", "seeds: [1]", "seeds: [1, 2]")
    outcome = elsewhere.plan()

    assert outcome.code == 0, outcome.said
    assert outcome.jobs["train_run"] == 10

    elsewhere.write(
        "config/config.yaml",
        "experiment: own\nmodels: [soft]\ntasks: {nouns: {dataset: de-noun}}\n",
    )

    assert elsewhere.plan().jobs["train_run"] == 1


@pytest.mark.parametrize("key", ['prefix: "out"', 'replace_prefix: {"results/": "out/"}'])
def test_a_prefix_of_a_module_is_refused_before_any_work(
    fresh: Checkout, elsewhere: Checkout, key: str
) -> None:
    module = (
        f'module pam:\n    snakefile: "{fresh.folder}/Snakefile"\n    {key}\nuse rule * from pam\n'
    )
    elsewhere.write("Snakefile", module)
    outcome = elsewhere.plan()

    assert outcome.code != 0
    assert (
        "a module's `prefix` or `replace_prefix` cannot move the files of this workflow"
        in outcome.said
    )
    assert "leave it out" in outcome.said


def test_the_folder_of_work_may_be_any(fresh: Checkout, elsewhere: Checkout) -> None:
    snakefile = str(fresh.folder / "Snakefile")
    outcome = elsewhere.plan("--snakefile", snakefile)

    assert outcome.code == 0, outcome.said
    assert outcome.jobs["train_run"] == 8

    theirs = Checkout((fresh.folder / "own").rename(elsewhere.folder.parent / "theirs"))
    called = ["data", "--snakefile", snakefile, "--directory", str(elsewhere.folder)]
    called += ["--configfile", "experiment.yaml"]

    # `own/datasets.yaml` is neither in the folder of work nor beside the experiment.
    assert "own/datasets.yaml: no such file" in theirs.plan(*called).said

    theirs.edit("experiment.yaml", "own/datasets.yaml", "datasets.yaml")
    outcome = theirs.run(*called)

    assert outcome.code == 0, outcome.said
    assert (elsewhere.folder / "results/tiny/nouns/data/summary.json").is_file()
    assert not (fresh.folder / "results").exists()


def test_models_and_registries_of_ones_own_go_before_the_workflows(
    fresh: Checkout, elsewhere: Checkout
) -> None:
    elsewhere.write("config/models/soft.yaml", "label: Mine\nscore: dot\n")
    elsewhere.write("config/models/new.yaml", "label: New\n")
    elsewhere.write(
        "e.yaml", "experiment: e\nmodels: [soft, new, hard]\ntasks: {nouns: {dataset: de-noun}}\n"
    )
    called = ["--snakefile", str(fresh.folder / "Snakefile"), "--configfile", "e.yaml"]
    config = "results/e/nouns/soft/seed1/run.yaml"

    assert elsewhere.run(config, *called).code == 0
    assert "label: Mine" in (elsewhere.folder / config).read_text(encoding="utf-8")

    elsewhere.edit("e.yaml", "hard]", "hrad]")
    outcome = elsewhere.plan(*called)

    assert "e.yaml:2: unknown model `hrad`" in outcome.said
    assert "did you mean `hard`?" in outcome.said
    assert "new, " in outcome.said
    assert str(elsewhere.folder / "e.yaml") not in outcome.said.partition("error: ")[2]


def test_files_that_the_workflow_fetched_before_are_not_fetched_again(
    fresh: Checkout, elsewhere: Checkout
) -> None:
    (fresh.folder / "data/asked/").mkdir(parents=True)
    registry = (
        "asked: {task: inflection, obtain: ask for it, files: {train.tsv: {}, dev.tsv: {},"
        " test.tsv: {}}}\n"
    )
    for split in ("train", "dev", "test"):
        (fresh.folder / f"own/{split}.tsv").rename(fresh.folder / f"data/asked/{split}.tsv")

    elsewhere.write("datasets.yaml", registry)
    elsewhere.write(
        "e.yaml",
        "experiment: e\nmodels: [soft]\ntasks: {t: {dataset: asked}}\nregistries:"
        " [datasets.yaml]\n",
    )
    outcome = elsewhere.run(
        "data", "--snakefile", str(fresh.folder / "Snakefile"), "--configfile", "e.yaml"
    )

    assert outcome.code == 0, outcome.said
    assert (elsewhere.folder / "results/e/t/data/summary.json").is_file()
