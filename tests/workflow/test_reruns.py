"""What a change runs again, and what it leaves alone; planned on a copy of a finished run.

How each key of the configuration reaches a job is tested in test_workflow.py, and how code does in
test_fingerprint.py, both without Snakemake.
"""

from __future__ import annotations

import os
import shutil
import time

import pytest

from tests.workflow.checkouts import Checkout, Outcome
from tests.workflow.conftest import OWN, PAIRS

pytestmark = pytest.mark.slow

MONO = "mono-postr-joint"


def touch(finished: Checkout, *files: str) -> None:
    """Make files look newer than every result."""
    later = time.time() + 10
    for file in files:
        path = finished.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (later, later))


def append(finished: Checkout, file: str, text: str) -> None:
    with open(finished.folder / file, "a", encoding="utf-8") as stream:
        stream.write(text)


def planned(finished: Checkout) -> Outcome:
    outcome = finished.plan(*OWN)
    assert outcome.code == 0, outcome.said
    return outcome


def test_touched_files_comments_another_machine_and_another_data_set_do_nothing(
    finished: Checkout,
) -> None:
    touch(finished, "README.md", "config/README.md")
    touch(finished, "pam/models/seq2seq.py", "pam/commands/train.py")

    finished.edit("pam/models/seq2seq.py", "from __future__", "# A remark.\nfrom __future__")
    text = (finished.folder / "pam/training/trainer.py").read_text(encoding="utf-8")
    code = text.split('"""', 2)[2]
    finished.write("pam/training/trainer.py", f'"""Another docstring."""\n{code}')

    finished.edit("own/experiment.yaml", "seeds:", "# One is enough.\nseeds:")
    finished.edit("config/models/soft.yaml", "label:", "# The baseline.\nlabel:")

    machine = "resources: {mem_mb: 9000}\nmirror: /else"
    finished.edit("own/experiment.yaml", "device: cpu", machine)

    registry = (finished.folder / "own/datasets.yaml").read_text(encoding="utf-8")
    append(finished, "own/datasets.yaml", registry.replace("small:", "other:"))

    assert "Nothing to be done" in planned(finished).said


def test_a_changed_component_retrains_its_models_and_changed_scoring_scores_all_again(
    finished: Checkout,
) -> None:
    computed = "return torch.sigmoid(self.raw)"
    finished.edit("pam/models/couplings.py", computed, "return +torch.sigmoid(self.raw)")
    finished.edit("pam/evaluation/metrics.py", "return 100.0 * sums", "return +100.0 * sums")

    outcome = planned(finished)

    assert outcome.trained == {f"{MONO} on nouns, seed 1"}
    assert outcome.jobs["predict_run"] == 1
    assert outcome.jobs["score_run"] == 2
    assert outcome.jobs["prepare_data"] == outcome.jobs["write_run"] == 0


def test_a_changed_figure_redraws_that_figure(finished: Checkout) -> None:
    finished.edit("pam/reporting/figures/curves.py", "LEFT =", "LEFT = () or")
    assert planned(finished).jobs == {"draw_figure": 1, "write_page": 1, "write_report": 1}


def test_a_changed_caption_rewrites_the_report(finished: Checkout) -> None:
    finished.edit("workflow/report/figure.rst", "Above: how often", "On top: how often")
    assert planned(finished).jobs == {"write_page": 1, "write_report": 1}


def test_a_changed_form_rewrites_the_page_alone(finished: Checkout) -> None:
    finished.edit("workflow/report/page/page.css", "margin: 0;", "margin: 1px;")
    assert planned(finished).jobs == {"write_page": 1}


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


def test_another_search_decodes_again_with_each_beam_and_trains_nothing(
    finished: Checkout,
) -> None:
    search = "decoding: {beam: 2, beams: [3], length_penalty: 0.6, batch_size: 8}"
    finished.edit("own/experiment.yaml", "device: cpu", f"{search}\ndevice: cpu")

    outcome = planned(finished)

    assert outcome.trained == set()
    assert outcome.jobs["predict_run"] == 2 * 2
    assert outcome.jobs["score_run"] == 2


def test_several_changes_at_once_each_have_their_effect(finished: Checkout) -> None:
    finished.edit("own/experiment.yaml", "device: cpu", "decoding: {beam: 2}\ndevice: cpu")
    finished.edit("config/models/soft.yaml", "label: Soft", "label: Soft attention")
    finished.edit(f"config/models/{MONO}.yaml", "label:", "training: {clip: 1.0}\nlabel:")
    finished.edit("pam/evaluation/analyze.py", "LEGIBLE = range(6, 19)", "LEGIBLE = range(6, 20)")

    outcome = planned(finished)

    assert outcome.trained == {f"{MONO} on nouns, seed 1"}
    assert outcome.jobs["write_run"] == 2
    assert outcome.jobs["predict_run"] == outcome.jobs["attention_run"] == 2


def test_a_new_seed_trains_only_itself(finished: Checkout) -> None:
    finished.edit("own/experiment.yaml", "seeds: [1]", "seeds: [1, 2]")
    assert planned(finished).trained == {f"{m} on nouns, seed 2" for m in ("soft", MONO)}


def test_results_that_were_copied_without_times_are_known_to_be_finished(
    finished: Checkout,
) -> None:
    shutil.rmtree(finished.folder / ".snakemake")
    touch(finished, *(f"results/tiny/nouns/data/{name}" for name in ("train.tsv", "dev.tsv")))

    outcome = planned(finished)
    for model in ("soft", MONO):
        assert f"{model} on nouns, seed 1" in outcome.trained
        assert f"{model} on nouns, seed 1: finished already" in outcome.said


def test_changed_data_of_ones_own_are_fetched_prepared_and_trained_on_again(
    finished: Checkout,
) -> None:
    append(finished, "own/train.tsv", "quax\tnumber=singular\tquax\n")

    outcome = planned(finished)

    assert outcome.jobs["fetch_data"] == outcome.jobs["prepare_data"] == 1
    assert len(outcome.trained) == 2


OTHER_LIMITS = "decoding={beam: 2, max_length: 40, max_ratio: 2, min_length: 1}"


def test_other_limits_of_decoding_train_nothing_where_the_epoch_is_chosen_by_loss(
    translated: tuple[Checkout, Outcome],
) -> None:
    made, _ = translated
    for changed in (OTHER_LIMITS, "decoding={length_penalties: [0.3, 0.6]}"):
        outcome = made.plan(*PAIRS, "--config", changed)

        assert outcome.code == 0, outcome.said
        assert outcome.jobs["predict_run"] > 0
        assert outcome.trained == set()
        assert outcome.jobs["join_ensemble"] == 0
        assert "chooses their epoch" not in outcome.said


def test_other_limits_of_decoding_train_again_where_it_chooses_the_epoch_which_is_said(
    finished: Checkout,
) -> None:
    outcome = finished.plan(*OWN, "--config", OTHER_LIMITS)

    assert outcome.code == 0, outcome.said
    assert len(outcome.trained) == 2
    (sentence,) = [line for line in outcome.said.splitlines() if "training.select" in line]
    assert "`decoding.max_length`" in sentence and "beam" not in sentence
    assert f"soft, {MONO} on nouns" in sentence

    assert finished.plan(*OWN, "--config", "decoding={beam: 2}").trained == set()
