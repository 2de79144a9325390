"""Faults in a configuration: one message each, with file, line and hint."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from pam.experiments.check import check_datasets
from pam.experiments.effects import without_effect
from pam.experiments.given import Given
from pam.experiments.loading import load_plan
from pam.experiments.parsing import dump_yaml
from pam.experiments.plan import Plan
from pam.experiments.run_config import load_run
from pam.experiments.yaml import read_yaml
from pam.models import options
from pam.models.fitting import check_fit
from pam.reporting.catalogue import check_rows, load_papers
from pam.runtime.errors import UserError
from tests.variants import experiment_files
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


def written(added: str) -> UserError:
    """The error of an experiment whose model `soft` has these keys."""
    Path("config/models/soft.yaml").write_text(f"label: Soft\n{added}\n", encoding="utf-8")
    return fault(RIGHT)


def test_two_models_of_one_label_cannot_be_told_apart() -> None:
    Path("config/models/copy.yaml").write_text("score: dot\nlabel: Soft\n", encoding="utf-8")
    error = fault(RIGHT.replace("- postr-joint", "- copy"))

    assert (error.file, error.line) == ("config/models/copy.yaml", 2)
    assert error.message == "`copy` has the label of `soft`"


@pytest.mark.parametrize("key", ["paper", "paper_reference"])
def test_a_row_that_no_paper_has_is_named_before_anything_is_trained(key: str) -> None:
    plan = load(RIGHT.replace("dataset: de-noun", f"dataset: de-noun\n    {key}: de-n"))
    papers = load_papers(ROOT / "config/paper_results.yaml")

    with pytest.raises(UserError, match="unknown row of the papers' tables `de-n`") as caught:
        check_rows(papers, plan.experiment, plan.files)
    assert caught.value.line == 9 and "de-N" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("old", "new", "line", "message", "hint"),
    [
        ("seeds:", "sedes:", 2, "unknown key `sedes`", "did you mean `seeds`?"),
        ("experiment: mine\n", "", None, "missing key `experiment`", "add `experiment:`"),
        ("seeds: [1, 2]", "seeds: one", 2, "`seeds`", "config/README.md"),
        ("experiment:", "experimnt:", 1, "unknown key `experimnt`", "did you mean `experiment`?"),
        ("epochs: 3", "learning_rate: 1e-3", 10, "not '1e-3'", "with a point, such as 1.0e-3"),
        ("experiment: mine", "experiment: no", 1, "not False", "put it into quotes"),
        ("- postr-joint", "- postr-jiont", 5, "unknown model `postr-jiont`", "`postr-joint`?"),
        ("seeds: [1, 2]", "seeds: [1, 1]", 2, "`1` is in `seeds` twice", "remove one"),
        ("- postr-joint", "- soft", 5, "`soft` is in `models` twice", "remove one"),
        (
            "      epochs: 3",
            "      epochs: 3\n    more_seeds: {soft: [2]}",
            11,
            "`2` is in `soft` twice",
            "remove one",
        ),
        (
            "      epochs: 3",
            "      epochs: 3\n    more_seeds: {softy: [3]}",
            11,
            "unknown model of the experiment `softy`",
            "mean `soft`",
        ),
        ("epochs: 3", "epoks: 3", 10, "unknown key `tasks.nouns.training.epoks`", "`epochs`?"),
        ("epochs: 3", "epochs: no", 10, "`tasks.nouns.training.epochs`", "correct the value"),
        ("  nouns:", "  my nouns:", 7, "`tasks.my nouns`", "correct the value"),
        ("  nouns:", "  tables:", 7, "a task cannot be called `tables`", "another name"),
        ("experiment: mine", "experiment: ../up", 1, "`experiment`", "correct the value"),
        ("experiment: mine", "experiment: reference", 1, "called `reference`", "another name"),
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
            "unknown component `marginl`",
            "did you mean `marginalization`?",
        ),
        (
            "tasks:\n",
            "options:\n  marginalization:\n    ouput: {top_k: 6}\ntasks:\n",
            8,
            "unknown marginalization `ouput`",
            "did you mean `output`?",
        ),
        (
            "tasks:\n",
            "options:\n  marginalization:\n    output:\n      topk: 6\ntasks:\n",
            9,
            "unknown option of marginalization `output` `topk`",
            "did you mean `top_k`?",
        ),
        (
            "tasks:\n",
            "options:\n  marginalization:\n    output:\n      top_k: six\ntasks:\n",
            9,
            "`options.marginalization.output.top_k`: input should be a valid integer, not 'six'",
            "correct the value",
        ),
        ("seeds: [1, 2]", "seeds: [1, 2]\nseeds: [3]", 3, "`seeds` is given twice", "keep one"),
        (
            "      epochs: 3",
            "      epochs: 3\n    dataset: other",
            11,
            "`dataset` is given twice",
            "keep one",
        ),
        (
            "tasks:\n",
            "baseline: sotf\ntasks:\n",
            6,
            "unknown baseline `sotf`",
            "did you mean `soft`?",
        ),
        (
            "tasks:\n",
            "baseline: sparse\ntasks:\n",
            6,
            "unknown baseline `sparse`",
            "known: soft, postr-joint",
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
        ("coupling: {knd: monotone}", 2, "a coupling without `kind`", "write `coupling: name`"),
        ("coupling: 3", 2, "a coupling without `kind`", "write `coupling: name`"),
        ("coupling:\n  kind: monoton", 3, "unknown coupling `monoton`", "`monotone`?"),
        ("coupling: {kind: monotone, fist: x}", 2, "unknown option of coupling", "`first`?"),
        ("coupling:\n  kind: monotone\n  fist: x", 4, "`monotone` `fist`", "`first`?"),
        ("coupling: {kind: monotone, first: x}", 2, "`coupling.first`", "correct the value"),
        ("score:\n  kind: general\n  scale: 1", 4, "`score.scale`", "correct the value"),
        ("architecture: ensemble", 2, "unknown architecture `ensemble`", "known: agreement"),
        ("decoding: {beam: 3}", 2, "`beam` is the same for all models", "set `decoding"),
    ],
)
def test_a_fault_in_a_models_file_has_its_place(
    added: str, line: int, message: str, hint: str
) -> None:
    error = written(added)

    assert (error.file, error.line) == ("config/models/soft.yaml", line)
    assert message in error.message
    assert hint in str(error.hint)


@pytest.mark.parametrize(
    ("added", "line", "message", "hint"),
    [
        ("input_feeding: posterior", 2, "the posterior needs", "`marginalization: output`"),
        ("marginalization: bound", 2, "a bound and an inference network", "`inference: bilstm`"),
        ("score: dot\ninference: bilstm", 3, "a bound and an inference", "or neither"),
        ("estimator: gumbel", 2, "only a bound has an expectation", "leave `estimator` out"),
        ("coupling: pointer", 2, "a pointer is both coupling and", "`targets: actions` together"),
        ("score: none\ntargets: actions", 3, "a pointer is both", "`coupling: pointer`"),
        (
            "marginalization: output\ncoupling: pointer\ninput_feeding: pointer\ntargets: actions",
            2,
            "a pointer is one position",
            "use `marginalization: input`",
        ),
        (
            "architecture: transformer\nscore: dot",
            3,
            "the architecture `transformer` has no `score`",
            "leave out `score`",
        ),
        ("architecture: agreement\ntargets: actions", 3, "writes no actions", "targets: symbols"),
        ("members: [postr-joint]\nscore: dot", 3, "an ensemble has no `score`", "leave out"),
        (
            "members: [postr-joint]\ntraining: {epochs: 2}",
            3,
            "an ensemble has no `training`",
            "leave out",
        ),
        ("members: [soft, soft]", 2, "`soft` is a member twice", "seeds_each"),
        (
            "members: [hard-mono, postr-joint]",
            2,
            "cannot be in one ensemble",
            "all of symbols or all",
        ),
    ],
)
def test_parts_that_do_not_fit_have_their_place(
    added: str, line: int, message: str, hint: str
) -> None:
    error = written(added)
    assert (error.file, error.line) == ("config/models/soft.yaml", line)
    assert message in error.message and hint in str(error.hint)


def test_a_file_that_is_elsewhere_is_named() -> None:
    with pytest.raises(UserError, match="no such file") as caught:
        read_yaml("config/nucleus.yaml")
    assert caught.value.hint == "did you mean `config/studies/nucleus.yaml`?"


def test_without_soft_the_first_model_is_the_baseline() -> None:
    assert load(RIGHT).experiment.baseline == "soft"
    assert load(RIGHT.replace("- soft", "- sparse")).experiment.baseline == "sparse"


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


def test_two_experiments_are_not_merged_into_one() -> None:
    Path("one.yaml").write_text(RIGHT, encoding="utf-8")
    Path("two.yaml").write_text("title: x\nexperiment: two\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"another experiment than one\.yaml") as caught:
        load_plan(None, ["one.yaml", "two.yaml"])
    assert (caught.value.file, caught.value.line) == ("two.yaml", 2)

    Path("two.yaml").write_text("title: x\n", encoding="utf-8")
    renamed = Given.of("--config", {"experiment": "three"})
    plan = load_plan(None, ["one.yaml", "two.yaml", renamed])
    assert (plan.experiment.experiment, plan.experiment.title) == ("three", "x")


def test_a_value_from_the_command_line_is_named_without_a_file() -> None:
    with pytest.raises(UserError, match="unknown key `devise`"):
        load_plan(yaml.safe_load(RIGHT) | {"devise": "cpu"}, [])


def test_later_layers_win() -> None:
    plan = load(RIGHT + "training: {epochs: 9, batch_size: 7}\n")
    run = plan.run("nouns", "soft", 2)
    assert (run.training.epochs, run.training.batch_size, run.seed) == (3, 7, 2)


def test_options_go_to_the_components_that_a_model_uses_and_nowhere_else() -> None:
    plan = load(RIGHT + "    options: {marginalization: {output: {top_k: 6}}}\n")
    used = plan.run("nouns", "postr-joint", 1).components.marginalization

    assert used == options.Output(top_k=6)
    assert plan.run("nouns", "soft", 1).components.marginalization == options.Input()
    assert plan.components["postr-joint"].marginalization == options.Output()


def test_options_of_what_an_architecture_does_not_ask_are_not_for_it() -> None:
    text = RIGHT.replace("  - soft\n", "  - soft\n  - transformer\n")
    plan = load(text + "    options: {score: {general: {scale: true}}}\n")

    assert plan.run("nouns", "soft", 1).components.score == options.General(scale=True)

    run = plan.run("nouns", "transformer", 1)
    assert run.components.score == options.General()

    check_fit(run.components, run.network)


def test_a_tasks_options_win_over_the_experiments_and_a_models_own_over_both() -> None:
    text = RIGHT + "    options: {marginalization: {output: {top_k: 6}}}\n"
    text += (
        "options: {marginalization: {output: {top_k: 3}}, input_feeding: {posterior: {mix: 1}}}\n"
    )
    components = load(text).run("nouns", "postr-joint", 1).components

    assert components.marginalization == options.Output(top_k=6)
    assert components.input_feeding == options.PosteriorFeeding(mix=1)

    path = Path("config/models/postr-joint.yaml")
    text_of_model = path.read_text(encoding="utf-8")
    path.write_text(
        text_of_model.replace(
            "marginalization: output", "marginalization: {kind: output, top_k: 9}"
        ),
        encoding="utf-8",
    )
    components = load(text).run("nouns", "postr-joint", 1).components

    assert components.marginalization == options.Output(top_k=9)


def test_a_run_is_the_same_when_it_is_read_again() -> None:
    plan = load(RIGHT + "    options: {marginalization: {output: {top_k: 6}}}\n")
    for model in ("postr-joint", "ensemble"):
        run = plan.run("nouns", model, 1)
        Path("run.yaml").write_text(dump_yaml(run), encoding="utf-8")
        assert load_run("run.yaml") == run


def test_an_ensemble_holds_its_members_as_they_are_run() -> None:
    Path("config/models/pair.yaml").write_text(
        "label: Pair\nmembers: [soft, postr-joint]\n", encoding="utf-8"
    )
    text = RIGHT.replace("  - soft\n", "  - soft\n  - pair\n")
    plan = load(text + "    options: {marginalization: {output: {top_k: 6}}}\n")
    run = plan.run("nouns", "pair", 1)

    assert [one.components for one in run.members] == [
        plan.run("nouns", model, 1).components for model in ("soft", "postr-joint")
    ]
    assert run.training_config() != load(text).run("nouns", "pair", 1).training_config()

    Path("config/models/pair.yaml").write_text(
        "label: Pair\nmembers: [soft, soft-dot]\n", encoding="utf-8"
    )

    assert (
        "model `pair` of task `nouns`: score `dot`"
        in fault(text + "network: {decoder: 12}\n").message
    )


def test_a_default_that_is_written_out_is_no_other_training() -> None:
    before = load(RIGHT).run("nouns", "soft", 1).training_config()
    path = Path("config/models/soft.yaml")
    text_of_model = path.read_text(encoding="utf-8")
    changed = text_of_model.replace("coupling: none", "coupling: {kind: none}")
    path.write_text(changed, encoding="utf-8")

    assert load(RIGHT).run("nouns", "soft", 1).training_config() == before


def test_a_task_runs_its_own_models_in_the_experiments_order() -> None:
    text = RIGHT + "    models: [postr-joint]\n  more: {dataset: de-noun}\n"
    text += "  rest: {dataset: de-noun, without: [postr-joint]}\n"
    experiment = load(text).experiment

    assert experiment.models_of("nouns") == ["postr-joint"]
    assert experiment.models_of("more") == ["soft", "postr-joint"]
    assert experiment.models_of("rest") == ["soft"]


def test_a_model_can_have_more_seeds_than_its_task() -> None:
    plan = load(f"{RIGHT}    more_seeds: {{soft: [3]}}\n")
    runs = [(model, seed) for _, model, seed in plan.experiment.runs()]
    assert runs == [("soft", 1), ("soft", 2), ("soft", 3), ("postr-joint", 1), ("postr-joint", 2)]


def test_unknown_task_and_model_of_a_run_are_named() -> None:
    plan = load(RIGHT)

    with pytest.raises(UserError, match=r"unknown task `nuons`(.|\n)*did you mean `nouns`"):
        plan.run("nuons", "soft", 1)
    with pytest.raises(UserError, match=r"unknown model `sotf`(.|\n)*did you mean `soft`"):
        plan.run("nouns", "sotf", 1)


def test_an_unknown_data_set_has_its_place() -> None:
    with pytest.raises(UserError) as caught:
        check_datasets(load(RIGHT), {"de-nouns": None})  # type: ignore[dict-item]
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


@pytest.mark.parametrize(
    ("options", "warnings"),
    [
        ("score: {general: {scale: false}}", []),
        (
            "score: {dot: {scale: false}}",
            ["`options.score.dot.scale` has no effect: no model here has `score: dot`"],
        ),
        (
            "score: {coverage: {active: 1, weight: 0.5}}",
            [
                "`options.score.coverage.active` has no effect: every model with that kind sets it"
                " itself"
            ],
        ),
    ],
)
def test_defaults_of_options_that_reach_no_model_are_warned_of(
    options: str, warnings: list[str]
) -> None:
    text = RIGHT.replace("- postr-joint", "- soft-pointer-coverage")
    plan = load(f"{text}options:\n  {options}\n")

    assert list(without_effect(plan)) == warnings


def test_defaults_of_a_task_are_warned_of_by_its_own_models() -> None:
    of_task = "models: [soft]\n    options: {score: {general: {scale: false}, dot: {scale: false}}}"
    plan = load(RIGHT.replace("epochs: 3", f"epochs: 3\n    {of_task}"))

    (warning,) = without_effect(plan)
    assert warning.startswith("`tasks.nouns.options.score.dot.scale` has no effect")


def test_settings_that_every_model_overrides_are_warned_of() -> None:
    text = RIGHT.replace("  - soft\n  - postr-joint", "  - transformer")
    of_task = "network: {dropout: 0.3, embedding: 8}"
    plan = load(
        text.replace("epochs: 3", f"epochs: 3\n    {of_task}") + "network: {dropout: 0.5}\n"
    )

    assert list(without_effect(plan)) == [
        "`tasks.nouns.network.dropout` has no effect: every model sets it itself",
        "`network.dropout` has no effect: every task or model sets it itself",
    ]


@pytest.mark.parametrize(
    "path",
    experiment_files(),
    ids=lambda path: path.stem,
)
def test_every_setting_of_our_experiments_reaches_a_run(path: Path) -> None:
    assert list(without_effect(load_plan(files=[path]))) == []


PLACES = {
    "experiment": {
        "training": {"clip": 1},
        "options": {"score": {"general": {"scale": False}}},
    },
    "task": {"training": {"clip": 2}, "options": {"score": {"general": {"scale": True}}}},
    "model": {"training": {"clip": 3}, "score": {"kind": "general", "scale": False}},
}


@pytest.mark.parametrize(
    ("places", "clip", "scale"),
    [
        ((), 5, True),
        (("experiment",), 1, False),
        (("experiment", "task"), 2, True),
        (("experiment", "task", "model"), 3, False),
    ],
)
def test_of_the_places_of_a_value_the_last_one_wins(
    places: tuple[str, ...], clip: float, scale: bool
) -> None:
    values = {place: PLACES[place] if place in places else {} for place in PLACES}
    experiment = {
        "experiment": "mine",
        "models": [{"mine": {"from": "soft", "label": "Mine", **values["model"]}}],
        "tasks": {"nouns": {"dataset": "de-noun", **values["task"]}},
        **values["experiment"],
    }
    run = load(yaml.safe_dump(experiment)).run("nouns", "mine", 1)

    assert run.training.clip == clip
    score = run.components.score
    assert isinstance(score, options.General) and score.scale is scale
