"""What the rules ask of an experiment, without Snakemake."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from pam.data.prepare import DESCRIPTION
from pam.data.registry import Dataset
from pam.experiments import fingerprint, jobs
from pam.experiments.check import check_experiment
from pam.experiments.plan import Plan
from pam.experiments.run_folder import RunFolder
from pam.reporting.catalogue import DRAWINGS, FIGURES
from pam.runtime import gpus
from pam.runtime.errors import UserError
from pam.runtime.snakemake_internals import CommandLine, PlannedJob
from pam.tasks import KINDS
from pam.workflow import (
    JobInputs,
    JobResources,
    ReportFiles,
    WorkflowFiles,
    input_folder,
    input_folders,
    output_folder,
    settings,
    untracked,
)
from tests.workflow.checkouts import EXPERIMENT, PAIRS, REGISTRY, ROOT, TRANSLATION

SOFT = "results/tiny/nouns/soft/seed1"


@dataclass(frozen=True)
class Workflow:
    """What the rules ask of an experiment."""

    plan: Plan
    files: WorkflowFiles
    inputs: JobInputs
    report: ReportFiles
    datasets: dict[str, Dataset]


def job(**wildcards: str) -> SimpleNamespace:
    """Wildcards as Snakemake hands them over."""
    return SimpleNamespace(**wildcards)


def made(folder: Path, experiment: str, registry: str, **changes: Any) -> Workflow:
    """The workflow of an experiment on made-up data, with some of its keys changed."""
    names = {file.name for text in (PAIRS, REGISTRY) for file in map(Path, _paths(text))}
    for name in names:
        (folder / name).touch()

    (folder / "own.yaml").write_text(registry, encoding="utf-8")
    config = yaml.safe_load(experiment) | {"registries": [str(folder / "own.yaml")]} | changes
    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    plan, datasets = check_experiment(config, [str(file)])
    files = WorkflowFiles(plan, datasets)

    return Workflow(
        plan=plan,
        files=files,
        inputs=JobInputs(plan, datasets, files),
        report=ReportFiles(plan, files),
        datasets=datasets,
    )


def _paths(registry: str) -> list[str]:
    entries = yaml.safe_load(registry).values()
    return [file["path"] for entry in entries for file in entry["files"].values()]


@pytest.fixture
def nouns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workflow:
    monkeypatch.chdir(ROOT)
    return made(tmp_path, EXPERIMENT, REGISTRY)


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workflow:
    monkeypatch.chdir(ROOT)
    return made(tmp_path, TRANSLATION, PAIRS)


def test_reading_it_does_not_wait_for_torch() -> None:
    code = "import sys, pam.workflow; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout == "False\n"


def test_every_command_that_makes_a_file_has_its_code(nouns: Workflow) -> None:
    kinds = {
        "score": list(KINDS),
        "control": [kind.name for kind in KINDS.values() if kind.controls],
        "figures": list(DRAWINGS),
    }
    for command, names in kinds.items():
        assert len({nouns.inputs.code(command, kind) for kind in names}) == len(names)

    assert {item.draws for item in FIGURES.values()} <= DRAWINGS.keys()
    assert len({nouns.inputs.code(command) for command in fingerprint.CODE}) == len(
        fingerprint.CODE
    )
    assert nouns.inputs.code("score", "inflection") != nouns.inputs.code("score", "translation")


def test_files_are_named_after_the_experiment(nouns: Workflow) -> None:
    assert nouns.files.report == "results/tiny/report.html"
    assert nouns.files.page == "results/tiny/index.html"
    assert str(nouns.files.run.config_file) == "results/tiny/{task}/{model}/seed{seed}/run.yaml"
    assert nouns.files.of_tasks("summary.json") == ["results/tiny/nouns/data/summary.json"]
    assert nouns.files.of_runs("scores.json") == [
        f"results/tiny/nouns/{model}/seed1/scores.json" for model in ("soft", "mono-postr-joint")
    ]
    assert nouns.files.prepared("dev")[-1] == "results/tiny/{task}/data/dev.safetensors"
    assert nouns.files.gold_summaries() == []


def test_a_runs_folder_says_where_each_command_finds_and_leaves_its_files() -> None:
    run = RunFolder(Path(SOFT))

    assert str(run.data()) == "results/tiny/nouns/data"
    assert str(run.data("gold")) == "results/tiny/nouns/gold"
    assert str(run.member("hard").model) == "results/tiny/nouns/hard/seed1/model"
    assert str(run.predictions("test", 4)) == f"{SOFT}/beam4/predictions.tsv"
    assert str(run.decoding("dev")) == f"{SOFT}/dev/decoding.json"

    scores = [str(run.scores(split)) for split in ("test", "dev", "gold")]
    assert scores == [f"{SOFT}/{name}scores.json" for name in ("", "dev/", "gold_")]


def test_a_folder_without_a_configuration_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"run\.yaml: no such file"):
        RunFolder(tmp_path).load()


def test_what_decides_a_training_is_told_from_what_does_not(nouns: Workflow) -> None:
    soft = job(task="nouns", model="soft", seed="1")

    assert yaml.safe_load(nouns.inputs.run_text()(soft))["label"] == "Soft"
    assert "label" not in nouns.inputs.training_config()(soft)
    assert nouns.inputs.training_config()(soft) != nouns.inputs.training_config()(
        job(task="nouns", model="soft", seed="2")
    )
    assert not {"beam", "beams", "dev"} & nouns.inputs.decoding()(soft).keys()
    where = {"device", "resources", "jobs_per_gpu"}
    assert not where & yaml.safe_load(nouns.inputs.experiment_text()(job())).keys()


def parameters(workflow: Workflow, model: str) -> dict[str, Any]:
    """Return what decides whether a run is trained, decoded and analyzed again."""
    run = job(task="nouns", model=model, seed="1")
    inputs = workflow.inputs

    return {
        "training": (inputs.run_code("train")(run), inputs.training_config()(run)),
        "decoding": (inputs.run_code("predict")(run), inputs.decoding()(run)),
        "outputs": inputs.outputs_by_beam("predictions.tsv")(run),
        "analysis": (inputs.run_code("analyze")(run), inputs.batch_size()(run)),
    }


def changed_by(nouns: Workflow, folder: Path, model: str, **changes: Any) -> set[str]:
    """Return which parameters of a run a change of the experiment changes."""
    before = parameters(nouns, model)
    after = parameters(made(folder, EXPERIMENT, REGISTRY, **changes), model)
    return {name for name in before if after[name] != before[name]}


@pytest.mark.parametrize(
    ("decoding", "changed"),
    [
        ({"beam": 2}, {"outputs"}),
        ({"beams": [3]}, {"outputs"}),
        ({"length_penalty": 0.6}, {"decoding"}),
        ({"batch_size": 8}, {"decoding", "analysis"}),
        ({"temperature": 0.5}, {"decoding"}),
    ],
)
def test_another_search_decodes_again_and_trains_nothing(
    nouns: Workflow, tmp_path: Path, decoding: dict[str, Any], changed: set[str]
) -> None:
    assert changed_by(nouns, tmp_path, "soft", decoding=decoding) == changed


LIMITS = [
    {"max_ratio": 2.0},
    {"max_extra": 20},
    {"max_length": 50},
    {"min_length": 1},
    {"no_repeat_ngram_size": 4},
]


@pytest.mark.parametrize("limit", LIMITS)
def test_limits_of_decoding_are_part_of_a_training_that_chooses_its_epoch_by_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: dict[str, Any]
) -> None:
    monkeypatch.chdir(ROOT)
    decided = {"accuracy": {"decoding", "training"}, "loss": {"decoding"}, "last": {"decoding"}}
    for select, changed in decided.items():
        training = {"epochs": 1, "select": select}
        before = made(tmp_path, EXPERIMENT, REGISTRY, training=training)
        other = {"training": training, "decoding": limit}
        assert changed_by(before, tmp_path, "soft", **other) == changed


def test_options_of_components_train_the_models_that_use_them(
    nouns: Workflow, tmp_path: Path
) -> None:
    options = {"marginalization": {"output": {"top_k": 3}}}
    assert changed_by(nouns, tmp_path, "mono-postr-joint", options=options) == {"training"}
    assert changed_by(nouns, tmp_path, "soft", options=options) == set()


def test_a_changed_model_file_retrains_that_model(
    nouns: Workflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "config/models/mono-postr-joint.yaml").read_text(encoding="utf-8")
    assert "coupling: monotone" in text
    changed = text.replace("coupling: monotone", "coupling: {kind: monotone, first: before}")
    file = tmp_path / "config/models/mono-postr-joint.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(changed, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    assert changed_by(nouns, tmp_path, "mono-postr-joint") == {"training"}
    assert changed_by(nouns, tmp_path, "soft") == set()


def test_models_have_the_code_of_their_components(nouns: Workflow) -> None:
    soft, mono, other = (
        job(task="nouns", model=model, seed=seed)
        for model, seed in (("soft", "1"), ("mono-postr-joint", "1"), ("soft", "2"))
    )
    train = nouns.inputs.run_code("train")

    assert train(soft) == train(other) != train(mono)
    assert train(soft) != nouns.inputs.run_code("predict")(soft)


def test_a_model_that_is_not_there_ends_the_process_with_one_message(nouns: Workflow) -> None:
    with pytest.raises(SystemExit, match="error: unknown model `sofd`"):
        nouns.inputs.run_text()(job(task="nouns", model="sofd", seed="1"))
    with pytest.raises(SystemExit, match="error: unknown task `verbs`"):
        JobResources(nouns.plan).amount("mem_mb")(job(task="verbs"))


def test_stages_are_made_from_those_before_them(nouns: Workflow, pairs: Workflow) -> None:
    task = job(task="pairs")

    assert pairs.inputs.last_stage()(task) == "index"
    (mark,) = pairs.inputs.before_stage("extract")(task)
    assert re.fullmatch(r"data/pairs-[0-9a-f]{8}/\.fetched", mark)

    folder = "results/translated/pairs/data"
    assert pairs.inputs.before_stage("segment")(task) == [f"{folder}/extract", f"{folder}/tokenize"]
    assert len(pairs.inputs.before_stage()(task)) == 3
    # Of nouns the last stage is the first.
    (mark,) = nouns.inputs.before_stage()(job(task="nouns"))
    assert mark.startswith("data/small-")
    assert {"format", "files"} <= nouns.inputs.stage_options()(job(task="nouns")).keys()
    assert pairs.inputs.stage_options()(task).keys() == {"format", *DESCRIPTION}

    codes = {
        pairs.inputs.stage_code(name)(task) for name in ("extract", "tokenize", "segment", None)
    }

    assert len(codes) == 4


def test_data_are_prepared_again_where_symbols_are_to_be_added_and_only_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    tuned = {"tuned": {"from": "soft", "init_from": "pretrained:nouns/soft"}}
    options = []
    for format_keys in ({}, {"add_symbols": False}, {"add_symbols": True}):
        tasks = {"nouns": {"dataset": "small", "format": format_keys}}
        flow = made(tmp_path, EXPERIMENT, REGISTRY, models=["soft", tuned], tasks=tasks)
        options.append(flow.inputs.stage_options()(job(task="nouns")))

    without, off, on = options
    assert without == off
    assert "add_symbols" not in without["format"]
    assert on["format"] == without["format"] | {"add_symbols": True}


def test_a_tasks_own_format_is_an_argument(pairs: Workflow) -> None:
    format_of_task = json.loads(untracked(pairs.inputs.format_text())(job(task="yy-xx"), None))

    assert format_of_task == {"source": "yy", "target": "xx"}
    assert pairs.inputs.dataset()(job(task="yy-xx")) == "pairs"
    assert pairs.inputs.gold_dataset()(job(task="pairs")) == "links"


def test_files_of_ones_own_are_what_a_data_set_is_fetched_from(
    nouns: Workflow, tmp_path: Path
) -> None:
    def source() -> list[str]:
        return JobInputs(nouns.plan, nouns.datasets, nouns.files).fetched_source()(
            job(task="nouns")
        )

    before = source()
    assert re.search(r"^--raw=data/small-[0-9a-f]{8}$", before[-1])
    assert all(name in before[1] for name in ("dev.tsv", "test.tsv", "train.tsv"))

    (tmp_path / "dev.tsv").write_text("changed", encoding="utf-8")
    assert before[:1] == source()[:1] and before[1:] != source()[1:]

    (tmp_path / "dev.tsv").unlink()
    with pytest.raises(SystemExit, match="data set `small`: no such file"):
        source()


def test_a_forced_training_is_asked_for_again_where_it_has_ended_before(
    nouns: Workflow, tmp_path: Path
) -> None:
    files = WorkflowFiles(nouns.plan, nouns.datasets, tmp_path / "results")
    runs = [files.run_of("nouns", model, 1) for model in ("soft", "mono-postr-joint")]
    (runs[0].path / "state/finished").mkdir(parents=True)

    def planned(*, forced: bool) -> list[PlannedJob]:
        wildcards = [
            {"task": "nouns", "model": name, "seed": "1"} for name in nouns.plan.components
        ]
        return [PlannedJob("train_run", each, True, is_forced=forced) for each in wildcards]

    files.ask_again(planned(forced=False))
    assert not runs[0].asked_again.exists()

    files.ask_again(planned(forced=True))
    assert [run.asked_again.exists() for run in runs] == [True, False]


def test_the_folder_of_other_files_than_those_of_the_registry_is_not_fetched(
    nouns: Workflow,
) -> None:
    folder = nouns.inputs.fetched_folder()
    with pytest.raises(SystemExit, match="ask for data/small-") as caught:
        folder(job(dataset="small", content="01234567"))

    content = str(caught.value).rpartition("-")[2]
    assert folder(job(dataset="small", content=content)) == f"data/small-{content}"


def test_outputs_of_every_beam_are_scored_with_the_analysis_that_the_kind_needs(
    nouns: Workflow, pairs: Workflow
) -> None:
    run = job(task="pairs", model="soft", seed="1")
    folder = "results/translated/pairs/soft/seed1"

    assert pairs.inputs.main_beam()(run) == 2

    expected = [f"{folder}/beam{beam}/decoding.json" for beam in (2, 1)]
    assert pairs.inputs.outputs_by_beam("decoding.json")(run) == expected
    assert pairs.inputs.analysis()(run) == [f"{folder}/analysis.json"]
    assert nouns.inputs.analysis()(job(task="nouns", model="soft", seed="1")) == []


def test_models_are_compared_with_the_baseline_where_it_is_run(pairs: Workflow) -> None:
    where = job(task="pairs", seed="1")

    assert pairs.files.compared("pairs", 1) == pairs.files.posterior("pairs", 1) == ["postr-joint"]
    assert pairs.files.compared("yy-xx", 1) == pairs.files.posterior("yy-xx", 1) == []

    folder = "results/translated/pairs/postr-joint/seed1"
    files = pairs.inputs.of_models(pairs.files.compared, "run.yaml", "beam{beam}/predictions.tsv")(
        where
    )

    assert files == [f"{folder}/run.yaml", f"{folder}/beam2/predictions.tsv"]
    assert pairs.inputs.of_models(pairs.files.posterior, "attention.json")(where) == [
        f"{folder}/attention.json"
    ]
    assert pairs.inputs.of_models(pairs.files.baseline, "run.yaml")(where) == [
        "results/translated/pairs/soft/seed1/run.yaml"
    ]


def test_attention_of_all_models_can_be_looked_at_except_of_those_that_write_actions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    models = ["soft", "hard-mono", "prior-joint", "postr-joint", "mono-postr-joint"]
    files = made(tmp_path, EXPERIMENT, REGISTRY, models=models).files
    assert files.posterior("nouns", 1) == ["postr-joint"]
    assert files.more_attention("nouns", 1) == ["prior-joint", "mono-postr-joint"]


def test_ensembles_are_told_from_trained_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    flow = made(tmp_path, EXPERIMENT, REGISTRY, models=["soft", "postr-joint", "ensemble"])

    assert flow.files.ensembles == ["ensemble"] and flow.files.ensemble_models == "ensemble"

    members = flow.inputs.member_weights()(job(task="nouns", model="ensemble", seed="3"))
    assert members and all(file.startswith("results/tiny/nouns/") for file in members)
    assert {file.partition("/seed3/")[2] for file in members} == {"model/weights.safetensors"}


def test_ensembles_of_seeds_have_no_member_in_common(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    pair = {"from": "ensemble", "label": "Pairs", "members": ["soft"], "seeds_each": 2}
    flow = made(tmp_path, EXPERIMENT, REGISTRY, models=["soft", {"pairs": pair}])

    run = flow.plan.run("nouns", "pairs", seed=3)
    assert len(run.members) == 2
    for seed, expected in {1: [1, 2], 2: [3, 4], 3: [5, 6]}.items():
        wanted = [
            f"results/tiny/nouns/soft/seed{each}/model/weights.safetensors" for each in expected
        ]
        asked = job(task="nouns", model="pairs", seed=str(seed))
        assert flow.inputs.member_weights()(asked) == wanted

    with pytest.raises(UserError, match="seed 0 of `pairs` has members of the seed -1") as told:
        flow.plan.run("nouns", "pairs", seed=0)
    assert told.value.hint == "count the seeds of the experiment from 1"


@pytest.mark.parametrize(
    ("device", "gpus", "asked", "expected"),
    [
        ("auto", 0, None, (0, "cpu")),
        ("auto", 2, None, (1, "auto")),
        ("auto", 2, False, (0, "cpu")),
        ("auto", 0, True, (1, "auto")),
        ("cuda", 0, None, (1, "cuda")),
        ("cpu", 2, True, (0, "cpu")),
    ],
)
def test_a_gpu_is_asked_for_where_there_is_one_or_one_is_wanted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    gpus: int,
    asked: bool | None,
    expected: tuple[int, str],
) -> None:
    monkeypatch.chdir(ROOT)
    resources = {"gpu": asked, "gpu_model": "a100", "processes": 3, "threads": 2, "mem_mb": 7}
    flow = made(tmp_path, EXPERIMENT, REGISTRY, device=device, resources=resources)
    asked_of = JobResources(flow.plan, gpus)
    run = job(task="nouns", model="soft", seed="1")

    assert (asked_of.gpu()(run), asked_of.device()(run)) == expected
    assert asked_of.gpu_model()(run) == ("a100" if expected[0] else "")
    assert asked_of.gpus_of_all()(run) == 3 * expected[0]
    assert asked_of.amount("threads", of_all=True)(run) == 6
    assert asked_of.amount("mem_mb")(run) == 7


def test_a_task_can_ask_for_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    resources = {"mem_mb": 7777, "runtime": 33, "threads": 2}
    tasks = {
        "nouns": {"dataset": "small", "resources": resources},
        "others": {"dataset": "small"},
    }
    asked = JobResources(made(tmp_path, EXPERIMENT, REGISTRY, tasks=tasks).plan)

    for name, value in resources.items():
        assert asked.amount(name)(job(task="nouns", model="soft", seed="1")) == value
        assert asked.amount(name)(job(task="others", model="soft", seed="1")) != value


def test_tables_and_figures_are_those_of_the_experiments_tasks(
    nouns: Workflow, pairs: Workflow
) -> None:
    report = nouns.report

    assert "results/tiny/tables/table2.csv" in report.tables()
    assert report.front_tables() == ["results/tiny/tables/table2.html"]
    assert "results/tiny/figures/attention_nouns_seed1.svg" in report.figures()

    names = {os.path.basename(file) for file in pairs.report.tables()}
    assert {"table1.csv", "table3.csv", "table1_dev.csv"} <= names
    assert not {"table2.csv", "table_acvi_mt.csv"} & names


def test_the_report_leads_with_nouns_and_not_with_a_demonstration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    plan, datasets = check_experiment(None, ["config/config.yaml"])
    report = ReportFiles(plan, WorkflowFiles(plan, datasets))

    assert [Path(file).stem for file in report.front_tables()] == ["table2", "table1", "table3"]


def test_a_table_is_made_of_the_files_of_all_runs_it_shows(pairs: Workflow) -> None:
    report = pairs.report
    table = job(table="table1_more")
    inputs = report.inputs()(table)

    assert inputs["significance"] == ["results/translated/pairs/significance/seed1.json"]
    assert len(inputs["scores"]) == 3 and inputs["beside"] == []

    words = report.arguments()(table)
    assert words == ["--scores", *inputs["scores"], "--significance", *inputs["significance"]]
    assert report.labels()(table)["table"].startswith("sacreBLEU")

    # Of a task without word alignments there are no scores of them.
    gold = report.inputs()(job(table="attentions"))["gold-scores"]

    assert {file.split("/")[2] for file in gold} == {"pairs"}


def test_a_figure_has_its_options_and_what_it_reads_beside_its_files(nouns: Workflow) -> None:
    report = nouns.report
    figure = job(figure="curves")

    assert report.inputs()(figure)["beside"][0] == f"{SOFT}/run.yaml"
    assert report.arguments()(figure)[:2] == ["--histories", f"{SOFT}/history.csv"]
    assert "--metric" in report.arguments()(job(figure="accuracy"))
    assert nouns.inputs.code("figures", "curves") != nouns.inputs.code(
        "figures", FIGURES["accuracy"].draws
    )


def test_folders_are_those_of_the_files_wherever_they_are_kept() -> None:
    files = {"run": "far/run.yaml", "all": ["a/run.yaml", "a/x.tsv", "b/run.yaml", "b/x.tsv"]}

    assert input_folder("run")(None, files) == output_folder("run")(None, files) == "far"
    assert input_folder("all")(None, files) == "a"
    assert input_folders("all", "run.yaml")(None, files) == ["a", "b"]


def test_jobs_use_this_python_this_package_and_the_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("PATH", "/bin"),
        ("PYTHONPATH", "/else"),
        ("PAM_MIRROR", ""),
        (gpus.SHARING, "1"),
    ):
        monkeypatch.setenv(name, value)

    jobs.set_environment("/here", "/mirror", 3)

    assert os.environ["PATH"].split(os.pathsep) == [os.path.dirname(sys.executable), "/bin"]
    assert os.environ["PYTHONPATH"] == "/here:/else"
    assert (os.environ["PAM_MIRROR"], os.environ[gpus.SHARING]) == ("/mirror", "3")


def test_a_folder_in_which_python_is_another_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("python3.11", "python"):
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python3.11"))
        (tmp_path / name).touch()
        with pytest.raises(UserError, match="jobs call `python`"):
            jobs.set_environment("/here", None, 1)

    (tmp_path / "python").unlink()
    (tmp_path / "python").symlink_to("python3.11")
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv(gpus.SHARING, "1")
    jobs.set_environment("/here", None, 1)


def test_the_summary_of_data_says_what_the_registry_says(tmp_path: Path) -> None:
    options = []
    for key in ("", "  redistributable: false\n"):
        registry = re.sub(r"(  title: .*\n)", rf"\1{key}", REGISTRY, count=1)
        folder = tmp_path / str(len(key))
        folder.mkdir()
        inputs = made(folder, EXPERIMENT, registry).inputs
        options.append(inputs.stage_options()(job(task="nouns")))
    assert options[0]["redistributable"] and not options[1]["redistributable"]


def test_the_device_of_a_profile_counts_in_a_module_of_another_workflow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = CommandLine(
        moves_files=False,
        has_config=True,
        configfiles=[],
        module_configfiles=["theirs.yaml"],
        config={},
        device="cuda",
    )
    monkeypatch.setattr(settings, "command_line", lambda workflow: line)
    config = {"experiment": "e"}
    assert settings.read_config(None, config) == ["theirs.yaml"]
    assert config == {"experiment": "e", "device": "cuda"}


def test_data_are_prepared_in_the_symbols_of_the_model_that_is_started_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    tuned = {"tuned": {"from": "soft", "init_from": "./results/big/pairs/soft/seed1"}}
    tasks = {
        "pairs": {"dataset": "pairs"},
        "other": {"dataset": "pairs", "models": ["prior-joint"]},
    }
    workflow = made(
        tmp_path, TRANSLATION, PAIRS, models=["soft", "prior-joint", tuned], tasks=tasks
    )
    weights = "results/big/pairs/soft/seed1/model/weights.safetensors"

    of_task = job(task="pairs")
    argument = "--symbols-of=./results/big/pairs/soft/seed1"
    assert workflow.inputs.base_arguments()(of_task) == [argument]
    for stage in ("extract", "tokenize", None):
        assert weights in workflow.inputs.before_stage(stage)(of_task)
    assert workflow.inputs.base_arguments()(job(task="other")) == []

    start = workflow.inputs.start_weights()
    assert weights in start(job(task="pairs", model="tuned", seed="1"))
    assert start(job(task="pairs", model="soft", seed="1")) == []


def test_the_files_of_a_text_are_aligned_or_its_words_if_there_are_no_two(pairs: Workflow) -> None:
    of_run = job(task="yy-xx", model="soft", seed="1")
    entry = pairs.datasets["pairs"]
    files = entry.splits["train"]

    def aligned(splits: dict[str, Any], tokenize: Any = "none") -> tuple[list[str], list[str]]:
        changed = entry.model_copy(update={"splits": splits})
        datasets = {"pairs": changed.with_format({"tokenize": tokenize})}
        inputs = JobInputs(pairs.plan, datasets, pairs.files)
        return inputs.alignment_options()(of_run), inputs.aligned_by()(of_run)

    # All pairs are aligned, those that development and test are drawn from too.
    for splits in (entry.splits, {"all": files}):
        (source, target), (fetched,) = aligned(splits)
        assert source.startswith("--source=data/pairs-") and source.endswith("train.yy")
        assert target.endswith("train.xx") and fetched.endswith(".fetched")

    folder = "results/translated/yy-xx/data/tokenize"
    words = [f"--source={folder}/train.source", f"--target={folder}/train.target"]
    assert aligned(entry.splits | {"train": [files, files]}) == (words, [folder])
    assert aligned({"all": "train.xx"}) == (words, [folder])
    # Characters have no spaces between them in the files.
    assert aligned(entry.splits, {"yy": "characters", "xx": "none"}) == (words, [folder])


def test_a_model_is_guided_by_links_that_the_experiment_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    links = "results/translated/pairs/aligners/eflomal.txt"
    models = [
        {f"guided-{number}": {"from": "postr-joint", "training": {"guided": {"links": file}}}}
        for number, file in enumerate((links, "elsewhere/links.txt"))
    ]
    tasks = {"pairs": {"dataset": "pairs", "align": {"text": "prepared", "programs": ["eflomal"]}}}
    workflow = made(tmp_path, TRANSLATION, PAIRS, models=models, tasks=tasks)
    guiding = workflow.inputs.guiding_links()

    assert guiding(job(task="pairs", model="guided-0", seed="1")) == [links]
    folder = "results/translated/pairs/data/tokenize"
    assert workflow.inputs.aligned_by()(job(task="pairs", program="eflomal")) == [folder]
    with pytest.raises(SystemExit, match="no such file of links"):
        guiding(job(task="pairs", model="guided-1", seed="1"))
