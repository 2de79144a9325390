"""Figures can be read: no text lies over another one or leaves the canvas, no mark is cut."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import yaml
from drawings import options_of_made
from made_runs import MadeExperiment
from made_translations import make_translations
from matplotlib.figure import Figure

from pam.reporting import style
from pam.reporting.catalogue import kind_of
from pam.reporting.figures import drawing_of, parser_of
from pam.reporting.figures.attention import ACROSS, attention
from pam.reporting.layout import problems
from pam.reporting.reference import ARCHIVE
from pam.runtime.files import write_json
from pam.workflow.stored import StoredRuns

ROOT = Path(__file__).parents[2]
STORED = sorted(path.parent for path in (ROOT / "results/reference").glob(f"*/{ARCHIVE}"))
TASKS = {
    "cldr": "CLDR de-en (generated)",
    "multi30k": "Multi30k de-en, as it is",
    "iwslt14": "IWSLT14 de-en, 35k pairs",
}
MODELS = [
    *("soft", "postr-joint", "prox-postr-joint", "mono-postr-joint", "prior-joint", "local-m"),
    *("transformer-mono-postr-joint", "transformer-prox-postr-joint", "transformer-prior-joint"),
    *("soft-no-input-feeding", "soft-pointer-coverage", "postr-joint-pointer", "acvi-literal"),
    *("variational-gumbel", "variational-sample", "transformer-soft", "structured"),
]


@pytest.fixture
def figure() -> Iterator[Figure]:
    """An empty figure."""
    with style.styled():
        figure = plt.figure(figsize=(4, 3))
        yield figure
        plt.close(figure)


def test_texts_over_texts_beyond_the_canvas_and_too_small_are_found(figure: Figure) -> None:
    figure.text(0.1, 0.5, "a first text")
    assert problems(figure) == []

    figure.text(0.15, 0.5, "a second text")
    figure.text(0.9, 0.9, "a text without room")
    figure.text(0.5, 0.1, "tiny", fontsize=5)
    assert sorted(problem.split("'")[1] for problem in problems(figure)) == [
        "a first text",
        "a text without room",
        "tiny",
    ]


def test_a_mark_that_the_panel_cuts_is_found(figure: Figure) -> None:
    axes = figure.subplots()
    axes.plot([1, 2], [1, 2], marker="o", ms=8)
    assert problems(figure) == []

    axes.set_xlim(1, 3)
    assert len(problems(figure)) == 1


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> MadeExperiment:
    """Three tasks and 17 models, all with long names; read only."""
    first, *others = TASKS
    made = make_translations(
        tmp_path_factory.mktemp("crowded"), tasks=[first], models=MODELS, seeds=[1], count=12
    )
    # The tasks differ in their names alone, so that their runs are made once.
    for name in others:
        shutil.copytree(made.folder / first, made.folder / name)
        for file in made.folder.glob(f"{name}/*/seed1/*"):
            if file.is_file():
                text = file.read_text(encoding="utf-8")
                file.write_text(text.replace(first, name), encoding="utf-8")

    content = yaml.safe_load(made.config.read_text(encoding="utf-8"))
    content["tasks"] = {
        name: content["tasks"][first] | {"dataset": name, "label": label}
        for name, label in TASKS.items()
    }
    made.config.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return made


@contextmanager
def drawn(name: str, words: Sequence[str], width: float = style.WIDTH) -> Iterator[Figure]:
    """Draw a figure by the options on a command line, without writing it."""
    kind = kind_of(name)
    with style.styled(width):
        options = parser_of(kind).parse_args(words)
        figure = drawing_of(kind)(**vars(options)).figure
        yield figure
        plt.close(figure)


@pytest.mark.parametrize("width", [style.WIDTH, style.NARROW])
@pytest.mark.parametrize(
    "name", ["bleu", "bleu_gains", "bleu_cost", "bleu_by_length", "coverage", "entropy_accuracy"]
)
def test_three_tasks_and_seventeen_models_with_long_names_have_room(
    crowded: MadeExperiment, name: str, width: float
) -> None:
    with drawn(name, options_of_made(name, crowded), width) as figure:
        assert problems(figure) == []
        assert figure.get_figwidth() == width


@pytest.mark.parametrize("words", [ACROSS, 30])
def test_maps_of_models_with_long_names_have_room(tmp_path: Path, words: int) -> None:
    symbols = [f"word{number}" for number in range(words)]
    row = {"source": symbols, "target": symbols, "alignment": np.eye(words).tolist()}
    files = []
    for name in ("Transformer", "Head alone, Prox-Postr-Joint, coverage"):
        files.append(tmp_path / f"{name}.json")
        write_json(files[-1], {"model": name, "label": name, "rows": [row]})

    with style.styled():
        figure = attention(*files, rows=1).figure
        assert problems(figure) == []
        plt.close(figure)


def check_stored(stored: Path, results: Path, names: Sequence[str]) -> None:
    """Check that figures of a stored experiment can be read, also as they are drawn for a phone."""
    found = {}
    runs = StoredRuns(stored, results)
    for name in names:
        widths = [style.WIDTH] if kind_of(name) == "attention" else [style.WIDTH, style.NARROW]
        for width in widths:
            with drawn(name, runs.figure_options(name), width) as figure:
                found[name, width] = problems(figure)

    unreadable = {place: texts for place, texts in found.items() if texts}
    assert unreadable == {}


def test_figures_of_a_stored_experiment_can_be_read(tmp_path: Path) -> None:
    check_stored(ROOT / "results/reference/batches", tmp_path, ["accuracy"])


@pytest.mark.faults
@pytest.mark.parametrize("stored", STORED, ids=lambda path: path.name)
def test_all_figures_of_all_stored_experiments_can_be_read(stored: Path, tmp_path: Path) -> None:
    figures = (path.stem for path in (stored / "figures").glob("*.svg"))
    check_stored(stored, tmp_path, [name for name in figures if kind_of(name)])
