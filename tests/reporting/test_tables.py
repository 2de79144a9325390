"""Tables are written with exact columns, the paper's figures and escapes in every format."""

from __future__ import annotations

import argparse
import csv
import html
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml
from made_runs import MadeExperiment, make_experiment
from made_translations import make_translations

from pam.commands import evaluate
from pam.data.vocabulary import Vocabulary
from pam.evaluation.attention import Analysis
from pam.evaluation.metrics import METRICS
from pam.evaluation.records import load
from pam.reporting import cells, render
from pam.reporting.catalogue import TABLES
from pam.reporting.cells import Estimate, Missing, Value
from pam.reporting.comparison import RULE, compare
from pam.reporting.render import Column, Field, Note, Row, Table
from pam.reporting.runs import load_experiment, load_runs, reasons_left_out
from pam.reporting.tables.lengths import chosen
from pam.runtime.errors import UserError
from pam.runtime.files import write_json

COLUMNS = (
    "task,model,metric,mean,sd,n,low,high,paper,difference,gain,gain_low,gain_high,p_vs_soft,"
    "p_holm,direction,setting,cpu_s,gpu_s"
)


def make(
    made: MadeExperiment, name: str, out: Path, **files: Sequence[Path]
) -> list[dict[str, str]]:
    """Make a table by its command, of `files` or the scores, and return the CSV's rows."""
    parser = argparse.ArgumentParser()
    evaluate.tables.add_to(parser)
    arguments = ["--table", name, "--experiment", str(made.config), "--paper", str(made.paper)]
    for option, paths in (files or {"scores": made.scores}).items():
        arguments += [f"--{option}", *map(str, paths)]

    assert evaluate.tables.run(parser.parse_args([*arguments, "--out", str(out)])) == 0

    with (out / f"{name}.csv").open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


@pytest.mark.parametrize("name", ["table2", "table2_paradigms"])
def test_csv_has_exactly_the_promised_columns_and_a_row_per_task_and_model(
    made: MadeExperiment, tmp_path: Path, name: str
) -> None:
    rows = make(made, name, tmp_path)
    header = (tmp_path / f"{name}.csv").read_text(encoding="utf-8").split("\n")[0]
    assert header == COLUMNS

    models = ["soft", "postr-joint", "mono-postr-joint"]
    metrics = 2 if name == "table2_paradigms" else 1
    expected = [(task, model) for task in ("de-noun", "de-verb") for model in models * metrics]

    assert [(row["task"], row["model"]) for row in rows] == expected


def test_csv_is_in_per_cent_and_empty_where_nothing_is_known(
    made: MadeExperiment, tmp_path: Path
) -> None:
    rows = make(made, "table2", tmp_path)
    soft, _, mono = rows[:3]
    assert (soft["paper"], soft["p_vs_soft"], soft["n"]) == ("85.5", "", "2")
    assert 50 < float(soft["low"]) < float(soft["mean"]) < float(soft["high"]) < 100
    assert float(soft["difference"]) == pytest.approx(float(soft["mean"]) - 85.5)
    assert 0 < float(mono["p_vs_soft"]) <= 1
    gain = float(mono["mean"]) - float(soft["mean"])
    assert float(mono["gain"]) == pytest.approx(gain, abs=2e-4)
    assert float(mono["gain_low"]) < gain < float(mono["gain_high"])
    assert [soft[name] for name in ("gain", "gain_low", "gain_high")] == [""] * 3

    paradigms = make(made, "table2_paradigms", tmp_path)
    assert (paradigms[0]["paper"], paradigms[0]["difference"]) == ("", "")
    assert paradigms[0]["direction"] == "not judged"


def test_an_unreadable_figure_of_the_paper_is_an_empty_cell(
    made: MadeExperiment, tmp_path: Path
) -> None:
    figures = tmp_path / "paper_results.yaml"
    text = made.paper.read_text(encoding="utf-8").replace("soft: 85.50", "soft: null")
    figures.write_text(text, encoding="utf-8")
    rows = make(MadeExperiment(made.folder, made.config, figures), "table2", tmp_path)
    assert (rows[0]["paper"], rows[0]["direction"]) == ("", "not judged")
    assert (rows[1]["paper"], rows[1]["direction"]) == ("85.88", "not judged")


def test_people_read_the_papers_figure_the_verdict_and_the_rule(
    judged: MadeExperiment, tmp_path: Path
) -> None:
    rows = make(judged, "table2", tmp_path)
    for ending in (".md", ".html"):
        text = (tmp_path / f"table2{ending}").read_text(encoding="utf-8")
        assert "86.87" in text
        assert rows[2]["direction"] in text
        assert rows[2]["setting"] in html.unescape(text)
        assert "Shankar" in text

    # In Markdown the rule takes several lines.
    assert RULE in " ".join((tmp_path / "table2.md").read_text(encoding="utf-8").split())


def test_figures_for_other_data_are_marked(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], seeds=[1], count=10, paper=False)
    rows = make(made, "table2", tmp_path)
    assert (rows[0]["paper"], rows[0]["difference"]) == ("85.5", "")
    text = (tmp_path / "table2.md").read_text(encoding="utf-8")
    assert r"85.50\*" in text
    assert "not ours" in text


def test_columns_for_the_paper_are_shown_where_it_has_a_figure(
    made: MadeExperiment, tmp_path: Path
) -> None:
    for name, has_paper in (("table2", True), ("table2_paradigms", False)):
        make(made, name, tmp_path)
        head = (tmp_path / f"{name}.md").read_text(encoding="utf-8").split("\n")[2]
        for heading in ("| Paper |", "| Gain, paper |"):
            assert (heading in head) is has_paper


def test_gains_name_what_decided_each_verdict(made: MadeExperiment, tmp_path: Path) -> None:
    rows = make(made, "table2_gains", tmp_path)
    assert [row["model"] for row in rows[:2]] == ["postr-joint", "mono-postr-joint"]
    assert float(rows[1]["paper_gain"]) == pytest.approx(1.37)
    assert float(rows[1]["low"]) <= float(rows[1]["gain"]) <= float(rows[1]["high"])
    assert all(row["reason"] for row in rows)


def test_costs_have_a_row_per_run_and_a_sum(made: MadeExperiment, tmp_path: Path) -> None:
    rows = make(made, "costs", tmp_path)
    assert len(rows) == len(made.scores)
    assert float(rows[0]["cpu_s"]) == pytest.approx(131 + 1.3)
    assert (rows[0]["device"], rows[0]["best_epoch"], rows[0]["epochs"]) == ("cpu", "9", "12")
    assert float(rows[0]["peak_memory_mb"]) == 540

    last = (tmp_path / "costs.md").read_text(encoding="utf-8").split("| All")[1]
    assert f"{sum(float(row['cpu_s']) for row in rows):,.0f}" in last


def test_environment_counts_runs_by_version_and_hardware(
    made: MadeExperiment, tmp_path: Path
) -> None:
    rows = make(made, "environment", tmp_path)
    facts = {(row["name"], row["value"]): row["runs"] for row in rows}
    assert facts["torch", "2.13.0"] == str(len(made.scores))
    assert ("gpu", "None") not in facts
    assert facts["precision", "unknown"] == str(len(made.scores))


def test_the_same_scores_give_the_same_bytes(made: MadeExperiment, tmp_path: Path) -> None:
    for folder in ("first", "second"):
        make(made, "table2", tmp_path / folder)
    for ending in (".csv", ".md", ".tex", ".html"):
        first, second = (tmp_path / name / f"table2{ending}" for name in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()


def test_an_unknown_table_names_the_closest(made: MadeExperiment, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="table22") as raised:
        make(made, "table22", tmp_path)
    assert "did you mean `table2`?" in (raised.value.hint or "")
    assert not list(tmp_path.iterdir())


def test_the_papers_name_of_a_task_is_said_where_the_paper_is_named(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, models=["soft", "postr-joint"], seeds=[1], count=5)
    text = made.config.read_text(encoding="utf-8")
    text = text.replace("label: de-N", "label: German nouns")
    made.config.write_text(text.replace("label: de-V", "label: German verbs"), encoding="utf-8")

    make(made, "table2", tmp_path / "out")

    page = " ".join((tmp_path / "out/table2.md").read_text(encoding="utf-8").split())
    assert "Its row beside German nouns is de-N, beside German verbs de-V." in page
    assert page.count("de-N") == 1


def test_a_row_that_the_paper_lacks_is_named(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], models=["soft"], seeds=[1], count=5)
    text = made.config.read_text(encoding="utf-8").replace("paper: de-N", "paper: de-X")
    made.config.write_text(text, encoding="utf-8")

    with pytest.raises(UserError, match="de-X") as raised:
        make(made, "table2", tmp_path / "out")
    assert "de-N, de-V" in (raised.value.hint or "")
    assert not (tmp_path / "out").exists()


def test_what_scoring_noted_and_blank_outputs_stand_below_a_comparison(tmp_path: Path) -> None:
    made = make_translations(tmp_path, models=["soft", "postr-joint"], count=20, seeds=(1, 2))
    for path in made.scores:
        scores = json.loads(path.read_text(encoding="utf-8"))
        scores["details"]["notes"] = ["scored as Chinese"]
        # Beams 4 and 10 were decoded, of which 4 is the main one.
        blank = 3 if scores["model"] == "soft" else 0
        scores["details"] |= {"empty_b4": blank, "empty_b10": 7}
        path.write_text(json.dumps(scores), encoding="utf-8")

    make(made, "table1", tmp_path / "tables")
    text = (tmp_path / "tables/table1.md").read_text(encoding="utf-8")
    text = " ".join(text.split())
    assert text.count("scored as Chinese") == 1
    assert "Soft 6 of 40" in text and "Postr-Joint 0 of" not in text


def test_table_1_has_the_columns_of_table_2_and_a_row_per_metric_and_model(
    translated: MadeExperiment, tmp_path: Path
) -> None:
    rows = make(translated, "table1", tmp_path)
    assert (tmp_path / "table1.csv").read_text(encoding="utf-8").split("\n")[0] == COLUMNS

    models = ["soft", "prior-joint", "postr-joint"]
    metrics = ["ppl", "bleu_b4", "bleu_b10"]
    expected = [(metric, model) for metric in metrics for model in models]

    assert [(row["metric"], row["model"]) for row in rows] == expected
    assert [row["paper"] for row in rows[:6]] == ["9.61", "8.47", "8.51", "", "", ""]
    assert rows[3]["direction"] == "not judged"

    page = (tmp_path / "table1.html").read_text(encoding="utf-8")
    assert page.count('<tr class="group">') == 2

    for text in ("lower is better", "positive where the model is better", "smooth:none"):
        assert text in page


def test_gains_of_perplexity_are_positive_where_it_falls(
    judged_translation: MadeExperiment, tmp_path: Path
) -> None:
    rows = make(judged_translation, "table1_gains", tmp_path)
    assert rows[0]["metric"] == "ppl"
    assert float(rows[0]["paper_gain"]) == pytest.approx(9.61 - 8.51)
    assert float(rows[0]["gain"]) > 0
    assert rows[0]["direction"] == "agrees"


def test_p_is_corrected_for_all_gains_of_a_task_by_one_metric(
    judged: MadeExperiment, tmp_path: Path
) -> None:
    rows = make(judged, "table2_gains", tmp_path)
    by_p = sorted(rows, key=lambda row: float(row["p"]))
    assert float(by_p[0]["p_holm"]) == pytest.approx(
        min(1.0, len(rows) * float(by_p[0]["p"])), abs=1e-5
    )
    assert all(float(row["p_holm"]) >= float(row["p"]) for row in rows)


def test_a_single_seed_shows_no_interval_of_a_gain(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], seeds=[1], count=10)
    row = make(made, "table2_gains", tmp_path)[0]
    assert row["gain"] != ""
    assert [row[name] for name in ("low", "high", "p", "p_holm")] == [""] * 4
    assert row["direction"] == "not judged"


def test_table_3_has_the_papers_column_once_and_says_how_it_is_read(
    judged_translation: MadeExperiment, tmp_path: Path
) -> None:
    rows = make(judged_translation, "table3", tmp_path, scores=judged_translation.gold_scores)
    by_metric = {(row["metric"], row["model"]): row for row in rows}
    assert by_metric["one_minus_aer", "postr-joint"]["paper"] == "0.583"
    assert by_metric["one_minus_aer", "postr-joint"]["direction"] == "agrees"
    # The error rate is the same figure, read the other way round.
    assert ("aer", "postr-joint") not in by_metric

    note = (tmp_path / "table3.md").read_text(encoding="utf-8")
    assert "calls its column AER" in note


def test_p_by_sacrebleu_stands_with_ours_one_a_seed(
    translated: MadeExperiment, tmp_path: Path
) -> None:
    files = []
    for seed in (1, 2):
        baseline = translated.run("de-en", "soft", seed)
        system = translated.run("de-en", "postr-joint", seed)
        file = tmp_path / f"seed{seed}.json"
        parser = argparse.ArgumentParser()
        evaluate.significance.add_to(parser)
        words = ["--baseline", baseline, "--systems", system, "--out", file]
        assert evaluate.significance.run(parser.parse_args(list(map(str, words)))) == 0
        files.append(file)

    rows = make(translated, "table1_more", tmp_path, scores=translated.scores, significance=files)
    p_of = {(row["metric"], row["model"]): row["p_sacrebleu"] for row in rows}

    assert len(p_of["sacrebleu_b4", "postr-joint"].split("; ")) == 2
    assert len(p_of["chrf_b4", "postr-joint"].split("; ")) == 2

    for untested in (("sacrebleu_b10", "postr-joint"), ("sacrebleu_b4", "soft")):
        assert p_of[untested] == ""

    page = (tmp_path / "table1_more.html").read_text(encoding="utf-8")

    assert "tok:13a" in page


def test_examples_show_every_model_beside_source_and_reference(
    translated: MadeExperiment, tmp_path: Path
) -> None:
    rows = make(translated, "examples", tmp_path, predictions=translated.predictions)
    systems = ["Source", "Reference", "Soft", "Prior-Joint", "Postr-Joint"]
    assert [row["label"] for row in rows] == systems * (len(rows) // 5)

    numbers = [int(row["sentence"]) for row in rows[::5]]
    assert len(numbers) == 30
    assert numbers == sorted(numbers)

    # People are shown six of them.
    rows_shown = {row["sentence"].value for row in render.read(tmp_path, "examples").shown}
    assert len(rows_shown) == 6
    assert rows_shown < set(numbers)

    lines = translated.predictions[0].read_text(encoding="utf-8").split("\n")
    for number, source, reference in zip(numbers, rows[::5], rows[1::5], strict=True):
        assert lines[number].split("\t")[:2] == [source["text"], reference["text"]]


def test_captions_stand_beside_several_references(tmp_path: Path) -> None:
    made = make_translations(tmp_path / "made", models=["soft", "postr-joint"], seeds=[1], count=6)
    texts = [json.dumps([f"{number} {name}" for name in "abcd"]) for number in range(1, 7)]
    data = made.run("de-en", "soft").parents[1] / "data"
    data.mkdir(exist_ok=True)
    (data / "test.target.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    rows = make(made, "caption_examples", tmp_path, predictions=made.predictions)

    assert [row["label"] for row in rows[2:6]] == [
        "Another reference",
        "Another reference",
        "Soft",
        "Postr-Joint",
    ]
    assert [row["text"] for row in rows[2:4]] == [f"{rows[0]['sentence']} {name}" for name in "bc"]


def test_examples_of_summaries_say_where_each_word_of_an_output_comes_from(tmp_path: Path) -> None:
    made = make_translations(tmp_path / "made", models=["soft", "postr-joint"], seeds=[1], count=6)
    data = made.run("de-en", "soft").parents[1] / "data"
    Vocabulary(["the", "man", "."]).save(data / "target.vocab")
    for model in ("soft", "postr-joint"):
        path = made.run("de-en", model) / "beam4" / "predictions.tsv"
        head, *lines = path.read_text(encoding="utf-8").splitlines()
        changed = ["\t".join(["the cat .", "a cat", "the cat purrs .", "0", ""]) for _ in lines]
        path.write_text("\n".join([head, *changed]) + "\n", encoding="utf-8")

    rows = make(made, "summary_examples", tmp_path, predictions=made.predictions)

    assert {row["origins"] for row in rows if not row["model"]} == {""}
    assert {row["origins"] for row in rows if row["model"]} == {"source adopted novel source"}
    assert "{task}/data/target.vocab" in TABLES["summary_examples"].also_reads


def test_outputs_of_other_sentences_are_refused(tmp_path: Path) -> None:
    made = make_translations(tmp_path, models=["soft", "postr-joint"], seeds=[1], count=6)
    path = made.run("de-en", "postr-joint") / "beam4" / "predictions.tsv"
    lines = path.read_text(encoding="utf-8").split("\n")
    path.write_text("\n".join([lines[0], *lines[2:]]), encoding="utf-8")

    with pytest.raises(UserError, match="not the rows") as raised:
        make(made, "examples", tmp_path, predictions=made.predictions)
    assert raised.value.file == str(path)


def test_overhead_is_time_over_the_baselines(translated: MadeExperiment, tmp_path: Path) -> None:
    rows = make(translated, "overhead", tmp_path)
    phases = ["training", "decoding, beam 4", "decoding, beam 10"]
    assert list(dict.fromkeys(row["phase"] for row in rows)) == phases

    by_phase = {(row["phase"], row["model"]): row for row in rows}
    for phase in phases:
        assert float(by_phase[phase, "soft"]["ratio"]) == 1
        assert float(by_phase[phase, "postr-joint"]["ratio"]) == pytest.approx(1.2, abs=0.01)
        assert by_phase[phase, "postr-joint"]["paper"] == "1.4"
        assert by_phase[phase, "prior-joint"]["paper"] == ""


def test_copying_a_model_that_another_task_trained_is_no_training(tmp_path: Path) -> None:
    made = make_translations(tmp_path)
    for path in made.scores:
        content = json.loads(path.read_text(encoding="utf-8"))
        content["training"]["trained_on"] = "another"
        write_json(path, content)
    rows = make(made, "overhead", tmp_path)
    assert {row["phase"] for row in rows} == {"decoding, beam 4", "decoding, beam 10"}


def test_outputs_that_no_metric_is_defined_for_are_left_out_with_their_reason(
    made: MadeExperiment,
) -> None:
    experiment = load_experiment(made.config)
    path = made.run("de-noun", "postr-joint") / "scores.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content |= {"metrics": {}, "training": {}, "details": {"left_out": ["nothing to compare"]}}
    content |= {"model": "people", "label": "People"}
    other = made.folder / "people.json"
    write_json(other, content)

    tasks = load_runs([*made.scores, other], experiment)
    assert "accuracy" in tasks[0].metrics(["*"])
    assert "people" not in tasks[0].models
    assert reasons_left_out(tasks) == ["nothing to compare"]


def test_the_attentions_has_quality_certainty_speed_and_size_of_every_model(
    translated: MadeExperiment, tmp_path: Path
) -> None:
    files = {
        "scores": translated.scores,
        "gold-scores": translated.gold_scores,
        "analyses": translated.analyses,
    }
    rows = {row["model"]: row for row in make(translated, "attentions", tmp_path, **files)}

    assert set(rows["soft"]["metric"].split()) == {"bleu_b4"}

    table1 = {(row["model"], row["metric"]): row for row in make(translated, "table1", tmp_path)}
    for model, row in rows.items():
        bleu = table1[model, "bleu_b4"]["mean"]
        perplexity = table1[model, "ppl"]["mean"]
        analysis = load(Analysis, translated.run("de-en", model) / "analysis.json")
        assert float(row["mean"]) == pytest.approx(float(bleu), abs=1e-3)
        assert float(row["ppl"]) == pytest.approx(float(perplexity), abs=1e-3)
        assert float(row["low"]) < float(row["mean"]) < float(row["high"])
        assert float(row["entropy"]) == pytest.approx(analysis.entropy.mean, abs=0.05)
        assert 0 < float(row["one_minus_aer"]) < 100

    # A task without alignments and analyses, and what was not measured, leave cells empty.
    bare = make(translated, "attentions", tmp_path)

    assert {row["one_minus_aer"] + row["entropy"] + row["ppl"] for row in bare} == {""}


def test_speed_in_the_attentions_is_of_the_processor_that_did_the_work(tmp_path: Path) -> None:
    made = make_translations(tmp_path, models=["soft"], seeds=[1], count=6)
    path = made.run("de-en", "soft") / "scores.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["training"] |= {
        "examples_per_second": 10.0,
        "wall_s": 8.0,
        "cpu_s": 4.0,
        "gpu_s": 0.0,
        "parameters": 1234,
    }
    for decoding in content["decoding"].values():
        decoding |= {"sentences": 6, "cpu_s": 2.0, "gpu_s": 0.5}
    write_json(path, content)
    (row,) = make(made, "attentions", tmp_path)

    assert (row["trained_per_s"], row["decoded_per_s"]) == ("20.0", "12.0")
    assert float(row["parameters"]) == 1234


def test_times_on_different_processors_have_no_ratio(tmp_path: Path) -> None:
    made = make_translations(tmp_path, models=["soft", "postr-joint"], seeds=[1], count=6)
    path = made.run("de-en", "postr-joint") / "scores.json"
    text = path.read_text(encoding="utf-8").replace('"gpu_s": 0.0', '"gpu_s": 3.5')
    path.write_text(text, encoding="utf-8")
    rows = make(made, "overhead", tmp_path)
    training = {row["model"]: row for row in rows if row["phase"] == "training"}

    assert (training["postr-joint"]["processor"], training["postr-joint"]["ratio"]) == ("GPU", "")


def test_tables_of_own_data_speak_of_no_paper(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], paper=False, count=20)
    config = yaml.safe_load(made.config.read_text(encoding="utf-8"))
    for kept in (True, False):
        if not kept:
            del config["tasks"]["de-noun"]["paper_reference"]
        write_json(made.config, config)
        for name in ("table2", "table2_gains", "overhead"):
            make(made, name, tmp_path)
            text = (tmp_path / f"{name}.md").read_text(encoding="utf-8").lower()
            assert ("paper" in text) is kept, name
            assert ("verdict" in text) is (kept and name != "overhead")


def test_no_format_for_people_has_a_column_that_no_row_fills(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], seeds=[1], count=5)
    make(made, "table2", tmp_path)
    for ending in ("html", "md", "tex"):
        text = (tmp_path / f"table2.{ending}").read_text(encoding="utf-8")
        assert "Ours" in text and "Compared with Soft" not in text, ending


@pytest.mark.parametrize("models", [["postr-joint"], ["soft", "postr-joint"]])
def test_a_gain_is_explained_where_some_row_has_one(models: list[str], tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], models=models, seeds=[1], count=5)
    figures = tmp_path / "paper_results.yaml"
    text = made.paper.read_text(encoding="utf-8").replace("soft: 85.50", "soft: null")
    figures.write_text(text, encoding="utf-8")
    make(MadeExperiment(made.folder, made.config, figures), "table2", tmp_path)

    text = (tmp_path / "table2.md").read_text(encoding="utf-8")
    assert ("| Gain, ours |" in text) is ("soft" in models)
    assert ("Gain: over Soft, positive where" in text) is ("soft" in models)
    assert "CPU s (and GPU s): mean of" in text


def test_seconds_and_rates_of_seeds_on_different_devices_are_not_mixed(tmp_path: Path) -> None:
    made = make_translations(tmp_path, models=["soft", "postr-joint"], seeds=[1, 2], count=6)
    for seed, on_gpu in ((1, True), (2, False)):
        path = made.run("de-en", "postr-joint", seed) / "scores.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        content["training"] |= {
            "examples_per_second": 10.0,
            "wall_s": 8.0,
            "cpu_s": 4.0,
            "gpu_s": 8.0 * on_gpu,
        }
        for decoding in content["decoding"].values():
            decoding |= {"cpu_s": 2.0, "gpu_s": 3.0 * on_gpu}
        content["cost"] = {"wall_s": 11.0, "cpu_s": 6.0, "gpu_s": 11.0 * on_gpu}
        write_json(path, content)

    cost = {
        row["model"]: (row["cpu_s"], row["gpu_s"])
        for row in make(made, "table1", tmp_path)
        if row["metric"] == "ppl"
    }

    assert cost["postr-joint"] == ("6.0", "11.0")
    assert cost["soft"][1] == "0.0"

    texts = texts_of(render.read(tmp_path, "table1"))
    assert {row["GPU s"] for row in texts if row["Model"] == "Soft"} == {""}

    rates = {row["model"]: row["trained_per_s"] for row in make(made, "attentions", tmp_path)}
    assert rates["postr-joint"] == ""

    times = [row for row in make(made, "overhead", tmp_path) if row["phase"] == "training"]
    assert [(row["model"], row["processor"], row["n"]) for row in times] == [
        ("soft", "Some CPU at 2.5 GHz", "2"),
        ("postr-joint", "GPU", "1"),
        ("postr-joint", "Some CPU at 2.5 GHz", "1"),
    ]
    assert [row["ratio"] != "" for row in times] == [True, False, True]


def test_a_verdict_is_said_where_the_paper_has_a_figure_and_the_difference_beside_it(
    judged: MadeExperiment, tmp_path: Path
) -> None:
    for name, has_paper in (("table2", True), ("table2_gains", True), ("table2_paradigms", False)):
        make(judged, name, tmp_path)
        for row in texts_of(render.read(tmp_path, name)):
            assert ("Paper's claim" in row) is has_paper
            assert row["Compared with Soft"] in ("", "better", "worse", "undecided")
            if row["Compared with Soft"] in ("better", "worse"):
                assert row.get("Paper's claim") != "cannot tell"


@pytest.mark.parametrize(
    ("low", "high", "digits", "text"),
    [
        (84.1, 86.02, 2, "[84.10, 86.02]"),
        (0.0, 0.0, 2, "[0, 0]"),
        (-1.5, 0.25, 2, "[−1.50, +0.25]"),
    ],
)
def test_intervals_as_people_read_them(low: float, high: float, digits: int, text: str) -> None:
    assert cells.interval(low, high, digits, sign="+" in text) == text


def test_a_narrow_interval_has_the_digits_that_tell_its_ends_apart(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], seeds=[1], count=5)
    experiment = load_experiment(made.config)
    row = compare(load_runs(made.scores, experiment), experiment, ["accuracy"], None)[1]
    assert row._replace(low=0.0012, high=0.0014, gain_low=-0.001, gain_high=0.001).digits == 4
    assert row._replace(low=80.0, high=82.0, gain_low=0.0, gain_high=0.0).digits == 2


def test_no_digit_hides_a_difference_that_is_called_worse(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], seeds=[1], count=5)
    experiment = load_experiment(made.config)
    row = compare(load_runs(made.scores, experiment), experiment, ["accuracy"], None)[1]
    row = row._replace(compared_seeds=3, low=80.0, high=82.0)
    worse = row._replace(gain=-0.004, gain_low=-0.01, gain_high=-0.0006, p=0.01)
    assert worse.outcome == "worse"
    assert worse.digits == 3


@pytest.mark.parametrize("name", ["costs", "table2"])
def test_a_table_is_read_as_it_was_written(made: MadeExperiment, tmp_path: Path, name: str) -> None:
    make(made, name, tmp_path)
    table = render.read(tmp_path, name)
    for ending, write in (
        ("md", render.to_markdown),
        ("csv", render.to_csv),
        ("json", render.to_json),
    ):
        assert write(table) == (tmp_path / f"{name}.{ending}").read_text(encoding="utf-8")


def test_forms_are_examples_too_with_lemma_and_features_as_the_source(
    made: MadeExperiment, tmp_path: Path
) -> None:
    paths = sorted(made.folder.glob("*/*/seed*/beam1/predictions.tsv"))
    rows = make(made, "form_examples", tmp_path, predictions=paths)
    assert [row["label"] for row in rows[:5]] == [
        "Source",
        "Reference",
        "Soft",
        "Postr-Joint",
        "Mono-Postr-Joint",
    ]
    assert re.fullmatch(r"\S+ \(case=\w+, number=\w+\)", rows[0]["text"])


def texts_of(table: Table) -> list[dict[str, str]]:
    """Return the texts that people read, row by row, by heading."""
    headings = [column.heading for column in table.columns]
    return [dict(zip(headings, texts, strict=True)) for texts in table.texts]


TABLE = render.plain_table(
    title="50 % of A & B",
    headings=("Task_1", "Value"),
    align="lr",
    rows=[("a|b <b>", Value(-1.5, ".1f")), ("[c]", Estimate(1.0, digits=1, sd=0.5))],
    notes=[Note("* {note}")],
)


def test_csv_quotes_and_leaves_unknown_cells_empty() -> None:
    rows = [("a,b", 1.5), ('say "x"', None)]
    table = render.plain_table("T", ["text", "value"], "lr", rows)
    assert render.to_csv(table) == 'text,value\n"a,b",1.5\n"say ""x""",\n'


def test_markdown_is_escaped_and_aligned() -> None:
    lines = render.to_markdown(TABLE).split("\n")
    assert lines[2:4] == ["| Task_1    |     Value |", "| --------- | --------: |"]
    assert lines[4] == r"| a\|b \<b> |      -1.5 |"
    assert r"\* {note}" in lines


def test_notes_of_markdown_fit_a_line_and_none_begins_as_an_item_of_a_list() -> None:
    note = " ".join(["a" * 118, "- AER", "b" * 113, "# 1"] * 2)
    text = render.to_markdown(replace(TABLE, notes=[Note(note)])).split("\n\n")[-1]
    assert text.split() == note.split()
    assert not re.search("^[-+#>] ", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= render.WIDTH


def test_latex_is_escaped() -> None:
    text = render.to_latex(TABLE, "table")
    assert r"50 \% of A \& B" in text
    assert r"Task\_1 & Value \\" in text
    assert r"a|b $<$b$>$ & $-$1.5 \\" in text
    assert r"{[}c] & 1.0 $\pm$ 0.5 \\" in text
    assert r"* \{note\}" in text

    for rule in ("toprule", "midrule", "bottomrule"):
        assert f"\\{rule}" in text


def test_html_is_well_formed_and_escaped() -> None:
    text = render.page("T", [TABLE])
    body = ElementTree.fromstring(text[text.index("<body>") : text.index("</html>")])  # noqa: S314
    assert [cell.text for cell in body.iter("td")] == ["−1.5", "1.0 ± 0.5"]
    rows = [cell.text for cell in body.iter("th") if cell.get("scope") == "row"]
    assert rows == ["a|b <b>", "[c]"]


def test_a_column_is_empty_where_it_needs_what_is_unknown() -> None:
    table = Table(
        title="T",
        rows=[
            Row({"time": Value(1234.4, ",.0f"), "runs": Value(2)}),
            Row({"time": Value(None), "runs": Missing("none has run")}),
        ],
        columns=[Column("Time", "time"), Column("Runs", "runs", needs="time")],
        fields=[Field("n", "runs"), Field("seconds", "time", digits=0)],
    )
    assert table.texts == [("1,234", "2"), ("", "")]
    assert render.to_csv(table) == "n,seconds\n2,1234.0\n,\n"


def test_long_texts_may_take_several_lines_in_every_format() -> None:
    table = render.plain_table("T", ["Model", "Text"], "lp", [("a", "word " * 40)])
    assert "{lp{10cm}}" in render.to_latex(table, "t")
    assert '<td class="text wide">' in render.page("T", [table])
    assert "| ----- | -----" in render.to_markdown(table)


def test_lines_are_drawn_between_groups_of_several_first_cells() -> None:
    body = [("a", "x", "1"), ("a", "x", "2"), ("a", "y", "3"), ("b", "y", "4")]
    for group, lines in ((1, 1), (2, 2)):
        table = replace(render.plain_table("T", "ABC", "llr", body), group=group)
        assert render.page("T", [table]).count('class="group"') == lines
        assert render.to_latex(table, "t").count("midrule") == 1 + lines


def test_every_comparison_uses_metrics_that_exist() -> None:
    names = [*METRICS, *(f"{name}_b4" for name in METRICS)]
    for spec in TABLES.values():
        assert all(any(fnmatchcase(name, pattern) for name in names) for pattern in spec.metrics)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (cells.signed(0.0, 2), "0.00"),
        (cells.signed(-0.001, 2), "0.00"),
        (cells.signed(1.37, 2), "+1.37"),
        (cells.probability(0.0001), "< 0.001"),
        (cells.probability(0.0126), "0.013"),
        (cells.signed(-0.5, 1), "−0.5"),
    ],
)
def test_numbers_as_people_read_them(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize(
    ("candidates", "text"),
    [([0.0, 0.8], "0.8 (largest)"), ([0.0, 0.8, 1.2], "0.8"), ([], "0.8"), (None, "0.8")],
)
def test_a_penalty_beyond_which_none_was_tried_is_told(
    candidates: list[float] | None, text: str
) -> None:
    recorded: dict[str, Any] = {"length_penalty": 0.8}
    if candidates is not None:
        recorded["length_penalties"] = candidates
    assert chosen(recorded) == text
