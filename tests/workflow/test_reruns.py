"""What a change runs again, and what it leaves alone; planned on a copy of a finished run."""

from __future__ import annotations

import os
import time

import pytest

from tests.workflow.checkouts import Checkout, Outcome
from tests.workflow.conftest import OWN

pytestmark = pytest.mark.slow


def touch(finished: Checkout, *files: str) -> None:
    """Makes files look newer than every result."""
    later = time.time() + 10
    for file in files:
        path = finished.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (later, later))


def planned(finished: Checkout) -> Outcome:
    outcome = finished.plan(*OWN)
    assert outcome.code == 0, outcome.said
    return outcome


def nothing(outcome: Outcome) -> bool:
    return "Nothing to be done" in outcome.said


def test_a_touched_readme_does_nothing(finished: Checkout) -> None:
    touch(
        finished, "README.md", "config/README.md", "pam/models/seq2seq.py", "pam/commands/train.py"
    )
    assert nothing(planned(finished))


def test_a_comment_or_a_docstring_does_nothing(finished: Checkout) -> None:
    finished.edit("pam/models/seq2seq.py", "from __future__", "# A remark.\nfrom __future__")
    text = (finished.folder / "pam/training/trainer.py").read_text(encoding="utf-8")
    finished.write(
        "pam/training/trainer.py", '"""Another docstring."""\n' + text.split('"""', 2)[2]
    )
    assert nothing(planned(finished))


def test_fewer_rows_decoded_side_by_side_train_nothing_again(finished: Checkout) -> None:
    finished.edit("own/experiment.yaml", "device: cpu", "decoding: {batch_size: 8}\ndevice: cpu")
    outcome = planned(finished)
    assert outcome.trained == set()
    assert outcome.jobs["predict_run"] == 2


def test_a_comment_in_a_configuration_does_nothing(finished: Checkout) -> None:
    finished.edit("own/experiment.yaml", "seeds:", "# One is enough.\nseeds:")
    finished.edit("config/models/soft.yaml", "label:", "# The baseline.\nlabel:")
    assert nothing(planned(finished))


def test_a_changed_component_retrains_the_models_that_use_it(finished: Checkout) -> None:
    finished.edit(
        "pam/models/couplings.py",
        "return torch.sigmoid(self.raw)",
        "return +torch.sigmoid(self.raw)",
    )
    outcome = planned(finished)
    assert outcome.trained == {"mono-postr-joint on nouns, seed 1"}
    assert outcome.jobs["predict_run"] == outcome.jobs["score_run"] == 1
    assert outcome.jobs["prepare_data"] == outcome.jobs["write_run"] == 0


def test_a_changed_model_file_retrains_that_model(finished: Checkout) -> None:
    finished.edit(
        "config/models/mono-postr-joint.yaml",
        "coupling: monotone",
        "coupling: {kind: monotone, first: before}",
    )
    outcome = planned(finished)
    assert outcome.trained == {"mono-postr-joint on nouns, seed 1"}
    assert outcome.jobs["write_run"] == 1


def test_changed_shared_code_retrains_all(finished: Checkout) -> None:
    with open(finished.folder / "pam/training/trainer.py", "a", encoding="utf-8") as file:
        file.write("\nNOTE = 'changed'\n")
    assert len(planned(finished).trained) == 2


def test_a_changed_figure_redraws_that_figure(finished: Checkout) -> None:
    finished.edit("pam/reporting/figures/curves.py", "LEFT =", "NOTE = 'changed'\nLEFT =")
    assert planned(finished).jobs == {"draw_figure": 1, "write_page": 1, "write_report": 1}


def test_a_changed_caption_rewrites_the_report(finished: Checkout) -> None:
    finished.edit("workflow/report/figure.rst", "Above: how often", "On top: how often")
    assert planned(finished).jobs == {"write_page": 1, "write_report": 1}


def test_a_changed_form_rewrites_the_page_alone(finished: Checkout) -> None:
    finished.edit("workflow/report/page/page.css", "margin: 0;", "margin: 1px;")
    assert planned(finished).jobs == {"write_page": 1}


def test_changed_scoring_scores_again_and_trains_nothing(finished: Checkout) -> None:
    with open(finished.folder / "pam/evaluation/metrics.py", "a", encoding="utf-8") as file:
        file.write("\nNOTE = 'changed'\n")
    outcome = planned(finished)
    assert outcome.trained == set()
    assert outcome.jobs["score_run"] == 2
    assert outcome.jobs["predict_run"] == 0


def test_a_new_label_trains_nothing(finished: Checkout) -> None:
    finished.edit("config/models/soft.yaml", "label: Soft", "label: Soft attention")
    outcome = planned(finished)
    assert outcome.trained == set()
    assert outcome.jobs["predict_run"] == 0
    assert outcome.jobs["score_run"] == 1
    assert outcome.jobs["make_table"] == 9


def test_a_new_title_trains_and_scores_nothing(finished: Checkout) -> None:
    finished.edit("own/experiment.yaml", "title: Made-up nouns", "title: Other nouns")
    outcome = planned(finished)
    assert outcome.trained == set()
    assert outcome.jobs["score_run"] == 0
    assert outcome.jobs["make_table"] == 9


def test_a_wider_beam_decodes_again_and_trains_nothing(finished: Checkout) -> None:
    finished.edit("own/experiment.yaml", "device: cpu", "decoding: {beam: 2}\ndevice: cpu")
    outcome = planned(finished)
    assert outcome.trained == set()
    assert outcome.jobs["predict_run"] == 2


def test_a_further_beam_is_decoded_too_and_scored_with_the_others(finished: Checkout) -> None:
    finished.edit("own/experiment.yaml", "device: cpu", "decoding: {beams: [3]}\ndevice: cpu")
    outcome = planned(finished)
    assert outcome.trained == set()
    assert outcome.jobs["predict_run"] == outcome.jobs["score_run"] == 2


def test_another_search_decodes_again_and_trains_nothing(finished: Checkout) -> None:
    change = "decoding: {length_penalty: 0.6}\ndevice: cpu"
    finished.edit("own/experiment.yaml", "device: cpu", change)
    outcome = planned(finished)
    assert outcome.trained == set()
    assert outcome.jobs["predict_run"] == 2


def test_options_of_components_train_the_models_that_use_them(finished: Checkout) -> None:
    change = "options: {marginalization: {output: {top_k: 3}}}\ndevice: cpu"
    finished.edit("own/experiment.yaml", "device: cpu", change)
    assert planned(finished).trained == {f"{MONO} on nouns, seed 1"}


def test_several_changes_at_once_each_have_their_effect(finished: Checkout) -> None:
    finished.edit("own/experiment.yaml", "device: cpu", "decoding: {beam: 2}\ndevice: cpu")
    finished.edit("config/models/soft.yaml", "label: Soft", "label: Soft attention")
    finished.edit("config/models/mono-postr-joint.yaml", "label:", "training: {clip: 1.0}\nlabel:")
    finished.edit("pam/evaluation/analyze.py", "LEGIBLE = range(6, 19)", "LEGIBLE = range(6, 20)")
    outcome = planned(finished)
    assert outcome.trained == {"mono-postr-joint on nouns, seed 1"}
    assert outcome.jobs["predict_run"] == outcome.jobs["attention_run"] == 2


def test_a_new_seed_trains_only_itself(finished: Checkout) -> None:
    finished.edit("own/experiment.yaml", "seeds: [1]", "seeds: [1, 2]")
    assert planned(finished).trained == {f"{m} on nouns, seed 2" for m in ("soft", MONO)}


def test_another_machine_runs_nothing_again(finished: Checkout) -> None:
    finished.edit("own/experiment.yaml", "device: cpu", "resources: {mem_mb: 9000}\nmirror: /else")
    assert nothing(planned(finished))


def test_changed_data_of_ones_own_are_fetched_prepared_and_trained_on_again(
    finished: Checkout,
) -> None:
    with open(finished.folder / "own/train.tsv", "a", encoding="utf-8") as file:
        file.write("quax\tnumber=singular\tquax\n")
    outcome = planned(finished)
    assert outcome.jobs["fetch_data"] == outcome.jobs["prepare_data"] == 1
    assert len(outcome.trained) == 2


def test_another_data_set_in_the_registry_runs_nothing_again(finished: Checkout) -> None:
    registry = (finished.folder / "own/datasets.yaml").read_text(encoding="utf-8")
    finished.write("own/datasets.yaml", registry + registry.replace("small:", "other:"))
    assert nothing(planned(finished))


MONO = "mono-postr-joint"
