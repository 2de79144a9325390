"""What the workflow would do: dry runs."""

from __future__ import annotations

import os
import re
import resource
from collections import Counter
from pathlib import Path

import pytest

from pam.config import Network, Training
from pam.experiment import load_plan
from pam.models import options
from tests.workflow.checkouts import ROOT, Checkout, checkout
from tests.workflow.conftest import OWN

SIX = ["soft", "hard-mono", "prior-joint", "postr-joint", "prox-postr-joint", "mono-postr-joint"]
THREE = ["soft", "prior-joint", "postr-joint"]
VARIATIONAL = ["variational-sample", "variational-gumbel", "hard"]
SEVEN = [*THREE, "sparse", "variational", "prox-postr-joint", "mono-postr-joint"]
DIRECTIONS = ["iwslt14-de-en", "iwslt14-en-de", "iwslt15-en-vi", "iwslt15-vi-en", "wat17-ja-en"]


def trainings(config: str) -> set[str]:
    """The trainings of an experiment: of its runs, and of models that these are made from."""
    plan = load_plan(files=[ROOT / config])
    trained: set[tuple[str, str, int]] = set()
    waiting = list(plan.experiment.runs())
    while waiting:
        task, model, seed = waiting.pop()
        other = plan.task(task).trained_on
        sources = plan.members(model) or plan.starts(model)
        if other is not None:
            waiting.append((other, model, seed))
            continue
        if not plan.members(model):
            trained.add((task, model, seed))
        waiting += [(task, source, seed) for source in sources]

    return {f"{model} on {task}, seed {seed}" for task, model, seed in trained}


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
    expected = {f"{model} on de-noun, seed 1" for model in ("soft", "postr-joint")}
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
    target = "results/paper/tables/table2.csv"
    outcome = checkout(tmp_path / "checkout").plan(target, "--configfile", "config/paper.yaml")
    assert outcome.code == 0, outcome.said
    assert outcome.trained == {
        f"{model} on {task}, seed {seed}"
        for model in SIX
        for task in ("ddn13-de-noun", "ddn13-de-verb")
        for seed in range(1, 6)
    }
    assert outcome.jobs["make_table"] == 1
    assert "draw_figure" not in outcome.jobs
    assert "results/quick" not in outcome.said


def test_table_1_of_the_paper_is_five_directions_each_job_with_gpu_memory_and_time(
    tmp_path: Path,
) -> None:
    target = "results/paper/tables/table1.csv"
    options = ("--configfile", "config/paper.yaml", "--config", "device=cuda")
    outcome = checkout(tmp_path / "checkout").plan(target, *options)
    assert outcome.code == 0, outcome.said
    runs = [
        f"{model} on {task}, seed {seed}"
        for model in SEVEN
        for task in DIRECTIONS
        for seed in range(1, 6)
    ]
    assert outcome.trained == set(runs)
    asked = re.findall(r"Training .*: (\d thread\(s\), \d+ MB, \d+ min, \d GPU)", outcome.said)
    assert asked == ["2 thread(s), 16000 MB, 1440 min, 1 GPU"] * len(runs)
    assert outcome.jobs["predict_run"] == 2 * len(runs)
    assert outcome.jobs["analyze_run"] == len(runs)


RECIPES = ("fertility-delayed", "variational-annealed", "hard-steadied")
FIRST = {"fertility", "hard-moving"}  # as first written


def test_the_attentions_is_every_model_on_nouns_and_phrases_three_times() -> None:
    planned = trainings("config/attentions.yaml")
    files = {path.stem for path in (ROOT / "config/models").glob("*.yaml")}
    joined = {"ensemble", "acvi-sampled", "ved-sampled"}
    named = {name.split(" on ")[0] for name in planned}
    copying = {name for name in files if "-pointer" in name}  # in summaries.yaml
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
        "multi30k-de-en": translating + 2 * 13,
        # There the decoder has more units than dot products take.
        "cldr-de-en": 3 * (translating - len({"soft-dot", "postr-joint-dot"})),
    }
    runs = [model for _, model, _ in experiment.runs() if model in joined]
    assert len(runs) == (3 + 1 + 3) * len(joined)


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


@pytest.mark.parametrize(
    ("experiment", "tasks", "runs"),
    [("summaries", 2, 8 + 3), ("titles", 1, 5 * 3), ("summaries-paper", 2, 21)],
)
def test_summaries_are_planned_with_extracts_beside_the_models(
    tmp_path: Path, experiment: str, tasks: int, runs: int
) -> None:
    outcome = checkout(tmp_path / "checkout").plan("--configfile", f"config/{experiment}.yaml")
    assert outcome.code == 0, outcome.said
    assert len(outcome.trained) == runs
    assert outcome.trained == trainings(f"config/{experiment}.yaml")
    # DUC 2004 tests the models of the other task.
    assert outcome.jobs["reuse_run"] == (21 if experiment == "summaries-paper" else 0)
    # The first sentences, sentences drawn at random, and the reference.
    assert outcome.jobs["score_control"] == 3 * tasks


def test_a_schedule_of_an_option_is_not_given_the_keys_of_other_kinds(tmp_path: Path) -> None:
    schedule = "options={score: {coverage: {active: {kind: delayed, value: 1, after: 0.9}}}}"
    outcome = checkout(tmp_path / "checkout").plan("--config", schedule)
    assert outcome.code == 0, outcome.said


def test_captions_are_planned_with_those_of_people_beside_the_models(tmp_path: Path) -> None:
    outcome = checkout(tmp_path / "checkout").plan("--configfile", "config/captions.yaml")
    assert outcome.code == 0, outcome.said
    assert len(outcome.trained) == 8 * 5
    # One caption for all clips, the nearest clip's, and a person's.
    assert outcome.jobs["score_control"] == 3
    assert outcome.jobs["predict_dev"] == 8 * 5


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


def test_the_ablation_trains_each_part_once_and_replaces_unknown_words_without_training(
    tmp_path: Path,
) -> None:
    outcome = checkout(tmp_path / "checkout").plan("train", "--configfile", "config/ablation.yaml")
    assert outcome.code == 0, outcome.said
    whole = [name for name in outcome.trained if "multi30k-de-en" in name]
    assert (len(whole), len(outcome.trained)) == (6, 17)
    assert outcome.trained == trainings("config/ablation.yaml")
    assert outcome.jobs["join_ensemble"] == 3
    plan = load_plan(files=[ROOT / "config/ablation.yaml"])
    decoded = {model: plan.run("multi30k-de-en", model, 1).decoding for model in plan.components}
    assert [name for name, own in decoded.items() if own.replace_unknown] == ["luong-unknown"]
    assert [name for name, own in decoded.items() if own.temperature] == ["luong-sampled"]


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
    made = checkout(tmp_path / "checkout")
    outcome = made.plan("tables", "--configfile", f"config/{experiment}.yaml")
    assert outcome.code == 0, outcome.said
    assert {name.split(" on ")[0] for name in outcome.trained} == set(models)
    assert len(outcome.trained) == len(models) * tasks * 3
    assert outcome.jobs["score_dev"] == len(outcome.trained)


def test_the_paper_experiment_trains_inflection_as_before() -> None:
    plan = load_plan(files=[ROOT / "config/paper.yaml"])
    for task, epochs in (("ddn13-de-noun", 12), ("ddn13-de-verb", 5)):
        run = plan.run(task, "postr-joint", 1)
        assert (run.network, run.training) == (Network(), Training(epochs=epochs))
        assert run.components.marginalization == options.Output()


def test_the_small_experiment_is_seven_models_with_three_seeds(tmp_path: Path) -> None:
    outcome = checkout(tmp_path / "checkout").plan("--configfile", "config/small.yaml")
    assert outcome.code == 0, outcome.said
    assert outcome.trained == {
        f"{model} on multi30k-de-en, seed {seed}" for model in SEVEN for seed in (1, 2, 3)
    }
    assert outcome.jobs["predict_run"] == 2 * len(outcome.trained)
    assert outcome.jobs["choose_length_penalty"] == 2 * len(outcome.trained)


def test_subwords_are_aligned_with_more_seeds_where_a_claim_hangs_on_them(tmp_path: Path) -> None:
    outcome = checkout(tmp_path / "checkout").plan("--configfile", "config/subwords.yaml")
    assert outcome.code == 0, outcome.said
    aligned = {f"{model} on iwslt14-de-en-35k, seed 1" for model in SEVEN}
    more = ("soft", "postr-joint", "prox-postr-joint")
    aligned |= {f"{model} on iwslt14-de-en-35k, seed {seed}" for model in more for seed in (2, 3)}
    kyoto = {
        f"{model} on kyoto-ja-en, seed 1"
        for model in ("soft", "prior-joint", "postr-joint", "prox-postr-joint")
    }
    assert outcome.trained == aligned | kyoto
    assert outcome.jobs["score_word_alignments"] == len(aligned)


@pytest.mark.parametrize(
    ("target", "rules"),
    [
        ("data", {"fetch_data", "prepare_data"}),
        ("train", {"fetch_data", "prepare_data", "train_run"}),
        (
            "results/tiny/nouns/soft/seed1/scores.json",
            {"fetch_data", "prepare_data", "write_run", "train_run", "predict_run"} | {"score_run"},
        ),
    ],
)
def test_a_target_makes_what_it_needs_and_no_more(
    fresh: Checkout, target: str, rules: set[str]
) -> None:
    outcome = fresh.plan(target, *OWN)
    assert outcome.code == 0, outcome.said
    assert set(outcome.jobs) == rules


def test_one_run_is_one_training(fresh: Checkout) -> None:
    outcome = fresh.plan("results/tiny/nouns/soft/seed1/scores.json", *OWN)
    assert outcome.trained == {"soft on nouns, seed 1"}


def test_a_run_outside_the_experiments_lists_can_be_made(fresh: Checkout) -> None:
    outcome = fresh.plan("results/tiny/nouns/prior-joint/seed7/scores.json", *OWN)
    assert outcome.trained == {"prior-joint on nouns, seed 7"}


@pytest.mark.parametrize("target", ["tables", "figures", "report"])
def test_each_noun_is_a_target(fresh: Checkout, target: str) -> None:
    outcome = fresh.plan(target, *OWN)
    assert outcome.code == 0, outcome.said
    assert outcome.jobs["train_run"] == 2


def test_a_thousand_jobs_are_planned_within_seconds(fresh: Checkout) -> None:
    fresh.edit("own/experiment.yaml", "seeds: [1]", f"seeds: {list(range(1, 121))}")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome = fresh.plan("--quiet", "all", *OWN)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert outcome.code == 0, outcome.said
    # Processor seconds, since other tests run beside this one.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 15


def fake_gpus(folder: Path, count: int) -> str:
    """A PATH on which `nvidia-smi` lists so many GPUs."""
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
    assert asked_for_gpu(fresh.plan("train", *OWN, PATH=path).said)
    assert not asked_for_gpu(fresh.plan("train", *OWN, PATH=path, CUDA_VISIBLE_DEVICES="").said)
    without = fresh.plan("train", *OWN, "--config", "device=cpu", PATH=path)
    assert without.code == 0
    assert not asked_for_gpu(without.said)


def test_the_configuration_can_insist_on_a_gpu(fresh: Checkout) -> None:
    fresh.edit("own/experiment.yaml", "device: cpu", "device: cuda")
    assert asked_for_gpu(fresh.plan("train", *OWN).said)


def test_a_task_can_ask_for_more(fresh: Checkout) -> None:
    fresh.edit(
        "own/experiment.yaml",
        "{dataset: small}",
        "{dataset: small, resources: {mem_mb: 7777, runtime: 33, threads: 2}}",
    )
    said = fresh.plan("train", *OWN).said
    assert "2 thread(s), 7777 MB, 33 min" in said


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
    }
