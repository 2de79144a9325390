"""Faults in a configuration: one message each, with file, line and hint."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from pam.experiment import Plan, load_plan
from pam.io import UserError
from pam.models.fitting import check_fit
from tests.workflow.checkouts import ROOT

RIGHT = """\
experiment: mine
seeds: [1, 2]
models:
  - soft
  - postr-joint
tasks:
  nouns:
    dataset: de-noun
    training:
      epochs: 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "config/models", tmp_path / "config/models")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(text: str, name: str = "mine.yaml") -> Plan:
    Path(name).write_text(text, encoding="utf-8")
    return load_plan(files=[name])


def fault(text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        load(text)
    return caught.value


@pytest.mark.parametrize(
    ("old", "new", "line", "message", "hint"),
    [
        ("seeds:", "sedes:", 2, "unknown key `sedes`", "did you mean `seeds`?"),
        ("experiment: mine\n", "", None, "missing key `experiment`", "add `experiment:`"),
        ("seeds: [1, 2]", "seeds: one", 2, "`seeds`", "config/README.md"),
        ("- postr-joint", "- postr-jiont", 5, "unknown model `postr-jiont`", "`postr-joint`?"),
        ("seeds: [1, 2]", "seeds: [1, 1]", 2, "`1` stands twice in `seeds`", "remove one"),
        ("- postr-joint", "- soft", 5, "`soft` stands twice in `models`", "remove one"),
        ("epochs: 3", "epoks: 3", 10, "unknown key `tasks.nouns.training.epoks`", "`epochs`?"),
        ("epochs: 3", "epochs: no", 10, "`tasks.nouns.training.epochs`", "correct the value"),
        ("  nouns:", "  my nouns:", 7, "`tasks.my nouns`", "correct the value"),
        ("  nouns:", "  tables:", 7, "a task cannot be called `tables`", "another name"),
        ("experiment: mine", "experiment: ../up", 1, "`experiment`", "correct the value"),
        (
            "dataset: de-noun",
            "dataset: de-noun\n    pepar: x",
            9,
            "`tasks.nouns.pepar`",
            "`paper`?",
        ),
        ("tasks:\n", "resources: {mem: 3}\ntasks:\n", 6, "`resources.mem`", "`mem_mb`?"),
        (
            "dataset: de-noun",
            "dataset: de-noun\n    models: [soft, postr]",
            9,
            "unknown model of the experiment `postr`",
            "known: soft, postr-joint",
        ),
        (
            "dataset: de-noun",
            "dataset: de-noun\n    without: [postr]",
            9,
            "unknown model of the experiment `postr`",
            "known: soft, postr-joint",
        ),
        (
            "dataset: de-noun",
            "dataset: de-noun\n    models: [soft]\n    without: [soft]",
            10,
            "no model is left to run",
            "name fewer in `without`",
        ),
        (
            "dataset: de-noun",
            "dataset: de-noun\n    options: {marginl: {output: {top_k: 6}}}",
            9,
            "unknown question `marginl`",
            "did you mean `marginalization`?",
        ),
        (
            "tasks:\n",
            "options:\n  marginalization:\n    ouput: {top_k: 6}\ntasks:\n",
            8,
            "unknown marginal `ouput`",
            "did you mean `output`?",
        ),
    ],
)
def test_a_fault_has_its_place_and_its_hint(
    old: str, new: str, line: int | None, message: str, hint: str
) -> None:
    assert old in RIGHT
    error = fault(RIGHT.replace(old, new, 1))
    assert (error.file, error.line) == ("mine.yaml", line)
    assert message in error.message
    assert hint in str(error.hint)


@pytest.mark.parametrize(
    ("added", "line", "message", "hint"),
    [
        ("network: {hiden: 3}", 2, "unknown key `network.hiden`", "known keys: "),
        ("coupling: monoton", 2, "unknown coupling `monoton`", "did you mean `monotone`?"),
        ("copuling: monotone", 2, "unknown key `copuling`", "did you mean `coupling`?"),
        ("coupling: {knd: monotone}", 2, "a choice without `kind`", "add `kind: name`"),
        ("coupling: {kind: monotone, fist: x}", 2, "unknown option of coupling", "`first`?"),
        ("architecture: ensemble", 2, "an ensemble is made of `members`", "name models there"),
        ("decoding: {beam: 3}", 2, "`beam` is the same for all models", "set `decoding"),
    ],
)
def test_a_fault_in_a_models_file_has_its_place(
    added: str, line: int, message: str, hint: str
) -> None:
    Path("config/models/soft.yaml").write_text(f"label: Soft\n{added}\n", encoding="utf-8")
    error = fault(RIGHT)
    assert (error.file, error.line) == ("config/models/soft.yaml", line)
    assert message in error.message
    assert hint in str(error.hint)


def test_of_two_files_the_one_at_fault_is_named() -> None:
    Path("base.yaml").write_text(RIGHT, encoding="utf-8")
    Path("more.yaml").write_text("title: x\ntraining:\n  epoks: 3\n", encoding="utf-8")
    merged: dict[str, Any] = {}
    for name in ("base.yaml", "more.yaml"):
        merged |= yaml.safe_load(Path(name).read_text(encoding="utf-8"))
    for files in (["base.yaml", "more.yaml"], ["more.yaml", "base.yaml"]):
        with pytest.raises(UserError) as caught:
            load_plan(merged, files)
        assert (caught.value.file, caught.value.line) == ("more.yaml", 3)


def test_a_value_from_the_command_line_is_named_without_a_file() -> None:
    with pytest.raises(UserError, match="unknown key `devise`"):
        load_plan(yaml.safe_load(RIGHT) | {"devise": "cpu"}, [])


def test_later_layers_win() -> None:
    plan = load(RIGHT + "training: {epochs: 9, batch_size: 7}\n")
    run = plan.run("nouns", "soft", 2)
    assert (run.training.epochs, run.training.batch_size, run.seed) == (3, 7, 2)


def test_options_go_to_the_components_that_a_model_uses_and_nowhere_else() -> None:
    plan = load(RIGHT + "    options: {marginalization: {output: {top_k: 6}}}\n")
    assert plan.run("nouns", "postr-joint", 1).components.marginal == {"kind": "output", "top_k": 6}
    assert plan.run("nouns", "soft", 1).components.marginal == "input"
    assert plan.components["postr-joint"].marginal == "output"


def test_options_of_what_an_architecture_does_not_ask_are_not_for_it() -> None:
    text = RIGHT.replace("  - soft\n", "  - soft\n  - transformer\n")
    plan = load(text + "    options: {score: {general: {scale: true}}}\n")
    assert plan.run("nouns", "soft", 1).components.score == {"kind": "general", "scale": True}
    assert plan.run("nouns", "transformer", 1).components.score == "general"
    check_fit(plan)


def test_a_tasks_options_win_over_the_experiments_and_a_models_own_over_both() -> None:
    text = RIGHT + "    options: {marginalization: {output: {top_k: 6}}}\n"
    text += (
        "options: {marginalization: {output: {top_k: 3}}, input_feeding: {posterior: {mix: 1}}}\n"
    )
    components = load(text).run("nouns", "postr-joint", 1).components
    assert components.marginal == {"kind": "output", "top_k": 6}
    assert components.feedback == {"kind": "posterior", "mix": 1}
    path = Path("config/models/postr-joint.yaml")
    own = path.read_text(encoding="utf-8")
    path.write_text(
        own.replace("marginalization: output", "marginalization: {kind: output, top_k: 9}"),
        encoding="utf-8",
    )
    components = load(text).run("nouns", "postr-joint", 1).components
    assert components.marginal == {"kind": "output", "top_k": 9}


def test_a_task_runs_its_own_models_in_the_experiments_order() -> None:
    text = RIGHT + "    models: [postr-joint]\n  more: {dataset: de-noun}\n"
    text += "  rest: {dataset: de-noun, without: [postr-joint]}\n"
    experiment = load(text).experiment
    assert experiment.models_of("nouns") == ["postr-joint"]
    assert experiment.models_of("more") == ["soft", "postr-joint"]
    assert experiment.models_of("rest") == ["soft"]


def test_unknown_task_and_model_of_a_run_are_named() -> None:
    plan = load(RIGHT)
    with pytest.raises(UserError, match=r"unknown task `nuons`(.|\n)*did you mean `nouns`"):
        plan.run("nuons", "soft", 1)
    with pytest.raises(UserError, match=r"unknown model `sotf`(.|\n)*did you mean `soft`"):
        plan.run("nouns", "sotf", 1)


def test_an_unknown_data_set_has_its_place() -> None:
    with pytest.raises(UserError) as caught:
        load(RIGHT).check_datasets({"de-nouns": None})  # type: ignore[dict-item]
    assert (caught.value.file, caught.value.line) == ("mine.yaml", 8)
    assert "did you mean `de-nouns`?" in str(caught.value.hint)


def test_a_tasks_resources_override_the_experiments() -> None:
    text = RIGHT + "    resources: {mem_mb: 5}\nresources: {runtime: 7}\n"
    asked = load(text).resources("nouns")
    assert (asked.mem_mb, asked.runtime, asked.threads) == (5, 7, 1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds: [1, 2]", "seeds: [1, -2]", "`seeds.1`: input should be greater than or equal"),
        ("seeds: [1, 2]", f"seeds: [{2**64}]", "`seeds.0`: input should be less than or equal"),
        ("  - soft\n", "  - ../models/soft\n", "`models.0`: string should match pattern"),
        ("  - soft\n", f"  - {'a' * 300}\n", "`models.0`: string should match pattern"),
        ("models:", 'title: "a\\n.. include:: b"\nmodels:', "`title`: string should match"),
        ("models:", "network: {encoder: 1000000}\nmodels:", "`network.encoder`: input should be"),
        ("models:", "network: {initial_range: .inf}\nmodels:", "`network.initial_range`: "),
        ("models:", "decoding: {max_ratio: 1e300}\nmodels:", "`decoding.max_ratio`: "),
        ("models:", "decoding: {length_prior: .inf}\nmodels:", "`decoding.length_prior`: "),
    ],
)
def test_values_beyond_all_bounds_are_refused(old: str, new: str, message: str) -> None:
    assert old in RIGHT
    caught = fault(RIGHT.replace(old, new))
    assert message in caught.message
    assert caught.file == "mine.yaml" and caught.line and caught.hint
