"""Training by `Trainer`, saving and loading, and lower precision."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.hf.tiny import MODELS, aligned, batch, pam_hf, plain, transformers

ROWS = [
    {"input_ids": [5, 6, 7, 2], "labels": [8, 9, 10, 2]},
    {"input_ids": [6, 2], "labels": [9, 2]},
    {"input_ids": [7, 5, 2], "labels": [10, 8, 2]},
    {"input_ids": [7, 7, 7, 7, 2], "labels": [10, 10, 10, 10, 2]},
]


class Padder:
    """Pads rows as the tokenizer of a data collator does, on one side."""

    def __init__(self, side: str = "right") -> None:
        self.side = side

    def __call__(self, rows: list[dict[str, list[int]]]) -> dict[str, Tensor]:
        longest = max(len(row["input_ids"]) for row in rows)
        longest_target = max(len(row["labels"]) for row in rows)
        columns: dict[str, list[list[int]]] = {"input_ids": [], "attention_mask": [], "labels": []}
        for row in rows:
            missing = [0] * (longest - len(row["input_ids"]))
            pairs = [
                ("input_ids", missing, row["input_ids"]),
                ("attention_mask", missing, [1] * len(row["input_ids"])),
            ]
            for name, padding, values in pairs:
                padded = padding + values if self.side == "left" else values + padding
                columns[name].append(padded)
            columns["labels"].append(row["labels"] + [-100] * (longest_target - len(row["labels"])))
        return {name: torch.tensor(values) for name, values in columns.items()}


def trainer_of(model: Any, out: Path, side: str = "right", **changed: Any) -> Any:
    pytest.importorskip("accelerate", reason="the package accelerate is not installed")
    settings: dict[str, Any] = {
        "output_dir": str(out),
        "per_device_train_batch_size": 4,
        "per_device_eval_batch_size": 2,
        "learning_rate": 1e-2,
        "num_train_epochs": 12,
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        "logging_steps": 1,
        "save_strategy": "no",
        "seed": 1,
    }
    return transformers.Seq2SeqTrainer(
        model=model,
        args=transformers.Seq2SeqTrainingArguments(**settings | changed),
        train_dataset=ROWS,
        eval_dataset=ROWS,
        data_collator=Padder(side),
    )


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"bf16": True}, {"gradient_checkpointing": True}, {"label_smoothing_factor": 0.1}],
)
def test_trainer_lowers_the_loss(tmp_path: Path, settings: dict[str, Any], side: str) -> None:
    model = aligned("marian", coupling="proximity").float()
    if "label_smoothing_factor" in settings:
        model.train()
    trainer = trainer_of(model, tmp_path, side, **settings)
    if "label_smoothing_factor" in settings:
        collate = trainer.data_collator

        def with_symbols(rows: list[Any]) -> dict[str, Tensor]:
            columns: dict[str, Tensor] = collate(rows)
            symbols = model.prepare_decoder_input_ids_from_labels(columns["labels"])
            return columns | {"decoder_input_ids": symbols}

        trainer.data_collator = with_symbols
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    losses = [float(loss) for loss in losses]
    assert losses[-1] < 0.7 * losses[0]
    assert model.posterior_attention.of_values.weight.dtype is torch.float32


def test_trainer_evaluates_and_predicts(tmp_path: Path) -> None:
    model = aligned("t5", coupling="proximity").float()
    seen = []

    def metrics(given: Any) -> dict[str, float]:
        logits = given.predictions[0] if isinstance(given.predictions, tuple) else given.predictions
        seen.append(logits.shape)
        return {"seen": 1.0}

    trainer = trainer_of(model, tmp_path)
    trainer.compute_metrics = metrics
    evaluated = trainer.evaluate()
    whole = model(**Padder()(ROWS))
    assert seen == [(4, 5, 12)]
    assert evaluated["eval_loss"] == pytest.approx(float(whole.loss), rel=0.2)

    trainer.args.predict_with_generate = True
    trainer.compute_metrics = None
    predicted = trainer.predict(ROWS, num_beams=2, max_new_tokens=4)
    assert predicted.predictions.shape[0] == 4


def test_gathered_batches_have_the_gradient_of_one(tmp_path: Path) -> None:
    gradients = []
    for size, gathered in ((4, 1), (1, 4)):
        model = aligned("marian", coupling="proximity")
        for module in model.modules():
            if isinstance(getattr(module, "dropout", None), float):
                module.dropout = 0.0
        trainer = trainer_of(
            model,
            tmp_path,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=gathered,
            max_steps=1,
            optim="sgd",
            max_grad_norm=0.0,
            learning_rate=1.0,
            lr_scheduler_type="constant",
        )
        before = copy.deepcopy(model.state_dict())
        trainer.train()
        gradients.append({name: before[name] - value for name, value in model.state_dict().items()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, msg=name)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("output", ["tied", "own"])
def test_a_saved_model_is_the_same_when_it_is_loaded(
    kind: str, output: str, tmp_path: Path
) -> None:
    model = aligned(kind, coupling="proximity", output=output).float()
    model.save_pretrained(tmp_path)
    loaded = pam_hf.from_pretrained(tmp_path).eval()

    assert type(loaded) is type(model)
    expected = model(**batch())
    out = loaded(**batch())
    torch.testing.assert_close(out.logits, expected.logits)
    torch.testing.assert_close(out.posterior, expected.posterior)
    for copied in (copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))):  # noqa: S301
        torch.testing.assert_close(copied(**batch()).loss, expected.loss)

    loaded.save_pretrained(tmp_path / "again")
    again = pam_hf.from_pretrained(tmp_path / "again").eval()
    torch.testing.assert_close(again(**batch()).loss, expected.loss)


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_in_half_precision_has_a_head_in_float32(kind: str, tmp_path: Path) -> None:
    model = aligned(kind, coupling="proximity").float()
    expected = model(**batch())
    model.save_pretrained(tmp_path)
    for half in (model.bfloat16(), pam_hf.from_pretrained(tmp_path, dtype=torch.bfloat16).eval()):
        assert half.dtype is torch.bfloat16
        assert half.posterior_attention.coupling.raw.dtype is torch.float32
        out = half(**batch())
        assert out.loss.dtype is torch.float32
        assert float(out.loss.detach()) == pytest.approx(float(expected.loss.detach()), rel=0.1)
        out.loss.backward()
        assert half.get_output_embeddings().weight.grad.isfinite().all()
        half.generate(batch()["input_ids"], num_beams=2, max_new_tokens=4)


@pytest.mark.parametrize("kind", MODELS)
def test_gradient_checkpointing_changes_no_gradient(kind: str) -> None:
    gradients = []
    for checkpoints in (False, True):
        model = aligned(kind, coupling="proximity")
        if checkpoints:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        for module in model.modules():
            if isinstance(getattr(module, "dropout", None), float):
                module.dropout = 0.0
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        model.train()
        model(**batch()).loss.backward()
        gradients.append({name: value.grad for name, value in model.named_parameters()})
    for name, gradient in gradients[0].items():
        if gradient is not None:
            torch.testing.assert_close(gradients[1][name], gradient, msg=name)


def test_training_gives_logits_only_where_they_are_asked_for() -> None:
    model = aligned("bart", coupling="none").train()
    assert model(**batch()).logits is None
    assert model(**batch(), output_logits=True).logits.shape == (2, 4, 12)
    model.eval()
    assert model(**batch(), output_logits=False).logits is None
    loss, *_ = model(**batch(), return_dict=False)
    torch.testing.assert_close(loss, model(**batch()).loss)


def test_a_plain_folder_is_not_loaded(tmp_path: Path) -> None:
    from pam.runtime.errors import UserError

    plain("marian").save_pretrained(tmp_path)
    with pytest.raises(UserError, match="without posterior attention"):
        pam_hf.from_pretrained(tmp_path)
    with pytest.raises(UserError, match="no model"):
        pam_hf.from_pretrained(tmp_path / "nothing")
