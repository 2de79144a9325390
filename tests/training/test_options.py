"""The options of a training: length, parts of a batch, averages, precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from pam.data.dataset import Examples, Prepared
from pam.experiments.run_config import RunConfig
from pam.runtime import processor
from tests.training import runs, small
from tests.training.trainers import Result, trained, trainer, without_dropout

STEP = ("pam.training.trainer", "Trainer._step")


def test_a_training_ends_after_its_most_steps_in_the_midst_of_an_epoch(
    data: Path, tmp_path: Path
) -> None:
    _, progress = trained(small.run(max_steps=6), data, tmp_path)
    assert [row["step"] for row in progress.history] == [4, 6]
    assert progress.history[-1]["examples"] == 90


def test_a_training_that_ends_early_is_resumed_to_the_same_result(
    data: Path, tmp_path: Path
) -> None:
    run = small.run(max_steps=6, average=2)
    assert runs.train(run, data, tmp_path / "straight").end() == 0

    fault = runs.Fault("pam.training.trainer", "Trainer._step", 6)
    assert runs.train(run, data, tmp_path / "killed", fault).end() != 0
    assert runs.train(run, data, tmp_path / "killed").end() == 0
    assert runs.result(tmp_path / "killed") == runs.result(tmp_path / "straight")


def test_a_training_without_progress_ends_when_patience_does(data: Path, tmp_path: Path) -> None:
    run = small.run(epochs=30, patience=2, learning_rate=0.2, flat=1.0, divergence=1000.0)
    _, progress = trained(run, data, tmp_path)
    losses = [row["dev_loss"] for row in progress.history]

    assert len(losses) < 30
    assert losses.index(min(losses)) == len(losses) - 3


@pytest.mark.parametrize("model", ["soft", "postr-joint"])
def test_a_batch_cut_into_parts_gives_the_same_step(model: str, data: Path, tmp_path: Path) -> None:
    plain = {"epochs": 1, "select": "loss", "optimizer": "sgd", "learning_rate": 0.5}
    results = [
        trained(without_dropout(small.run(model, accumulate=parts, **plain)), data, tmp_path / p)
        for parts, p in ((1, "one"), (4, "four"), (100, "every"))
    ]
    for weights, _ in results[1:]:
        for name, value in weights.items():
            torch.testing.assert_close(value, results[0][0][name], rtol=1e-4, atol=1e-6)


def test_kept_weights_are_the_mean_of_the_last_epochs(data: Path, tmp_path: Path) -> None:
    def run(name: str, **training: Any) -> dict[str, torch.Tensor]:
        return trained(small.run(select="last", **training), data, tmp_path / name)[0]

    # All three trainings take the same steps; they differ in their end and in what is kept.
    steps = {"schedule": "halving"}
    second = run("at8", max_steps=8, **steps)
    third = run("at12", max_steps=12, **steps)
    mean = run("mean", average=2, **steps)
    for name, value in mean.items():
        torch.testing.assert_close(value, (second[name] + third[name]) / 2)


def test_selection_by_loss_searches_no_outputs(data: Path, tmp_path: Path) -> None:
    assert runs.train(small.run(select="loss"), data, tmp_path).end() == 0

    history = pd.read_csv(tmp_path / "history.csv")
    assert history["dev_accuracy"].isna().all()

    best = runs.record_of(tmp_path)["best_epoch"]
    assert history["dev_loss"].idxmin() + 1 == best


@pytest.mark.parametrize("model", ["variational-sample", "hard-mono"])
def test_more_metrics_change_nothing_in_a_training(model: str, data: Path, tmp_path: Path) -> None:
    plain = trained(small.run(model, eval_metrics=False), data, tmp_path / "False")
    measured = trained(small.run(model, eval_metrics=True), data, tmp_path / "True")
    for name, value in plain[0].items():
        assert torch.equal(value, measured[0][name])
    for row in measured[1].history:
        assert 0 <= row["dev_token_accuracy"] <= 1
        assert row["dev_objective"] < 0 and row["dev_positions"] >= 1

    assert {row["dev_objective"] for row in plain[1].history} == {None}


def test_a_gradient_divided_by_sentences_makes_a_step_so_much_longer(
    data: Path, tmp_path: Path
) -> None:
    plain = {
        "optimizer": "sgd",
        "warmup_steps": 0,
        "flat": 1.0,
        "clip": 1e9,
        "max_steps": 1,
        "batch_size": 60,
    }
    # All rows are one batch, of so many tokens to a sentence.
    lengths = Examples(Prepared(data).split("train"), "symbols").target_lengths
    tokens_per_sentence = int(lengths.sum()) / 60

    def train(normalize: str, rate: float) -> Result:
        run = small.run(**plain, normalize=normalize, learning_rate=rate)
        return trained(without_dropout(run), data, tmp_path / normalize)

    by_tokens = train("tokens", 0.01 * tokens_per_sentence)
    by_sentences = train("sentences", 0.01)
    for name, value in by_sentences[0].items():
        torch.testing.assert_close(value, by_tokens[0][name], rtol=1e-5, atol=1e-6)
    # What is logged stays per token.
    losses = [progress.history[0]["train_loss"] for _, progress in (by_tokens, by_sentences)]

    assert losses[0] == pytest.approx(losses[1])


def test_adam_s_betas_are_what_the_training_says(data: Path, tmp_path: Path) -> None:
    training = trainer(small.run(adam_betas=[0.8, 0.98]), data, tmp_path)
    assert training.optimizer.defaults["betas"] == (0.8, 0.98)


def plateau(model: str = "soft", **training: Any) -> RunConfig:
    """Configure a rate so high that some epochs are worse than those before."""
    chosen: dict[str, Any] = {
        "schedule": "plateau",
        "learning_rate": 0.15,
        "warmup_steps": 0,
        "divergence": 1000.0,
    }
    return small.run(model, **chosen, epochs=8, select="loss", **training)


@pytest.mark.parametrize("model", ["soft", "variational-sample"])
def test_the_rate_is_halved_after_epochs_whose_development_bound_is_not_the_best(
    model: str, data: Path, tmp_path: Path
) -> None:
    _, progress = trained(plateau(model), data, tmp_path)
    # The schedule, step by step from the bounds that were measured.
    rate = 0.15
    best = -float("inf")
    rates = []
    for row in progress.history:
        rates.append(rate)
        rate = rate if row["dev_objective"] >= best else rate / 2
        best = max(best, row["dev_objective"])

    assert [row["learning_rate"] for row in progress.history] == rates
    assert len(set(rates)) > 1

    if model == "soft":  # its bound is the likelihood
        assert [-row["dev_objective"] for row in progress.history] == pytest.approx(
            [row["dev_loss"] for row in progress.history]
        )


# In the midst of epochs.
@pytest.mark.parametrize("number", [18, pytest.param(30, marks=pytest.mark.faults)])
def test_a_plateau_s_rate_survives_a_kill(number: int, data: Path, tmp_path: Path) -> None:
    run = plateau("variational-sample", average=2)
    assert runs.train(run, data, tmp_path / "straight").end() == 0
    assert runs.train(run, data, tmp_path / "killed", runs.Fault(*STEP, number)).end() != 0
    assert runs.train(run, data, tmp_path / "killed").end() == 0
    assert runs.result(tmp_path / "killed") == runs.result(tmp_path / "straight")

    rates = pd.read_csv(tmp_path / "killed" / "history.csv")["learning_rate"]
    assert rates.nunique() > 1


@pytest.mark.processor
@pytest.mark.skipif(not processor.try_bfloat16().pays, reason=processor.try_bfloat16().reason)
def test_bf16_products_train_as_well(data: Path, tmp_path: Path) -> None:
    def losses(precision: str) -> list[float]:
        run = small.run("postr-joint", precision=precision, epochs=4)
        _, progress = trained(run, data, tmp_path / precision)
        return [row["train_loss"] for row in progress.history]

    exact = losses("float32")
    bf16 = losses("bf16")
    assert bf16 != exact
    assert bf16 == pytest.approx(exact, rel=0.1)
    assert bf16[-1] < bf16[0]
