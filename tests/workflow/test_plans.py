"""What the workflow would do: dry runs, and counts of trainings that need none.

Plans of the papers' sizes have one seed, as each further one is planned in the same way. All their
trainings are counted from the configuration.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

from pam.experiments.check import check_experiment
from pam.experiments.estimate import runs_to_train
from pam.experiments.loading import load_plan
from pam.experiments.settings import Network, Training
from pam.models import options
from pam.workflow import ReportFiles, WorkflowFiles
from tests.workflow.checkouts import ROOT, Checkout, checkout
from tests.workflow.conftest import OWN

SIX = ["soft", "hard-mono", "prior-joint", "postr-joint", "prox-postr-joint", "mono-postr-joint"]
THREE = ["soft", "prior-joint", "postr-joint"]
VARIATIONAL = ["variational-sample", "variational-gumbel", "hard"]
SEVEN = [*THREE, "sparse", "variational", "prox-postr-joint", "mono-postr-joint"]
DIRECTIONS = ["iwslt14-de-en", "iwslt14-en-de", "iwslt15-en-vi", "iwslt15-vi-en", "wat17-ja-en"]


def trainings(config: str) -> set[str]:
    """Return the trainings of an experiment: of its runs, and of models these are made from."""
    plan = load_plan(files=[ROOT / config])
    trained: set[tuple[str, str, int]] = set()
    waiting = list(plan.experiment.runs())
    while waiting:
        task, model, seed = waiting.pop()
        other = plan.task(task).trained_on
        if other is not None:
            waiting.append((other, model, seed))
            continue
        if not plan.members(model):
            trained.add((task, model, seed))
        waiting += [(task, *source) for source in plan.sources(model, seed)]

    return {f"{model} on {task}, seed {seed}" for task, model, seed in trained}


def of_seed(names: set[str], seed: int) -> set[str]:
    return {name for name in names if name.endswith(f", seed {seed}")}


def controls(config: str) -> set[str]:
    """Return the scores of what no model wrote that the tables of an experiment show."""
    plan, datasets = check_experiment(None, [str(ROOT / config)])
    report = ReportFiles(plan, WorkflowFiles(plan, datasets))
    shown: set[str] = set()
    for table in report.tables():
        inputs = report.inputs()(SimpleNamespace(table=Path(table).stem))
        shown.update(file for files in inputs.values() for file in files)

    return {file for file in shown if "/controls/" in file}


def test_the_trainings_of_an_experiment_are_those_that_snakemake_plans(tmp_path: Path) -> None:
    """Below they are counted without Snakemake, for experiments like this one."""
    config = "config/studies/recipes.yaml"
    outcome = checkout(tmp_path / "checkout").plan("train", "--configfile", config)

    assert outcome.code == 0, outcome.said
    assert outcome.trained == trainings(config)


def test_the_default_experiment_is_german_nouns_and_a_demonstration_of_translation(
    tmp_path: Path,
) -> None:
    outcome = checkout(tmp_path / "checkout").plan()

    assert outcome.code == 0, outcome.said

    seeds = (1, 2, 3)
    nouns = product(("soft", "postr-joint"), seeds)
    expected = {f"{model} on de-noun, seed {seed}" for model, seed in nouns}
    expected |= {f"{model} on cldr-de-en, seed 1" for model in ("soft", "prox-postr-joint")}

    assert outcome.trained == expected
    assert outcome.jobs["prepare_data"] == 2
    assert outcome.jobs["score_word_alignments"] == 2
    assert outcome.jobs["analyze_run"] == len(expected)
    assert outcome.jobs["write_report"] == 1


def test_the_next_experiment_is_six_models_on_nouns_and_three_on_the_demonstration(
    tmp_path: Path,
) -> None:
    outcome = checkout(tmp_path / "checkout").plan("--configfile", "config/nouns.yaml")

    assert outcome.code == 0, outcome.said

    expected = {f"{model} on de-noun, seed 1" for model in SIX}
    expected |= {f"{model} on cldr-de-en, seed 1" for model in THREE}

    assert outcome.trained == expected
    # Whoever writes actions has none to be forced to.
    assert outcome.jobs["analyze_run"] == len(expected) - 1


def test_table_2_of_the_paper_is_two_tasks_and_five_seeds_and_nothing_else(tmp_path: Path) -> None:
    expected = {
        f"{model} on {task}, seed {seed}"
        for model in SIX
        for task in ("ddn13-de-noun", "ddn13-de-verb")
        for seed in range(1, 6)
    }
    named = {name for name in trainings("config/paper.yaml") if " on ddn13-" in name}
    assert named == expected

    target = "results/paper/tables/table2.csv"
    outcome = checkout(tmp_path / "checkout").plan(
        target, "--configfile", "config/paper.yaml", "--config", "seeds=[5]"
    )

    assert outcome.code == 0, outcome.said
    assert outcome.trained == of_seed(expected, 5)
    assert outcome.jobs["make_table"] == 1
    assert "draw_figure" not in outcome.jobs
    assert "results/quick" not in outcome.said


def test_table_1_of_the_paper_is_five_directions_each_job_with_gpu_memory_and_time(
    tmp_path: Path,
) -> None:
    expected = {
        f"{model} on {task}, seed {seed}"
        for model in SEVEN
        for task in DIRECTIONS
        for seed in range(1, 6)
    }
    named = trainings("config/paper.yaml")
    assert {name for name in named if " on ddn13-" not in name} == expected

    target = "results/paper/tables/table1.csv"
    outcome = checkout(tmp_path / "checkout").plan(
        target, "--configfile", "config/paper.yaml", "--config", "seeds=[5]", "device=cuda"
    )

    assert outcome.code == 0, outcome.said
    runs = of_seed(expected, 5)
    assert outcome.trained == runs
    asked = re.findall(r"Training .*: (\d thread\(s\), \d+ MB, \d+ min, \d GPU)", outcome.said)
    assert asked == ["2 thread(s), 16000 MB, 1440 min, 1 GPU"] * len(runs)
    assert outcome.jobs["predict_run"] == 2 * len(runs)
    assert outcome.jobs["analyze_run"] == len(runs)


RECIPES = ("fertility-delayed", "variational-annealed", "hard-steadied")
FIRST = {"fertility", "hard-moving"}  # as first written


def test_the_attentions_is_every_model_on_nouns_and_phrases_three_times() -> None:
    planned = trainings("config/attentions.yaml")
    files = {path.stem for path in (ROOT / "config/models").glob("*.yaml")}
    joined = {"ensemble", "ensemble-of-three", "acvi-sampled", "ved-sampled"}
    named = {name.split(" on ")[0] for name in planned}
    copying = {name for name in files if "-pointer" in name}  # in summaries.yaml
    files -= {"mixture", "transformer-mixture"}  # in studies/controls.yaml
    files -= {"transformer-aligner"}  # in alignment.yaml
    aligned = {name for name in files - copying if name.startswith("transformer-")}
    transformers = load_plan(files=[ROOT / "config/transformers.yaml"]).experiment

    assert aligned <= set(transformers.model_names)

    no_experiment = {"soft-reversed", "sparsemax", "soft-entmax"}
    experiment = load_plan(files=[ROOT / "config/attentions.yaml"]).experiment
    left_out = joined | copying | aligned | no_experiment | FIRST | {"soft-mlp"}

    assert named == (files | set(experiment.variants())) - left_out

    trained = Counter(re.search(r" on ([^,]*)", name)[1] for name in planned)
    # Hard monotonic attention writes no translations.
    translating = len(named) - 1

    assert trained == {
        "ddn13-de-noun": 3 * len(named),
        "multi30k-de-en": translating + 2 * 17,
        # There the decoder has more units than dot products take.
        "cldr-de-en": 3 * (translating - len({"soft-dot", "postr-joint-dot"})),
    }

    runs = [model for _, model, _ in experiment.runs() if model in joined]
    # One of them has three seeds on Multi30k too.
    assert len(runs) == (3 + 1 + 3) * len(joined) + 2


def test_the_recipes_train_each_model_as_it_was_and_with_another_recipe() -> None:
    planned = trainings("config/studies/recipes.yaml")
    named = {name.split(" on ")[0] for name in planned}

    assert named >= {
        "soft",
        "acvi",
        "acvi-literal",
        "fertility",
        "variational",
        "hard-moving",
        *RECIPES,
    }
    assert len(planned) == 4 + 12


def test_the_sweep_trains_each_form_of_acvi_beside_soft() -> None:
    planned = trainings("config/studies/acvi-sweep.yaml")
    variants = {f"acvi-literal-kl{weight}" for weight in ("0.01", "0.001")}
    variants |= {f"acvi-linear{form}" for form in ("", "-kl0", "-kl0.01", "-start0", "-annealed")}
    models = {"soft", "acvi", "acvi-literal", *variants}

    assert planned == {f"{name} on ddn13-de-noun, seed 1" for name in models}


def test_a_check_counts_the_trainings_of_ensembles_and_of_single_models_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = "config/attentions.yaml"
    plan, datasets = check_experiment(None, [str(ROOT / config)])
    monkeypatch.chdir(tmp_path)  # where nothing is trained yet
    files = WorkflowFiles(plan, datasets)
    left = {
        f"{run.model} on {run.task}, seed {run.seed}"
        for task in plan.experiment.tasks
        for run in runs_to_train(plan, files, task, print)
    }
    assert left == trainings(config)


@pytest.mark.parametrize(
    ("experiment", "tasks", "runs"),
    [("summaries", 2, 8 + 3), ("titles", 1, 5 * 3), ("summaries-paper", 2, 7 * 3)],
)
def test_summaries_have_extracts_beside_the_models(experiment: str, tasks: int, runs: int) -> None:
    assert len(trainings(f"config/{experiment}.yaml")) == runs
    # The first sentences, sentences drawn at random, and the reference.
    assert len(controls(f"config/{experiment}.yaml")) == 3 * tasks


def test_summaries_of_the_papers_size_test_the_models_of_another_task(tmp_path: Path) -> None:
    outcome = checkout(tmp_path / "checkout").plan(
        "--configfile", "config/summaries-paper.yaml", "--config", "seeds=[2]"
    )

    assert outcome.code == 0, outcome.said
    assert outcome.trained == of_seed(trainings("config/summaries-paper.yaml"), 2)
    assert outcome.jobs["reuse_run"] == len(outcome.trained) == 7
    assert outcome.jobs["score_control"] == 3 * 2


def test_a_schedule_of_an_option_is_not_given_the_keys_of_other_kinds(tmp_path: Path) -> None:
    schedule = "options={score: {coverage: {active: {kind: delayed, value: 1, after: 0.9}}}}"
    outcome = checkout(tmp_path / "checkout").plan("data", "--config", schedule)
    assert outcome.code == 0, outcome.said


def test_captions_are_planned_with_those_of_people_beside_the_models(tmp_path: Path) -> None:
    expected = trainings("config/captions.yaml")
    assert len(expected) == 8 * 5

    outcome = checkout(tmp_path / "checkout").plan(
        "--configfile", "config/captions.yaml", "--config", "seeds=[5]"
    )

    assert outcome.code == 0, outcome.said
    assert outcome.trained == of_seed(expected, 5)
    # One caption for all clips, the nearest clip's, and a person's.
    assert outcome.jobs["score_control"] == 3
    assert outcome.jobs["predict_dev"] == 8


def test_captions_at_the_papers_size_have_its_attention() -> None:
    planned = trainings("config/captions-paper.yaml")

    assert len(planned) == 5 * 3

    plan = load_plan(files=[ROOT / "config/captions-paper.yaml"])
    for model in plan.experiment.model_names:
        run = plan.run("youtube2text", model, 1)
        assert run.components.score == options.Mlp(units=100)


def test_table_2_is_planned_on_both_tasks_with_five_seeds() -> None:
    planned = trainings("config/table2.yaml")
    assert len(planned) == 2 * 6 * 5


def test_an_end_symbol_is_compared_with_none_on_the_same_pairs() -> None:
    planned = trainings("config/studies/source-eos.yaml")

    assert len(planned) == 2 * 4 + 2 * 2 * 3

    experiment = load_plan(files=[ROOT / "config/studies/source-eos.yaml"]).experiment
    assert {name: own.format["source_eos"] for name, own in experiment.tasks.items()} == {
        name + bare: not bare
        for name in ("multi30k-de-en", "ddn13-de-noun")
        for bare in ("", "-bare")
    }


def test_the_nucleus_trains_one_model_per_cut_of_its_sum() -> None:
    planned = trainings("config/studies/nucleus.yaml")
    models = {name.split(" on ")[0] for name in planned}
    cuts = ("-mass0.999", "-mass0.99", "-mass0.9", "-top6", "-mass0.99-top6")

    assert models == {"postr-joint", *(f"postr-joint{cut}" for cut in cuts)} and len(planned) == 6


def test_the_ablation_trains_each_part_once_and_replaces_unknown_words_without_training() -> None:
    planned = trainings("config/ablation.yaml")
    whole = [name for name in planned if "multi30k-de-en" in name]
    assert (len(whole), len(planned)) == (6, 17)

    plan = load_plan(files=[ROOT / "config/ablation.yaml"])
    joined = [model for _, model, _ in plan.experiment.runs() if plan.members(model)]
    assert len(joined) == 3
    decoded = {model: plan.run("multi30k-de-en", model, 1).decoding for model in plan.components}
    replacing = [name for name, decoding in decoded.items() if decoding.replace_unknown]
    assert replacing == ["luong-unknown"]
    sampled = [name for name, decoding in decoded.items() if decoding.temperature]
    assert sampled == ["luong-sampled"]


@pytest.mark.parametrize(
    ("experiment", "models", "tasks"),
    [
        (
            "acvi",
            [
                "soft",
                "structured",
                "variational-sample",
                "ved",
                "acvi",
                "acvi-literal",
                "transformer",
            ],
            4,
        ),
        ("variational", ["soft-mlp", "variational", *VARIATIONAL], 1),
    ],
)
def test_other_papers_tables_are_planned_at_their_size(
    tmp_path: Path, experiment: str, models: list[str], tasks: int
) -> None:
    config = f"config/{experiment}.yaml"
    expected = trainings(config)
    assert {name.split(" on ")[0] for name in expected} == set(models)
    assert len(expected) == len(models) * tasks * 3

    made = checkout(tmp_path / "checkout")
    outcome = made.plan("tables", "--configfile", config, "--config", "seeds=[3]")

    assert outcome.code == 0, outcome.said
    assert outcome.trained == of_seed(expected, 3)
    assert outcome.jobs["score_dev"] == len(outcome.trained)


def test_the_paper_experiment_trains_inflection_as_before() -> None:
    plan = load_plan(files=[ROOT / "config/paper.yaml"])
    for task, epochs in (("ddn13-de-noun", 12), ("ddn13-de-verb", 5)):
        run = plan.run(task, "postr-joint", 1)
        assert (run.network, run.training) == (Network(), Training(epochs=epochs))
        assert run.components.marginalization == options.Output()


def test_the_small_experiment_is_seven_models_with_three_seeds(tmp_path: Path) -> None:
    expected = {f"{model} on multi30k-de-en, seed {seed}" for model in SEVEN for seed in (1, 2, 3)}
    assert trainings("config/small.yaml") == expected

    outcome = checkout(tmp_path / "checkout").plan(
        "--configfile", "config/small.yaml", "--config", "seeds=[3]"
    )

    assert outcome.code == 0, outcome.said
    assert outcome.trained == of_seed(expected, 3)
    assert outcome.jobs["predict_run"] == 2 * len(SEVEN)
    assert outcome.jobs["choose_length_penalty"] == 2 * len(SEVEN)


def test_subwords_are_aligned_with_more_seeds_where_a_claim_hangs_on_them() -> None:
    aligned = {f"{model} on iwslt14-de-en-35k, seed 1" for model in SEVEN}
    more = ("soft", "postr-joint", "prox-postr-joint")
    aligned |= {f"{model} on iwslt14-de-en-35k, seed {seed}" for model in more for seed in (2, 3)}
    kyoto = ("soft", "prior-joint", "postr-joint", "prox-postr-joint")
    others = {f"{model} on kyoto-ja-en, seed 1" for model in kyoto}
    assert trainings("config/subwords.yaml") == aligned | others

    tasks = load_plan(files=[ROOT / "config/subwords.yaml"]).experiment.tasks
    assert [name for name, task in tasks.items() if task.word_alignments] == ["iwslt14-de-en-35k"]


@pytest.mark.parametrize(
    ("target", "rules"),
    [
        ("data", {"fetch_data", "prepare_data"}),
        ("train", {"fetch_data", "prepare_data", "train_run"}),
    ],
)
def test_a_target_makes_what_it_needs_and_no_more(
    fresh: Checkout, target: str, rules: set[str]
) -> None:
    outcome = fresh.plan(target, *OWN)
    assert outcome.code == 0, outcome.said
    assert set(outcome.jobs) == rules


def test_one_run_is_one_training(fresh: Checkout) -> None:
    target = "results/tiny/nouns/soft/seed1/scores.json"

    outcome = fresh.plan(target, *OWN)

    assert outcome.code == 0, outcome.said
    assert outcome.trained == {"soft on nouns, seed 1"}
    rules = "fetch_data prepare_data write_run train_run predict_run score_run"
    assert set(outcome.jobs) == set(rules.split())


def test_a_run_outside_the_experiments_lists_can_be_made(fresh: Checkout) -> None:
    outcome = fresh.plan("results/tiny/nouns/prior-joint/seed7/scores.json", *OWN)
    assert outcome.trained == {"prior-joint on nouns, seed 7"}


def test_each_noun_is_a_target(fresh: Checkout) -> None:
    outcome = fresh.plan("tables", "figures", "report", *OWN)

    assert outcome.code == 0, outcome.said
    assert outcome.jobs["train_run"] == 2
    assert outcome.jobs["write_page"] == outcome.jobs["write_report"] == 1


@pytest.mark.parametrize("seeds", [30, pytest.param(120, marks=pytest.mark.faults)])
def test_many_jobs_are_planned_within_seconds(fresh: Checkout, tmp_path: Path, seeds: int) -> None:
    """A plan of a thousand jobs, for 120 seeds, takes at most 15 seconds."""
    fresh.edit("own/experiment.yaml", "seeds: [1]", f"seeds: {list(range(1, seeds + 1))}")
    # Processor seconds, since other tests run beside this one.
    used = tmp_path / "cpu.tsv"

    outcome = fresh.plan("--quiet", "all", *OWN, PAM_TESTS_CPU=str(used))

    assert outcome.code == 0, outcome.said
    (line,) = used.read_text(encoding="utf-8").splitlines()
    assert float(line.partition("\t")[0]) < seeds * 15 / 120


def fake_gpus(folder: Path, count: int) -> str:
    """Return a PATH on which `nvidia-smi` lists so many GPUs."""
    folder.mkdir()
    lines = "".join(f"echo '{index}, GPU-{index}{index}'\n" for index in range(count))
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{lines}", encoding="utf-8")
    (folder / "nvidia-smi").chmod(0o755)

    return os.pathsep.join([str(folder), os.environ["PATH"]])


def asked_for_gpu(said: str) -> bool:
    return "1 GPU" in said


def test_trainings_ask_for_a_gpu_only_where_there_is_one(fresh: Checkout, tmp_path: Path) -> None:
    fresh.edit("own/experiment.yaml", "device: cpu", "device: auto")
    path = fake_gpus(tmp_path / "bin", 2)

    visible = fresh.plan("train", *OWN, PATH=path)
    hidden = fresh.plan("train", *OWN, PATH=path, CUDA_VISIBLE_DEVICES="")

    assert (visible.code, hidden.code) == (0, 0)
    assert asked_for_gpu(visible.said)
    assert not asked_for_gpu(hidden.said)


def test_the_cluster_profile_works_as_typed(fresh: Checkout) -> None:
    fresh.edit("own/experiment.yaml", "device: cpu\n", "")
    outcome = fresh.plan("train", *OWN, "--profile", "cluster")

    assert outcome.code == 0, outcome.said
    assert outcome.jobs["train_run"] == 2
    assert "Training soft on nouns, seed 1: 1 thread(s), 2000 MB, 240 min, 1 GPU" in outcome.said


def test_only_heavy_rules_are_jobs_of_a_cluster() -> None:
    local: set[str] = set()
    rules: set[str] = set()

    for file in (ROOT / "workflow/rules").glob("*.smk"):
        text = file.read_text(encoding="utf-8")
        named = r"^(?:use )?rule (?:\w+ as )?(\w+)(?: with)?:"
        rules.update(re.findall(named, text, flags=re.MULTILINE))
        for block in re.findall(r"^localrules:\n((?:    \w+,\n)+)", text, flags=re.MULTILINE):
            local.update(block.replace(",", "").split())

    assert rules - local == {
        *(
            "extract_text",
            "tokenize_text",
            "segment_text",
            "prepare_data",
            "prepare_test",
            "train_run",
        ),
        *(
            "choose_length_penalty",
            "predict_run",
            "attention_run",
            "analyze_run",
            "analyze_word_alignments",
        ),
        *("predict_dev", "analyze_dev", "test_significance"),
        *("align_text", "align_by_program"),
    }
