"""An experiment that says it follows published commands does, line by line."""

from __future__ import annotations

from typing import Any

import pytest

from pam.data.registry import load_registries
from pam.experiments.loading import load_plan
from pam.experiments.plan import Plan
from pam.experiments.run_config import RunConfig
from pam.models import options
from pam.tasks.translation.format import TranslationFormat
from tests.workflow.checkouts import ROOT

TASK = "iwslt14-de-en"
PUBLISHED = {  # of ours, the command of `va.sh` (harvardnlp/var-attn)
    "soft-mlp": "train_soft_b6",
    "variational": "train_cat_enum_b6",
    "variational-sample": "train_cat_sample_b6",
    "variational-gumbel": "train_cat_gumbel_b6",
}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return load_plan(files=[ROOT / "config/variational.yaml"])


@pytest.fixture(params=PUBLISHED)
def run(plan: Plan, request: pytest.FixtureRequest) -> RunConfig:
    return plan.run(TASK, request.param, 1)


NETWORK: dict[str, Any] = {
    "embedding": 512,  # -src_word_vec_size, -tgt_word_vec_size
    "encoder": 512,  # -memory_size 1024, of both directions
    "decoder": 768,  # -decoder_rnn_size
    "encoder_layers": 2,  # the default
    "decoder_layers": 2,
    "decoder_start": "zeros",  # `init_decoder_state`
    "dropout": 0.3,  # the default
    "initial_range": 0.1,  # -param_init, the default
}
TRAINING: dict[str, Any] = {
    "optimizer": "adam",  # -optim
    "adam_betas": [0.9, 0.999],  # the default
    "learning_rate": 0.0003,  # -learning_rate
    "schedule": "plateau",  # `update_learning_rate`
    "halve_from": 2,  # -start_decay_at
    "warmup_steps": 0,
    "batch_size": 6,  # -batch_size
    "normalize": "sentences",  # -normalization, the default
    "clip": 5.0,  # -max_grad_norm, the default
    "epochs": 30,  # -epochs
    "max_steps": None,
    "patience": None,
    "average": 1,
}


def test_sizes_and_start_are_the_published_ones(run: RunConfig) -> None:
    network = run.network.model_dump()
    assert {key: network[key] for key in NETWORK} == NETWORK


def test_the_training_is_the_published_one(run: RunConfig) -> None:
    training = run.training.model_dump()
    assert {key: training[key] for key in TRAINING} == TRAINING


def test_the_search_is_the_published_one(run: RunConfig) -> None:
    assert run.decoding.beam == 10  # -beam_size
    # -length_penalty wu -alpha 1
    assert (run.decoding.length_penalty_form, run.decoding.length_penalty) == ("wu", 1)


def test_every_score_is_an_mlp_as_wide_as_published(run: RunConfig) -> None:
    assert run.components.score == options.Mlp(units=512)  # -global_attention mlp, -attention_size


@pytest.mark.parametrize("model", [name for name in PUBLISHED if name != "soft-mlp"])
def test_the_bound_weighs_its_divergence_fully_throughout(plan: Plan, model: str) -> None:
    components = plan.run(TASK, model, 1).components

    assert components.marginalization == options.Bound()
    assert components.marginalization.weight == 1.0
    # -inference_network_type bigbrnn, of two layers of 512 units a direction, as the encoder.
    assert components.inference == options.BiLSTM(scale=False)


def test_expectations_are_taken_as_published(plan: Plan) -> None:
    estimators = {name: plan.run(TASK, name, 1).components.estimator for name in PUBLISHED}

    assert estimators["variational"] == options.Exact()  # -mode enum
    # -mode sample, -n_samples 1
    assert estimators["variational-sample"] == options.Reinforce(baseline="soft")
    # -mode gumbel, -temperature
    assert estimators["variational-gumbel"] == options.Gumbel(temperature=0.1)
    assert plan.run(TASK, "soft-mlp", 1).components.marginalization == options.Input()


def test_sources_are_joint_subwords_without_an_end_symbol(plan: Plan) -> None:
    entry = load_registries([ROOT / file for file in plan.experiment.registries])[TASK]
    layout = entry.with_format(plan.task(TASK).format).layout

    assert isinstance(layout, TranslationFormat)
    # onmt/io/TextDataset.py: the source's field has neither begin nor end
    assert layout.source_eos is False
    assert layout.subwords is not None
    assert (layout.subwords.merges, layout.subwords.joint) == (14_000, True)  # BPE_TOKENS
    # all: fewer than -src_vocab_size
    assert (layout.vocabulary.size, layout.vocabulary.min_count) == (None, 1)


def test_a_transformer_has_a_rate_of_its_own_where_others_train_by_plain_sgd() -> None:
    acvi = load_plan(files=[ROOT / "config/acvi.yaml"])
    soft = acvi.run("wmt16-en-ro", "soft", 1).training
    transformer = acvi.run("wmt16-en-ro", "transformer", 1).training

    assert (soft.optimizer, soft.schedule, soft.learning_rate) == ("sgd", "plateau", 1.0)
    assert (transformer.optimizer, transformer.schedule, transformer.adam_betas) == (
        "adam",
        "inverse_sqrt",
        [0.9, 0.98],
    )
    assert transformer.learning_rate <= 0.001 and transformer.warmup_steps >= 400
