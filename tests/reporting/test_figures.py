"""Figures: drawn in both formats, the same every time, and clear about bad input."""

from __future__ import annotations

import argparse
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import yaml
from drawings import without_png
from made_runs import MadeExperiment, attention_record, make_experiment
from made_translations import make_translations
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pam.commands import evaluate
from pam.evaluation.attention import Analysis
from pam.evaluation.records import load, save
from pam.reporting import runs, style
from pam.reporting.catalogue import DRAWINGS, FIGURES
from pam.reporting.comparison import compare
from pam.reporting.figures import drawing_of, models, parser_of
from pam.reporting.figures.attention import attention
from pam.reporting.histories import history_columns
from pam.reporting.layout import problems
from pam.reporting.runs import load_experiment
from pam.runtime.errors import UserError
from pam.runtime.files import write_json


def draw(kind: str, *arguments: object) -> None:
    """Draw and write a figure by its command."""
    parser = argparse.ArgumentParser()
    evaluate.figures.add_to(parser)
    assert evaluate.figures.run(parser.parse_args([kind, *map(str, arguments)])) == 0


def arguments(kind: str, made: MadeExperiment) -> list[object]:
    """Return the options of a figure of that kind."""
    if kind == "attention":
        soft = made.run("de-noun", "soft") / "attention.json"
        joint = made.run("de-noun", "postr-joint") / "attention.json"
        return ["--base", soft, "--other", joint, "--rows", 1]

    if kind == "curves":
        return ["--experiment", made.config, "--histories", *made.histories]
    if kind in ("entropy_accuracy", "coverage"):
        return ["--experiment", made.config, "--analyses", *made.analyses]

    options = ["--experiment", made.config, "--scores", *made.scores]
    if kind in ("bleu_by_length", "sweep"):
        return options
    if kind == "bleu_by_size":
        return [*options, "--data", *sorted(made.folder.glob("*/data/summary.json"))]
    return [*options, "--paper", made.paper, "--paper-table", "table2"]


TRANSLATED = ("entropy_accuracy", "coverage", "bleu_by_length", "bleu_by_size")


@contextmanager
def drawn(kind: str, made: MadeExperiment, *more: object) -> Iterator[Figure]:
    """Draw a figure without writing it."""
    options = [str(option) for option in (*arguments(kind, made), *more)]
    with style.styled():
        figure = drawing_of(kind)(**vars(parser_of(kind).parse_args(options))).figure
        yield figure
        plt.close(figure)


def marks(panel: Axes, marker: str) -> list[tuple[float, float]]:
    """Return the positions of a panel's single marks of this kind."""
    lines = [line for line in panel.lines if line.get_marker() == marker]
    return [(line.get_xdata()[0], line.get_ydata()[0]) for line in lines]


def test_accuracy_shows_ours_and_the_papers_figures_in_their_places(made: MadeExperiment) -> None:
    experiment = runs.load_experiment(made.config)
    rows = compare(runs.load_runs(made.scores, experiment), experiment, ["accuracy"], None)
    with drawn("quality", made) as figure:
        nouns, verbs = figure.axes
        assert marks(nouns, "|") == [(85.50, 0), (85.88, 1), (86.87, 2)]
        assert marks(verbs, "|") == [(94.91, 0), (95.5, 1), (95.71, 2)]
        assert marks(nouns, style.look("mono-postr-joint").marker) == [(rows[2].mean, 2)]
        names = [label.get_text() for label in nouns.get_yticklabels()]
        assert names == ["Soft", "Postr-Joint", "Mono-Postr-Joint"]


def test_words_below_narrow_panels_stay_within_the_figure(made: MadeExperiment) -> None:
    rows = models.compared(made.config, made.scores, "accuracy", made.paper, "table2")
    marks_of_rows = []
    for row in rows:
        long_name = row._replace(label=f"{row.label}, REINFORCE, pointer, coverage")
        marks_of_rows.append((long_name, models.Mark(row.mean, row.low, row.high, None)))

    with style.styled():
        figure = models._line_per_model(
            marks_of_rows, lambda metric: "ROUGE-L: gain over Soft, pointer, coverage", "ours,"
        )
        assert problems(figure) == []
        plt.close(figure)


def test_gains_are_drawn_without_the_baseline(made: MadeExperiment) -> None:
    with drawn("gains", made) as figure:
        assert marks(figure.axes[0], "|") == [
            (pytest.approx(85.88 - 85.50), 0),
            (pytest.approx(86.87 - 85.50), 1),
        ]


def test_a_joined_model_costs_what_its_members_do(tmp_path: Path) -> None:
    names = ["soft", "postr-joint"]
    made = make_experiment(tmp_path, models=names, seeds=[1], tasks=["de-noun"])

    def seconds() -> list[float]:
        with drawn("cost", made) as figure:
            return [marks(figure.axes[0], style.look(name).marker)[0][0] for name in names]

    soft, postr = seconds()
    (path,) = (path for path in made.scores if "postr-joint" in path.parts)
    content = json.loads(path.read_text(encoding="utf-8"))
    content["training"]["members"] = [f"results/made/{path.parts[-4]}/soft/seed1/model"]
    write_json(path, content)

    assert seconds() == [soft, pytest.approx(soft + postr)]

    content["training"]["members"] = ["another"]
    write_json(path, content)
    with drawn("cost", made) as figure:
        assert marks(figure.axes[0], style.look("postr-joint").marker) == []


def on_gpu(made: MadeExperiment, model: str, seed: int, *, decoded_too: bool = True) -> None:
    """Make a run one that was trained, and decoded, on a GPU in seven seconds each."""
    path = made.run("de-noun", model, seed) / "scores.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["training"]["gpu_s"] = 7.0
    content["decoding"]["1"]["gpu_s"] = 7.0 * decoded_too
    content["cost"]["gpu_s"] = 7.0 + 7.0 * decoded_too
    write_json(path, content)


def test_costs_on_different_devices_are_in_different_panels_which_name_what_they_leave_out(
    tmp_path: Path,
) -> None:
    names = ["soft", "postr-joint", "mono-postr-joint"]
    made = make_experiment(tmp_path, models=names, seeds=[1, 2], tasks=["de-noun"])
    with drawn("cost", made) as figure:
        (panel,) = figure.axes
        costs = {name: marks(panel, style.look(name).marker)[0][0] for name in names}
        assert panel.get_xlabel() == "CPU seconds of training and decoding"

    # One of two seeds of a model is on a GPU. Both seeds of another model are trained on a GPU and
    # decoded elsewhere.
    on_gpu(made, "postr-joint", 1)
    for seed in (1, 2):
        on_gpu(made, "mono-postr-joint", seed, decoded_too=False)
    with drawn("cost", made) as figure:
        processor, card = figure.axes
        soft, joint, mono = (style.look(name).marker for name in names)
        assert marks(processor, soft)[0][0] == costs["soft"]
        assert marks(processor, joint)[0][0] == pytest.approx(costs["postr-joint"], rel=0.1)
        assert marks(card, joint)[0][0] == 14.0
        assert marks(processor, mono) == marks(card, mono) == marks(card, soft) == []
        assert processor.get_title(loc="left").endswith("on a CPU")
        assert " ".join(processor.get_xlabel().split()).endswith("on a CPU alone: Mono-Postr-Joint")
        assert " ".join(card.get_xlabel().split()).endswith(
            "on a GPU alone: Soft, Mono-Postr-Joint"
        )


def test_a_metric_of_a_main_beam_is_found_by_its_pattern(translated: MadeExperiment) -> None:
    with drawn("quality", translated, "--metric", "bleu_b*", "--paper-table", "table1") as figure:
        assert figure.axes[0].get_xlabel() == "BLEU, beam 4"
    with drawn("gains", translated, "--metric", "ppl", "--paper-table", "table1") as figure:
        panel = figure.axes[0]
        assert marks(panel, "|") == [
            (pytest.approx(9.61 - 8.47), 0),
            (pytest.approx(9.61 - 8.51), 1),
        ]
        assert all(x > 0 for x, _ in marks(panel, style.look("postr-joint").marker))

    with drawn("quality", translated, "--metric", "ppl") as figure:
        assert figure.axes[0].get_xlabel() == "Perplexity (lower is better)"


def test_accuracy_by_entropy_adds_seeds_up_and_leaves_out_rare_bins(
    translated: MadeExperiment,
) -> None:
    paths = [translated.run("de-en", "soft", seed) / "analysis.json" for seed in (1, 2)]
    entropies = [load(Analysis, path).entropy for path in paths]
    count = np.sum([entropy.count for entropy in entropies], axis=0)
    right = np.sum([entropy.correct for entropy in entropies], axis=0)
    frequent = count >= 50

    assert 0 < frequent.sum() < len(count)

    with drawn("entropy_accuracy", translated) as figure:
        upper, lower = figure.axes
        line = upper.lines[0]
        np.testing.assert_allclose(line.get_xdata(), np.arange(0.125, 4, 0.25)[frequent])
        np.testing.assert_allclose(line.get_ydata(), 100 * right[frequent] / count[frequent])
        for steps in lower.patches:
            assert steps.get_data().values.sum() == pytest.approx(100)


def test_entropies_of_the_posterior_stand_beside_those_of_the_prior_if_all_runs_have_them(
    tmp_path: Path,
) -> None:
    made = make_translations(tmp_path, tasks=["de-en"], models=["soft", "postr-joint"])
    paths = list(made.analyses)
    for path in paths:
        analysis = load(Analysis, path)
        sharper = analysis.entropy.model_copy(update={"count": analysis.entropy.count[::-1]})
        save(analysis.model_copy(update={"posterior_entropy": sharper}), path)

    with drawn("entropy_accuracy", made) as figure:
        titles = [panel.get_title("left") for panel in figure.axes[:2]]
        assert [title.split(", ")[-1] for title in titles] == ["prior", "posterior"]
        by_prior, by_posterior = (panel.patches[0].get_data().values for panel in figure.axes[2:])
        np.testing.assert_allclose(by_posterior, by_prior[::-1])

    save(load(Analysis, paths[0]).model_copy(update={"posterior_entropy": None}), paths[0])
    with drawn("entropy_accuracy", made) as figure:
        assert len(figure.axes) == 2


def test_coverage_is_shown_over_sentences_and_over_words(translated: MadeExperiment) -> None:
    path = translated.run("de-en", "postr-joint", 1) / "analysis.json"
    with drawn("coverage", translated) as figure:
        upper, lower = figure.axes
        assert len(upper.patches) == len(lower.patches) == 3
        assert upper.patches[2].get_data().values.sum() == pytest.approx(100)
        edges = lower.patches[2].get_data().edges
        np.testing.assert_allclose(edges, load(Analysis, path).coverage.edges)


def test_bleu_by_length_names_lengths_and_sentences(translated: MadeExperiment) -> None:
    with drawn("bleu_by_length", translated) as figure:
        panel = figure.axes[0]
        names = [label.get_text().split("\n") for label in panel.get_xticklabels()]
        assert [lengths for lengths, _ in names] == ["10–19", "20–29"]
        assert sum(int(sentences) for _, sentences in names) < 40
        assert len(panel.lines) == 3


def test_bleu_by_size_puts_tasks_of_the_same_data_by_their_training_pairs(tmp_path: Path) -> None:
    made = make_translations(tmp_path, tasks=["few", "all"], models=["soft", "postr-joint"])
    content = yaml.safe_load(made.config.read_text(encoding="utf-8"))
    for name, size in (("few", 100), ("all", None)):
        content["tasks"][name] |= {"dataset": "some", "format": {"train_pairs": size}}
    made.config.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    experiment = load_experiment(made.config)
    kinds = {"few": "translation", "all": "translation"}

    assert FIGURES["bleu_by_size"].shows(experiment, kinds) == ["few", "all"]

    summaries = []
    for name, rows in (("few", 100), ("all", 10_000)):
        summary = made.folder / name / "data" / "summary.json"
        write_json(summary, {"splits": {"train": {"rows": rows}}})
        summaries.append(summary)

    with style.styled():
        figure = drawing_of("bleu_by_size")(made.config, made.scores, summaries).figure
        (panel,) = figure.axes
        assert panel.get_xscale() == "log"
        assert {tuple(line.get_xdata()) for line in panel.lines} == {(100, 10_000)}
        plt.close(figure)


@pytest.mark.parametrize(("kind", "option"), [("coverage", "analyses"), ("curves", "histories")])
def test_files_of_another_experiment_are_refused(
    made: MadeExperiment, translated: MadeExperiment, tmp_path: Path, kind: str, option: str
) -> None:
    files = getattr(translated, option)
    options = ["--experiment", made.config, f"--{option}", *files]

    with pytest.raises(UserError, match="task `de-en`") as raised:
        draw(kind, *options, "--out", tmp_path / "figure.svg")
    assert raised.value.file == str(files[0])


def test_trainings_without_accuracy_show_their_training_loss(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], models=["soft"], seeds=[1], count=5)
    rows = [line.split(",") for line in made.histories[0].read_text(encoding="utf-8").split()]
    column = rows[0].index("dev_accuracy")
    for row in rows[1:]:
        row[column] = ""
    made.histories[0].write_text("\n".join(map(",".join, rows)) + "\n", encoding="utf-8")
    with drawn("curves", made) as figure:
        assert [axes.get_title(loc="left") for axes in figure.axes] == ["de-N", ""]
        names = [axes.get_ylabel().partition("\n")[0] for axes in figure.axes]
        assert names == ["training loss", "development loss"]


def test_curves_show_the_mean_over_seeds_in_per_cent(made: MadeExperiment) -> None:
    paths = [made.run("de-noun", "soft", seed) / "history.csv" for seed in (1, 2)]
    first, second = (history_columns(path)["dev_accuracy"] for path in paths)
    with drawn("curves", made) as figure:
        thick = [line for line in figure.axes[0].lines if line.get_linewidth() > 1]
        np.testing.assert_allclose(thick[0].get_ydata(), 50 * (first + second))
        assert len(figure.axes[0].lines) == 3 * (1 + 2)


def test_losses_by_symbol_and_by_action_are_on_axes_of_their_own(tmp_path: Path) -> None:
    made = make_experiment(
        tmp_path, tasks=["de-noun"], models=["soft", "hard-mono"], seeds=[1], count=5
    )
    path = made.run("de-noun", "hard-mono") / "run.yaml"
    run = yaml.safe_load(path.read_text(encoding="utf-8"))
    run["components"]["targets"] = "actions"
    path.write_text(yaml.safe_dump(run), encoding="utf-8")
    with drawn("curves", made) as figure:
        colors = {
            panel.get_ylabel().removesuffix(", log scale"): [
                line.get_color() for line in panel.lines
            ]
            for panel in figure.axes
        }
        figure.canvas.draw()
        for panel in figure.axes:
            assert panel.yaxis.label.get_window_extent().height <= panel.get_window_extent().height

    soft, hard = (style.look(model).color for model in ("soft", "hard-mono"))

    assert colors == {
        "development accuracy\n(%)": [soft, hard],
        "development loss\n(nats a symbol)": [soft],
        "development loss\n(nats an action)": [hard],
    }


def test_measured_trainings_show_symbols_bound_and_perplexity(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], models=["soft"], seeds=[1], count=5)
    path = made.histories[0]
    rows = path.read_text(encoding="utf-8").split()
    rows = [f"{rows[0]},dev_token_accuracy,dev_objective", *(f"{row},0.5,-1.5" for row in rows[1:])]

    with (
        pytest.raises(UserError, match="eval_metrics: true"),
        drawn("curves", made, "--eval-metrics"),
    ):
        pass

    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    losses = history_columns(path)["dev_loss"]
    with drawn("curves", made, "--eval-metrics") as figure:
        accuracy, objective, perplexity = (axes.lines[0].get_ydata() for axes in figure.axes[:3])
        assert (float(accuracy[0]), float(objective[0])) == (50.0, -1.5)
        np.testing.assert_allclose(perplexity, np.exp(losses))
        assert {axes.get_xlabel() for axes in figure.axes[:3]} == {"epoch of 296 steps"}


def test_where_sums_are_measured_a_panel_shows_their_positions(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], models=["soft"], seeds=[1], count=5)
    path = made.histories[0]
    rows = path.read_text(encoding="utf-8").split()
    named = f"{rows[0]},dev_token_accuracy,dev_objective,dev_positions"
    path.write_text(
        "\n".join([named, *(f"{row},0.5,-1.5,4.6" for row in rows[1:])]) + "\n", encoding="utf-8"
    )
    with drawn("curves", made, "--eval-metrics") as figure:
        assert figure.axes[3].get_ylabel() == "positions summed over\n(a symbol)"
        assert float(figure.axes[3].lines[0].get_ydata()[0]) == 4.6


def test_a_training_of_one_epoch_is_a_point(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], models=["soft"], seeds=[1], count=5)
    lines = made.histories[0].read_text(encoding="utf-8").split("\n")[:2]
    made.histories[0].write_text("\n".join(lines) + "\n", encoding="utf-8")
    with drawn("curves", made) as figure:
        assert [x for x, _ in marks(figure.axes[0], style.look("soft").marker)] == [1.0]
        assert [tick for tick in figure.axes[0].get_xticks() if 0.5 < tick < 1.5] == [1.0]


def test_attention_is_red_where_the_other_model_has_more(made: MadeExperiment) -> None:
    base, other = (
        np.array(attention_record("", "", sharpness)["rows"][0]["alignment"])
        for sharpness in (1.2, 2.5)
    )
    with drawn("attention", made) as figure:
        difference = figure.axes[2].collections[0]
        np.testing.assert_allclose(difference.get_array(), (other - base).T)
        most, least = difference.cmap(difference.norm([1.0, -1.0]))
        assert most[0] > most[2]
        assert least[2] > least[0]


def test_attention_of_more_models_is_in_the_data_and_not_in_the_picture(
    made: MadeExperiment,
) -> None:
    paths = [
        made.run("de-noun", model) / "attention.json"
        for model in ("soft", "postr-joint", "mono-postr-joint")
    ]
    with style.styled():
        base, other, more = paths
        drawing = attention(base, other, rows=2, more=[more])

    labels = [axes.texts[0].get_text() for axes in drawing.figure.axes[:3]]
    assert labels == ["Soft", "Postr-Joint", "Postr-Joint − Soft"]
    assert list(drawing.data["label"].unique()) == ["Soft", "Postr-Joint", "Mono-Postr-Joint"]
    assert set(drawing.data["row"]) == {1, 2}
    plt.close(drawing.figure)


@pytest.mark.parametrize("kind", DRAWINGS)
def test_each_figure_is_written_as_svg_and_png_and_is_the_same_every_time(
    made: MadeExperiment,
    translated: MadeExperiment,
    swept: MadeExperiment,
    tmp_path: Path,
    kind: str,
) -> None:
    experiment = translated if kind in TRANSLATED else made
    if kind == "sweep":
        experiment = swept
    options = arguments(kind, experiment)

    narrow = tmp_path / "narrow.svg"
    draw(kind, *options, "--out", tmp_path / "first" / "figure.svg", "--narrow", narrow)
    # A PNG has nothing of its own that could differ.
    with nullcontext() if kind == "quality" else without_png():
        draw(kind, *options, "--out", tmp_path / "second" / "figure.svg")

    svg = (tmp_path / "first" / "figure.svg").read_bytes()

    assert svg == (tmp_path / "second" / "figure.svg").read_bytes()
    assert ElementTree.fromstring(svg).tag.endswith("svg")  # noqa: S314
    assert b"<dc:date>" not in svg
    if kind != "attention":
        width = float(ElementTree.fromstring(narrow.read_bytes()).attrib["viewBox"].split()[2])  # noqa: S314
        assert width == pytest.approx(72 * style.NARROW)

    png = (tmp_path / "first" / "figure.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    if kind == "quality":
        assert png == (tmp_path / "second" / "figure.png").read_bytes()

    data = pd.read_csv(tmp_path / "first" / "figure.csv")
    assert len(data) and "model" in data.columns


@pytest.mark.parametrize("kind", ["quality", "gains", "cost", "curves"])
@without_png()
def test_a_single_task_and_seed_can_be_drawn(tmp_path: Path, kind: str) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], seeds=[1], count=5, paper=False)
    draw(kind, *arguments(kind, made), "--out", tmp_path / "figure.png")
    assert (tmp_path / "figure.svg").is_file()


@without_png()
def test_drawing_leaves_the_callers_settings_alone(made: MadeExperiment, tmp_path: Path) -> None:
    mpl.rcParams["font.size"] = 33
    draw("quality", *arguments("quality", made), "--out", tmp_path / "figure.svg")
    assert mpl.rcParams["font.size"] == 33
    mpl.rcdefaults()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--metric", "acuracy"], "unknown metric `acuracy`"),
        (["--paper-table", "table9"], "unknown table"),
    ],
)
def test_misspelt_names_are_refused(
    made: MadeExperiment, tmp_path: Path, options: list[str], words: str
) -> None:
    out = tmp_path / "figure.svg"
    with pytest.raises(UserError, match=words):
        draw("quality", *arguments("quality", made), *options, "--out", out)
    assert not out.exists()


def test_gains_need_a_model_beside_the_baseline(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], models=["soft"], seeds=[1], count=5)
    with pytest.raises(UserError, match="no gains"):
        draw("gains", *arguments("gains", made), "--out", tmp_path / "figure.svg")


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (lambda text: text.replace("dev_loss", "loss"), 1, "missing column `dev_loss`"),
        (lambda text: text.split("\n")[0] + "\n", None, "no epochs"),
        (lambda text: text[: text.rindex("\n", 0, -1) + 9] + "\n", 13, "a number is missing"),
    ],
)
def test_a_damaged_history_is_named_with_its_line(
    tmp_path: Path, change: object, line: int | None, words: str
) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], models=["soft"], seeds=[1], count=5)
    path = made.histories[0]

    assert callable(change)

    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(UserError, match=words) as raised:
        draw("curves", *arguments("curves", made), "--out", tmp_path / "figure.svg")
    assert (raised.value.file, raised.value.line) == (str(path), line)


def sentence(words: int) -> dict[str, object]:
    """Return a sentence of so many words on either side, aligned in order."""
    source = [f"wort{number}" for number in range(words)] + ["</s>"]
    target = [f"word{number}" for number in range(words)] + ["</s>"]
    return {"source": source, "target": target, "alignment": np.eye(words + 1).tolist()}


class TestAttention:
    @pytest.mark.parametrize(("words", "columns"), [(12, 3), (30, 1)])
    def test_words_of_sentences_keep_their_room(
        self, tmp_path: Path, words: int, columns: int
    ) -> None:
        files = []
        for name in ("base", "other"):
            file = tmp_path / f"{name}.json"
            content = {"model": name, "label": name, "rows": [sentence(words)]}
            file.write_text(json.dumps(content), encoding="utf-8")
            files.append(file)

        with style.styled():
            figure = attention(*files, rows=4).figure
            figure.canvas.draw()
        panels = figure.axes[:3]
        lefts = {round(panel.get_window_extent().x0) for panel in panels}

        assert len(lefts) == columns

        width = panels[0].get_window_extent().width / (words + 1)
        ticks = panels[0].get_xticklabels()

        assert max(tick.get_window_extent().width for tick in ticks) <= width

        plt.close(figure)

    def draw(self, tmp_path: Path, base: object, other: object) -> None:
        """Draw the alignments of two contents of files."""
        for name, content in (("base", base), ("other", other)):
            (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        paths = ["--base", tmp_path / "base.json", "--other", tmp_path / "other.json"]
        draw("attention", *paths, "--out", tmp_path / "figure.svg")

    def test_files_about_other_rows_are_refused(self, tmp_path: Path) -> None:
        base, other = (attention_record("soft", "Soft", 1.0) for _ in range(2))
        other["rows"][1]["target"][-2] = "e"
        with pytest.raises(UserError, match="row 2 is not the same"):
            self.draw(tmp_path, base, other)

    def test_more_files_about_other_rows_are_refused(self, tmp_path: Path) -> None:
        paths = []
        for name in ("base", "other", "more"):
            content = attention_record(name, name, 1.0)
            if name == "more":
                content["rows"][2]["source"][-2] = "e"
            paths.append(tmp_path / f"{name}.json")
            write_json(paths[-1], content)

        with pytest.raises(UserError, match="row 3 is not the same") as raised:
            attention(paths[0], paths[1], rows=4, more=paths[2:])
        assert raised.value.file == str(paths[2])

    def test_files_with_fewer_rows_are_refused(self, tmp_path: Path) -> None:
        base, other = (attention_record("soft", "Soft", 1.0) for _ in range(2))
        del other["rows"][3]
        with pytest.raises(UserError, match="row 4 is not the same"):
            self.draw(tmp_path, base, other)

    def test_a_matrix_that_does_not_fit_is_refused(self, tmp_path: Path) -> None:
        base, other = (attention_record("soft", "Soft", 1.0) for _ in range(2))
        other["rows"][0]["alignment"][2].pop()
        with pytest.raises(UserError, match="does not fit"):
            self.draw(tmp_path, base, other)

    def test_a_file_without_alignments_is_refused(self, tmp_path: Path) -> None:
        base = attention_record("soft", "Soft", 1.0)
        with pytest.raises(UserError, match="rows") as raised:
            self.draw(tmp_path, base, {"model": "x", "label": "X", "rows": []})
        assert raised.value.file == str(tmp_path / "other.json")
