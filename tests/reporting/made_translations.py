"""A made-up translation experiment on disk: models of different skill on made-up sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from made_runs import MadeExperiment, history_text, training_record

from pam.data.dataset import write_summary
from pam.evaluation import attention as analysis
from pam.evaluation import scoring
from pam.evaluation.attention import COVERAGE_EDGES, Analysis
from pam.evaluation.inputs import EvalInputs
from pam.evaluation.records import save
from pam.runtime.files import write_json, write_text
from pam.tasks.alignment import counts as alignment
from pam.tasks.translation import counts as translation

LABELS = {
    "soft": "Soft",
    "sparse": "Sparse",
    "variational": "Variational",
    "prior-joint": "Prior-Joint",
    "postr-joint": "Postr-Joint",
    "mono-postr-joint": "Mono-Postr-Joint",
    "prox-postr-joint": "Prox-Postr-Joint",
}
SKILL = dict(zip(LABELS, (0.86, 0.85, 0.88, 0.885, 0.895, 0.9, 0.89), strict=True))
"""Share of words that a model gets right; it decides all else that is made up."""
SKILL_OF_OTHERS = 0.87

SUBJECTS = [
    ("der mann", "the man"),
    ("eine frau", "a woman"),
    ("das kind", "the child"),
    ("zwei hunde", "two dogs"),
    ("die neuen innovationen", "the new innovations"),
]
VERBS = [
    ("läuft durch den park", "walks through the park"),
    ("sieht sie an", "looks at them"),
    ("steht neben dem alten haus", "stands beside the old house"),
    ("schläft", "sleeps"),
    ("gilt auch für erneuerbare energien", "goes for renewables as well"),
    ("lacht", "laughs"),
]
BEAMS = (4, 10)


def sentences(count: int) -> list[tuple[str, str]]:
    """Return made-up pairs of 3 to some 40 words, always the same."""
    generator = np.random.default_rng(3)
    pairs = []
    for _ in range(count):
        source = []
        target = []
        for _ in range(generator.integers(1, 6)):
            subject = SUBJECTS[generator.integers(len(SUBJECTS))]
            verb = VERBS[generator.integers(len(VERBS))]
            source.append(f"{subject[0]} {verb[0]}")
            target.append(f"{subject[1]} {verb[1]}")

        pairs.append((" und ".join(source) + " .", " and ".join(target) + " ."))

    return pairs


def outputs(pairs: Sequence[tuple[str, str]], skill: float, seed: int) -> list[str]:
    """Return references with some words replaced or lost, most at the end of long ones."""
    generator = np.random.default_rng([seed, round(skill * 1e4)])
    vocabulary = sorted({word for _, target in pairs for word in target.split()})

    predicted_texts = []
    for _, target in pairs:
        words = []
        for index, word in enumerate(target.split()):
            if generator.random() < skill - 0.004 * index:
                words.append(word)
            elif generator.random() < 0.7:
                words.append(vocabulary[generator.integers(len(vocabulary))])
        predicted_texts.append(" ".join(words))

    return predicted_texts


def made_analysis(task: str, model: str, seed: int, split: str, pairs: Any) -> Analysis:
    """Return histograms and links that are the better the more skilled a model is."""
    skill = SKILL.get(model, SKILL_OF_OTHERS)
    generator = np.random.default_rng([seed, round(skill * 1e4), len(split)])
    tokens = [len(target.split()) + 1 for _, target in pairs]

    count = np.exp(-np.arange(16) * 0.25 / (0.4 + 12 * (0.9 - skill)))
    count = np.round(count / count.sum() * sum(tokens)).astype(int)
    right = np.clip(skill - 0.03 * np.arange(16) * (1 + 8 * (0.9 - skill)), 0.05, 1)
    covered = np.clip(generator.normal(skill - 0.05, 0.12, len(pairs)), 0, 1)
    words = np.clip(generator.normal(skill, 0.25, 10 * len(pairs)), 0, 1)
    nll = [1.4 * (1.9 - skill) * n + generator.normal(0, 0.4) for n in tokens]

    # Right links are along the diagonal, wrong ones lead to the first word.
    links = []
    for _, target in pairs:
        words_of_target = range(len(target.split()))
        is_right = [generator.random() < 5 * skill - 3.6 for _ in words_of_target]
        links.append([(index * is_right[index], index) for index in words_of_target])

    return Analysis(
        task=task,
        model=model,
        label=LABELS.get(model, model),
        seed=seed,
        split=split,
        sentences=analysis.Sentences(
            nll=nll,
            nll_exact=[value - 0.05 for value in nll],
            tokens=tokens,
            correct=[round(skill * n) for n in tokens],
            source_words=[len(source.split()) for source, _ in pairs],
            coverage=covered.tolist(),
            covered=covered.tolist(),
            links=links,
            links_prior=[sentence[:-1] for sentence in links],
        ),
        entropy=analysis.Entropy(
            mean=float((count * (0.125 + 0.25 * np.arange(16))).sum() / count.sum()),
            count=count.tolist(),
            correct=np.round(count * right).astype(int).tolist(),
        ),
        coverage=analysis.Coverage(
            words=np.histogram(words, COVERAGE_EDGES)[0].tolist(),
            sentences=np.histogram(covered, COVERAGE_EDGES)[0].tolist(),
        ),
        wall_s=1.0,
        cpu_s=1.0,
        gpu_s=0.0,
    )


def config(tasks: Sequence[str], models: Sequence[str]) -> dict[str, Any]:
    """Return an experiment on the paper's data with word alignments."""
    return {
        "experiment": "made-up",
        "title": "made-up translations",
        "baseline": "soft",
        "models": list(models),
        "decoding": {"beam": BEAMS[0], "beams": list(BEAMS[1:])},
        "tasks": {
            task: {
                "dataset": task,
                "label": task,
                "paper": "IWSLT14 DE-EN",
                "word_alignments": "some-gold",
            }
            for task in tasks
        },
    }


def make_data(folder: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Write the files of a prepared task, and of its gold alignments, that scoring reads."""
    data = folder / "data"
    write_text(data / "test.tsv", "".join(f"{source}\t{target}\n" for source, target in pairs))
    write_text(data / "test.target.txt", "".join(f"{target}\n" for _, target in pairs))
    summary = {
        "task": "translation",
        "redistributable": True,
        "languages": {"source": "de", "target": "en"},
        "splits": {"train": {"rows": 1000}},
    }
    write_summary(data, summary)

    gold = folder / "gold"
    links = [[[t, t] for t in range(len(target.split()))] for _, target in pairs]
    write_json(gold / "links.json", {"sure": links, "possible": links})
    write_summary(gold, {"task": "alignment"})


def _place(model: str) -> int:
    """Return a model's place among the named ones; others follow, always in the same order."""
    names = list(LABELS)
    return names.index(model) if model in names else len(names) + len(model)


def make_run(
    folder: Path, task: str, model: str, seed: int, pairs: Sequence[tuple[str, str]]
) -> None:
    """Write all files of one run that reporting reads."""
    run = folder / model / f"seed{seed}"
    identity = {
        "experiment": "made-up",
        "task": task,
        "model": model,
        "seed": seed,
        "label": LABELS.get(model, model),
    }
    sections = {
        "components": {"label": LABELS.get(model, model)},
        "network": {},
        "training": {},
        "decoding": {"beam": BEAMS[0]},
    }
    write_text(run / "run.yaml", yaml.safe_dump(identity | sections))
    write_text(run / "history.csv", history_text(SKILL.get(model, SKILL_OF_OTHERS), seed))

    cost = 600.0 * (1 + 0.05 * _place(model)) + seed
    training = training_record(seed, cost)
    decodings = {}
    files = []
    for beam in BEAMS:
        texts = outputs(
            pairs, SKILL.get(model, SKILL_OF_OTHERS) + 0.002 * (beam == BEAMS[-1]), seed
        )
        lines = ["source\ttarget\tpredicted\tlog_prob\ttext"]
        for (source, target), text in zip(pairs, texts, strict=True):
            lines.append("\t".join([source, target, text, "-1.5", text]))
        file = run / f"beam{beam}" / "predictions.tsv"
        write_text(file, "\n".join(lines) + "\n")
        files.append(file)
        seconds = 0.02 * cost * beam
        decodings[str(beam)] = {"beam": beam, "wall_s": seconds, "cpu_s": seconds, "gpu_s": 0.0}

    save(made_analysis(task, model, seed, "test", pairs), run / "analysis.json")
    counts = translation.count(
        EvalInputs(tuple(files), BEAMS, run / "analysis.json", folder / "data")
    )
    scores = scoring.make("translation", counts, identity, training, decodings)
    save(scores, run / "scores.json")

    save(made_analysis(task, model, seed, "gold", pairs), run / "gold_analysis.json")
    counts = alignment.count(
        EvalInputs(analysis=run / "gold_analysis.json", data=folder / "gold", split="gold")
    )
    gold_scores = scoring.make("alignment", counts, identity, training, decodings)
    save(gold_scores, run / "gold_scores.json")


def make_translations(
    root: Path,
    tasks: Sequence[str] = ("de-en",),
    models: Sequence[str] = ("soft", "prior-joint", "postr-joint"),
    seeds: Sequence[int] = (1, 2),
    count: int = 40,
) -> MadeExperiment:
    """Write a whole experiment below `root`."""
    folder = root / "results" / "made-up"
    pairs = sentences(count)
    for task in tasks:
        make_data(folder / task, pairs)
        for model in models:
            for seed in seeds:
                make_run(folder / task, task, model, seed, pairs)

    file = root / "experiment.yaml"
    write_text(file, yaml.safe_dump(config(tasks, models), sort_keys=False))
    return MadeExperiment(folder, file, Path(__file__).parents[2] / "config/paper_results.yaml")
