"""Write the first lines of the page: the question, the task, and what each model does.

They are for a reader who has read no paper.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from pam.experiments.experiment import Experiment
from pam.tasks import KINDS, imported

SHOWN_WORDS = 14  # the most words of an example that are shown

# what the models do that a reader has to know first, in this order
MAIN_MODELS = {
    "soft": "reads one mean of the source, weighted by attention, and predicts from it",
    "hard-mono": "moves a pointer forward over the source, and reads only where it points",
    "prior-joint": (
        "makes a prediction at each source position and sums them, weighted by attention"
    ),
    "postr-joint": (
        "makes a prediction at each source position and sums them; once a symbol is written, it"
        " updates its attention by that symbol, and hands this on to the next step"
    ),
    "prox-postr-joint": "is Postr-Joint, and prefers to look near the position of the step before",
    "mono-postr-joint": "is Postr-Joint, and prefers to move forward over the source",
}
MORE_MODELS = {
    "none": "has no attention: it reads the whole source once, as one vector",
    "soft-no-input-feeding": "is Soft whose next step is not given the context of this one",
    "soft-reversed": "is Soft from target to source, for others to start from",
    "sparse": "is Soft whose attention may be exactly zero at most positions",
    "sparsemax": "is Soft whose attention may be exactly zero at most positions",
    "soft-entmax": "is Soft whose attention may be exactly zero at most positions",
    "soft-pointer": "is Soft that may copy words of the source",
    "soft-pointer-coverage": (
        "is Soft that may copy words of the source, and is kept from reading a word twice"
    ),
    "postr-joint-pointer": "is Postr-Joint that may copy words of the source",
    "local-m": "is Soft within a window that moves one position a step",
    "local-p": "is Soft within a window whose place is predicted",
    "structural": "is Soft that also knows positions, and where it looked before",
    "fertility": "is Soft that learns how much attention each source word should get in all",
    "agreement": "is Soft trained to agree with a model of the other direction",
    "structured": "attends by a chain over all positions, in which neighbours depend on each other",
    "hard": "draws one position at a time, and reads only there",
    "hard-moving": "draws one position at a time, trained against a moving average",
    "variational": "learns its attention by a bound, guided by a network that sees the output",
    "acvi": "adds random vectors to the contexts, learned by a variational bound",
    "ved": "adds one random vector for the whole sentence",
    "transformer": "is a Transformer, which attends many times in parallel",
    "ensemble": "is the mean of several trained models",
}
DESCRIPTIONS = MAIN_MODELS | MORE_MODELS


MOST_NAMED = 3  # models in one sentence
SHOWN_COMMIT = 7  # letters of a commit
POSTERIOR = "postr-joint"  # in the names of models with posterior attention
PAPER = "https://openreview.net/forum?id=BkltNhC9FX"  # which introduces posterior attention
PAPER_TITLE = "Posterior Attention Models for Sequence to Sequence Learning"


class Example(NamedTuple):
    """An input of a task and its reference."""

    source: str
    reference: str


def question(experiment: Experiment) -> str:
    """Say what the experiment asks."""
    if any(has_posterior(model, experiment) for model in experiment.model_names):
        return (
            "A model that writes an output symbol by symbol looks at its source at each step. Does"
            " it help if the symbol just written corrects where it looked?"
        )
    return (
        "A model that writes an output symbol by symbol looks at its source at each step. Which"
        " way of looking gives the better output?"
    )


def has_posterior(model: str, experiment: Experiment) -> bool:
    """Check whether a model, or the model of which it is a variant, has posterior attention."""
    return POSTERIOR in _base_of(model, experiment)


class About(NamedTuple):
    """The first sentence of the page, in parts: before the link, the link's text and after it."""

    before: str
    link: str
    after: str


def about(
    experiment: Experiment,
    tasks: Sequence[str],
    models: Mapping[str, str],
    names_authors: bool,
) -> About:
    """Say what is compared on which tasks, which models have posterior attention, and what it is.

    Args:
        tasks: their labels.
        models: model -> label of the models that ran.
        names_authors: whether the page speaks of papers.
    """
    count = len(experiment.model_names)
    compared = "One model is run" if count == 1 else f"{count} models are compared"
    compared += f" on {joined(tasks)}"
    posterior = [models[model] for model in models if has_posterior(model, experiment)]
    if not posterior:
        return About(f"{compared}; they differ in their attention to the source.", "", "")

    usual = ""
    if experiment.baseline in models and _base_of(experiment.baseline, experiment) == "soft":
        usual = f"{models[experiment.baseline]} is the usual attention; "
    have = (
        "have posterior attention: once a symbol is written, they correct where they looked in the"
        " source, and go on from there"
    )
    if len(posterior) == 1:
        have = (
            "has posterior attention: once a symbol is written, it corrects where it looked in the"
            " source, and goes on from there"
        )
    origin = "ICLR 2019"
    if names_authors:
        origin = f"Shankar and Sarawagi, {origin}"

    return About(
        before=f"{compared}. {usual}{joined(posterior, MOST_NAMED)} {have}, as in",
        link=PAPER_TITLE,
        after=f"({origin}).",
    )


def joined(texts: Sequence[str], most: int | None = None) -> str:
    """Return `a`, `a and b` or `a, b and c`; `a, b and 3 more` where there are more than `most`."""
    listed = list(texts)
    if most is not None and len(listed) > most:
        listed = [*listed[:most], f"{len(listed) - most} more"]
    *first, last = listed
    return f"{', '.join(first)} and {last}" if first else last


def code_of(trainings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Name the versions and commits of the code that trained, with the runs of each if they differ.

    Args:
        trainings: records of training.
    """
    runs: Counter[str] = Counter()
    for training in trainings:
        versions = training.get("versions") or {}
        name = "pam"
        if "pam" in versions:
            name += f" {versions['pam']}"
        # Only a checkout has a commit.
        if "commit" in versions:
            name += f", commit {versions['commit'][:SHOWN_COMMIT]}"
        runs[name] += 1

    if len(runs) < 2:
        return list(runs)
    return [
        f"{name} ({count} {'run' if count == 1 else 'runs'})" for name, count in runs.most_common()
    ]


def task_in_words(kind: str) -> str:
    """Say what a task of this kind is; an unknown kind is named as it is."""
    if kind not in KINDS:
        return kind
    return KINDS[kind].purpose


def example_of(kind: str, rows: pd.DataFrame) -> Example | None:
    """Choose a short example from the data of a table of outputs.

    Args:
        rows: those of one task.

    Returns:
        None where there is no row that the kind of task takes for an example.
    """
    shown_source: Callable[[str, str], str | None] | None = None
    if kind in KINDS and KINDS[kind].example:
        shown_source = imported(KINDS[kind].example)

    pairs = []
    for _, of_row in rows[rows["model"] == ""].groupby("sentence", sort=False):
        source, reference, *_ = of_row["text"]
        if shown_source is not None:
            source = shown_source(source, reference)
            if source is None:
                continue
        pairs.append(Example(source, reference))

    if not pairs:
        return None
    shortest = min(pairs, key=lambda pair: len(pair.source))
    return Example(_shortened(shortest.source), _shortened(shortest.reference))


def _shortened(text: str) -> str:
    """Return the first words of a text."""
    words = text.split()
    if len(words) <= SHOWN_WORDS:
        return " ".join(words)
    return " ".join([*words[:SHOWN_WORDS], "…"])


def descriptions(experiment: Experiment, labels: Mapping[str, str]) -> dict[str, str]:
    """Describe each model in a few words, without a reference to a paper.

    Args:
        labels: model -> label of the models that ran.

    Returns:
        model -> a predicate, such as `moves a pointer ...`, the main models first.
    """
    ordered = [model for model in MAIN_MODELS if model in labels]
    ordered += [model for model in labels if model not in MAIN_MODELS]
    return {model: _described(model, experiment) for model in ordered}


def _described(model: str, experiment: Experiment) -> str:
    """Describe a model by its name, and a variant by its base and by what it changes."""
    changes = experiment.variants().get(model)
    if changes is None:
        return DESCRIPTIONS.get(model) or _of_family(model)

    base = str(changes.get("from", "soft"))
    base_text = _described(base, experiment)
    settings = [
        f"{key} {_value(value)}"
        for key, value in changes.items()
        if key not in ("from", "label", "source")
    ]
    if not settings:
        return base_text
    return f"{base_text}; changed: {', '.join(settings)}"


def _of_family(model: str) -> str:
    """Describe a model whose name begins or ends with that of one that is described."""
    for name, text in DESCRIPTIONS.items():
        changes = re.fullmatch(rf"{re.escape(name)}-(.+)", model)
        if changes:
            return f"{text}; changed: {changes[1].replace('-', ' ')}"
    for name, text in reversed(DESCRIPTIONS.items()):
        if model == f"transformer-{name}":
            return f"{text}; it is a Transformer"
    return "is a model that this experiment configures"


def _base_of(model: str, experiment: Experiment) -> str:
    """Return the model of which a variant is made, or the model itself."""
    variants = experiment.variants()
    while model in variants and "from" in variants[model]:
        model = str(variants[model]["from"])
    return model


def _value(value: object) -> str:
    """Return a setting's value as text."""
    if isinstance(value, Mapping):
        return " ".join(f"{key} {_value(item)}" for key, item in value.items())
    return str(value)
