"""Two runs are compared by one command: metrics, paired differences, configuration."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from made_runs import MadeExperiment, make_experiment

from pam.cli import main
from pam.experiments.run_folder import RunFolder
from pam.reporting.comparison import compare
from pam.reporting.reference import unpacked
from pam.reporting.run_pair import compare_runs, report
from pam.reporting.runs import load_experiment, load_runs
from pam.runtime.errors import UserError


def test_differences_are_those_of_the_values_paired_by_units(made: MadeExperiment) -> None:
    soft, mono = (RunFolder(made.run("de-noun", name)) for name in ("soft", "mono-postr-joint"))
    pair = compare_runs(soft, mono)
    value, other_value = pair.values["accuracy"]
    gain = pair.gains["accuracy"]

    assert gain.value == pytest.approx(other_value.value - value.value)
    assert gain.low < gain.value < gain.high
    # A pairing narrows the interval: lemmas that are hard for one are hard for the other.
    assert gain.high - gain.low < (value.high - value.low) + (other_value.high - other_value.low)
    # Lower error rates are better, too.
    assert pair.gains["form_cer"].value > 0

    back = compare_runs(mono, soft)
    assert back.gains["accuracy"].value == pytest.approx(-gain.value)
    assert back.gains["accuracy"].p == pytest.approx(gain.p, abs=1e-3)

    experiment = load_experiment(made.config)
    rows = compare(load_runs(made.scores, experiment), experiment, ["accuracy"], None)
    values = {row.model: row.values[0] for row in rows if row.task == "de-noun"}

    assert value.value == pytest.approx(values["soft"])


def test_blank_outputs_of_a_run_are_told(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], models=["soft"], seeds=[1, 2], count=5)
    first, second = (RunFolder(made.run("de-noun", "soft", seed)) for seed in (1, 2))
    scores = json.loads(second.scores("test").read_text(encoding="utf-8"))
    scores["details"] = {"empty": 3, "empty_b4": 0}
    second.scores("test").write_text(json.dumps(scores), encoding="utf-8")

    pair = compare_runs(first, second)
    (note,) = pair.notes
    assert note.startswith("B: 3 of") and note in report(pair)


def test_keys_of_the_configuration_that_differ_are_told(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], models=["soft"], seeds=[1, 2], count=5)
    first, second = (RunFolder(made.run("de-noun", "soft", seed)) for seed in (1, 2))
    config = yaml.safe_load(second.config_file.read_text(encoding="utf-8"))
    config["network"] = {"dropout": 0.5}
    config["components"]["score"] = {"kind": "mlp", "units": 7}
    second.config_file.write_text(yaml.safe_dump(config), encoding="utf-8")

    assert compare_runs(first, second).differing == {
        "seed": (1, 2),
        "score.kind": ("general", "mlp"),
        "score.scale": (True, "-"),
        "score.learned_scale": (False, "-"),
        "score.units": ("-", 7),
        "network.dropout": (0.2, 0.5),
    }


def test_the_command_prints_both_values_with_interval_p_and_keys(
    made: MadeExperiment, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [str(made.run("de-noun", "soft", seed)) for seed in (1, 2)]
    assert main(["compare", *runs]) == 0
    printed = capsys.readouterr().out
    row = r"accuracy \(%\) +\d+\.\d\d +\d+\.\d\d +[+-]\d+\.\d\d +\[[+-].*, [+-].*\] +[01]\.\d{4}\n"

    assert re.search(row, printed)
    assert "paired by 40 lemmas of the test split" in printed
    assert re.search(r"^seed +1 +2$", printed, flags=re.MULTILINE)


def test_runs_that_cannot_be_compared_are_refused(made: MadeExperiment, tmp_path: Path) -> None:
    noun = RunFolder(made.run("de-noun", "soft"))
    other = make_experiment(tmp_path, tasks=["de-noun"], models=["soft"], seeds=[1], count=9)

    with pytest.raises(UserError, match="scored on another test set than"):
        compare_runs(noun, RunFolder(other.run("de-noun", "soft")))
    with pytest.raises(UserError, match="no such file") as caught:
        compare_runs(noun, RunFolder(tmp_path / "nowhere"))
    assert "pam score --run" in str(caught.value.hint)


def test_the_recipes_show_what_is_printed_of_stored_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs/recipes.md").read_text(encoding="utf-8")
    section = page.partition("## Two runs")[2].partition("\n## ")[0]
    (command,) = re.findall(r"^pam (compare .*)$", section, flags=re.MULTILINE)
    (shown,) = re.findall(r"```text\n(.*?)```", section, flags=re.DOTALL)

    with unpacked(root / "results/reference/table2", ("run.yaml", "scores.json")) as runs:
        (tmp_path / "results").mkdir()
        (tmp_path / "results/table2").symlink_to(runs)
        monkeypatch.chdir(tmp_path)
        assert main(command.split()) == 0

    assert capsys.readouterr().out == shown
