"""Loss, log p and posterior of models of `transformers`: by definition, and by all paths."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pam.models.interfaces import AttentionHistory, Smoothing
from pam.models.kernels import log_linear
from pam.runtime.errors import UserError
from tests.hf.tiny import MODELS, SYMBOLS, aligned, batch, pam_hf, plain

COMPONENTS: dict[str, dict[str, Any]] = {
    "none": {},
    "proximity": {"coupling": "proximity"},
    "monotone, first before": {"coupling": {"kind": "monotone", "first": "before"}},
    "prior": {"coupling": "proximity", "input_feeding": "prior"},
    "chain": {"coupling": "chain", "input_feeding": "prior", "score": "mlp"},
    "sparsemax": {"coupling": "proximity", "distribution": "sparsemax"},
    "top 2": {"coupling": "proximity", "marginalization": {"kind": "output", "top_k": 2}},
    "nucleus": {"coupling": "proximity", "marginalization": {"kind": "output", "mass": 0.7}},
    "own output": {"coupling": "proximity", "output": "own"},
    "no source attention": {"coupling": "proximity", "source_attention": False},
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("output", ["tied", "own"])
def test_a_new_head_changes_no_probability(kind: str, output: str) -> None:
    model = plain(kind)
    before = model(**batch())
    model = pam_hf.with_posterior_attention(model, coupling="proximity", output=output)
    after = model(**batch())

    torch.testing.assert_close(after.loss, before.loss)
    is_known = batch()["labels"] != -100
    expected = before.logits.log_softmax(2)
    torch.testing.assert_close(after.logits[is_known], expected[is_known])
    # All positions explain a symbol alike, so that it tells nothing of them.
    torch.testing.assert_close(after.posterior, after.alignment)


def by_definition(model: Any, row: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Compute log p (T,), priors and posteriors (T, m) of a pair without padding, step by step.

    The head takes one step after another; p(y | s_t, h_a) is the softmax of the model's own layer.
    """
    head = model.alignment_head()
    settings = model.config.posterior_attention
    weight, bias = head.readout.output_layer()
    values = model.get_encoder()(input_ids=row["input_ids"]).last_hidden_state
    previous = model.prepare_decoder_input_ids_from_labels(row["labels"])
    seen = values
    if not settings["source_attention"]:
        seen = None
    queries = model.get_decoder()(input_ids=previous, encoder_hidden_states=seen)[0]

    memory = head.memory(values, torch.ones(values.shape[:2], dtype=torch.bool))
    history = AttentionHistory()
    results = []
    for query, symbol in zip(queries[0], row["labels"][0], strict=True):
        if symbol == -100:
            continue
        attention = head.attend(memory, history, query[None])
        log_prior = attention.log_prior[0]
        summed = values[0] @ model.posterior_attention.of_values.weight.t()
        hidden = settings["factor"] * query + summed
        likelihood = (hidden @ weight.t() + bias).log_softmax(1)[:, symbol]

        kept = head.marginalization.output(rows(attention, memory)).chosen.mask[0]
        log_joint = (log_prior + likelihood).masked_fill(~kept, -torch.inf)
        if head.marginalization.renormalized and head.marginalization.training:
            log_joint = log_joint - log_prior.masked_fill(~kept, -torch.inf).logsumexp(0)
        log_prob = log_joint.logsumexp(0)
        posterior = (log_joint - log_prob).exp()
        results.append((log_prob, attention.prior[0], posterior))

        # What the next step is coupled to.
        handed_on = attention.prior[0]
        if head.input_feeding.needs_positions:
            share = 1.0
            if head.marginalization.top_k is not None and int(kept.sum()) < len(kept):
                share = 0.5
            handed_on = share * posterior + (1 - share) * attention.prior[0]
        history = history.then(handed_on[None])
    log_probs, priors, posteriors = zip(*results, strict=True)
    return torch.stack(log_probs), torch.stack(priors), torch.stack(posteriors)


def rows(attention: Any, memory: Any) -> Any:
    from pam.models.outputs import OutputRows

    return OutputRows(memory.readout, attention)


def each_row(given: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """Return the pairs of a batch without padding."""
    pairs = []
    for row in range(len(given["labels"])):
        source = given["input_ids"][row][given["attention_mask"][row].bool()]
        target = given["labels"][row][given["labels"][row] != -100]
        pairs.append({"input_ids": source[None], "labels": target[None]})
    return pairs


@pytest.mark.parametrize("name", COMPONENTS)
@pytest.mark.parametrize("kind", MODELS)
def test_loss_and_gradients_are_those_of_the_head_step_by_step(kind: str, name: str) -> None:
    components = COMPONENTS[name]
    model = aligned(kind, **components)
    # In training a nucleus is renormalized; nothing in a head is dropped.
    model.posterior_attention.train(name == "nucleus")
    out = model(**batch(), output_logits=True)
    out.loss.backward()
    gradients = {name: value.grad for name, value in model.named_parameters()}
    model.zero_grad()

    total = torch.zeros((), dtype=torch.float64)
    for row, pair in enumerate(each_row(batch())):
        log_probs, priors, posteriors = by_definition(model, pair)
        steps, length = priors.shape
        torch.testing.assert_close(out.alignment[row, :steps, :length], priors)
        torch.testing.assert_close(out.posterior[row, :steps, :length], posteriors)
        torch.testing.assert_close(out.logits[row, range(steps), pair["labels"][0]], log_probs)
        assert not out.posterior[row, :, length:].any()
        total = total - log_probs.sum()
    loss = total / 7
    loss.backward()

    torch.testing.assert_close(out.loss, loss)
    for name, value in model.named_parameters():
        assert (gradients[name] is None) == (value.grad is None), name
        if value.grad is not None:
            torch.testing.assert_close(gradients[name], value.grad, msg=name)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("coupling", ["proximity", "monotone"])
def test_the_likelihood_is_the_sum_over_all_paths(kind: str, coupling: str) -> None:
    from pam.hf.head import Aligned

    model = aligned(kind, coupling={"kind": coupling, "first": "before"})
    network = Aligned(model)
    assert network.smoothing is Smoothing.EXACT
    source = torch.tensor([[6, 8, 2]])
    labels = torch.tensor([[7, 5, 6, 2]])
    head = network.head
    values = model.get_encoder()(input_ids=source).last_hidden_state
    previous = model.prepare_decoder_input_ids_from_labels(labels)
    queries = model.get_decoder()(input_ids=previous, encoder_hidden_states=values)[0][0]
    memory = head.memory(values, torch.ones(1, 3, dtype=torch.bool))

    # p(a_t | a_{t-1}), (m, m), and p(y_t | s_t, h_a), (m,), of each step.
    moves = []
    likelihoods = []
    for t, query in enumerate(queries):
        histories = [AttentionHistory()] * 3
        if t:
            histories = [AttentionHistory(t, one_hot[None]) for one_hot in torch.eye(3).double()]
        moves.append(
            torch.stack([head.attend(memory, each, query[None]).prior[0] for each in histories])
        )
        step = head.step(memory, AttentionHistory(), query[None])
        likelihoods.append(step.position_log_prob(labels[0, t : t + 1])[0].exp())

    total = torch.zeros((), dtype=torch.float64)
    marginals = torch.zeros(4, 3, dtype=torch.float64)
    for path in product(range(3), repeat=4):
        weight = torch.ones((), dtype=torch.float64)
        before = 0
        for move, likelihood, position in zip(moves, likelihoods, path, strict=True):
            weight = weight * move[before, position] * likelihood[position]
            before = position
        total = total + weight
        for t, position in enumerate(path):
            marginals[t, position] += weight.detach()

    loss = model(input_ids=source, labels=labels).loss
    torch.testing.assert_close(loss, -total.log() / 4)
    smoothed = network.align(source, torch.tensor([3]), labels + 1, smooth=True)
    torch.testing.assert_close(smoothed[0], marginals / total.detach())

    # The gradient of the sum over all paths too.
    loss.backward()
    gradients = {name: value.grad for name, value in model.named_parameters()}
    model.zero_grad()
    (-total.log() / 4).backward()
    for name, value in model.named_parameters():
        if value.grad is not None:
            torch.testing.assert_close(gradients[name], value.grad, msg=name)


def test_a_nucleus_leaves_out_at_most_what_it_may() -> None:
    whole = aligned("marian", coupling="none")
    loss = whole(**batch()).logits
    for mass in (0.5, 0.9, 1.0):
        model = aligned("marian", coupling="none", marginalization={"kind": "output", "mass": mass})
        logits = model(**batch()).logits
        is_known = batch()["labels"] != -100
        left_out = (loss[is_known].exp() - logits[is_known].exp()).detach()
        assert left_out.min() >= -1e-12
        assert left_out.max() <= 1 - mass + 1e-12


@pytest.mark.parametrize("kind", MODELS)
def test_padding_of_sources_on_the_left_changes_nothing(kind: str) -> None:
    model = aligned(kind, coupling={"kind": "monotone", "first": "before"})
    pair = {"input_ids": torch.tensor([[9, 10, 2]]), "labels": torch.tensor([[11, 3, 8, 2]])}
    expected = model(**pair)
    padded = {
        "input_ids": torch.tensor([[0, 0, 9, 10, 2]]),
        "attention_mask": torch.tensor([[0, 0, 1, 1, 1]]),
        "labels": pair["labels"],
    }
    # Encoders count positions from padding on: T5, which has distances alone, does not.
    values = model.get_encoder()(input_ids=pair["input_ids"]).last_hidden_state
    states = torch.cat([torch.full((1, 2, 8), torch.nan).double(), values], 1)
    states[:, :2] = 0.0
    given = {"encoder_outputs": (states,), **padded}
    out = model(**given)

    torch.testing.assert_close(out.loss, expected.loss)
    torch.testing.assert_close(out.logits, expected.logits)
    torch.testing.assert_close(out.posterior[:, :, 2:], expected.posterior)
    assert not out.posterior[:, :, :2].any()
    if kind == "t5":
        torch.testing.assert_close(model(**padded).loss, expected.loss)


def test_steps_without_a_label_are_passed_over() -> None:
    model = aligned("marian", coupling="proximity")
    symbols = torch.tensor([[1, 11, 3, 8, 2]])
    labels = torch.tensor([[-100, 3, -100, 2, 4]])
    pair = {"input_ids": torch.tensor([[9, 10, 2]]), "decoder_input_ids": symbols}
    out = model(**pair, labels=labels)

    # The same queries, as they would be of a target of these labels alone.
    from pam.hf.head import Aligned, States

    states = model.get_decoder()(
        input_ids=symbols,
        encoder_hidden_states=model.get_encoder()(input_ids=pair["input_ids"])[0],
    )[0]
    known = labels[0] != -100
    values = model.get_encoder()(input_ids=pair["input_ids"])[0]
    mask = torch.ones(1, 3, dtype=torch.bool)
    unrolled = Aligned(model).given(States(values, mask, states[:, known]), labels[:, known])

    torch.testing.assert_close(out.loss, -unrolled.log_prob().mean())
    assert not out.posterior[0, ~known].any()
    torch.testing.assert_close(out.posterior[0, known].sum(1), torch.ones(3).double())
    with pytest.raises(ValueError, match="all are -100"):
        model(**pair, labels=torch.full_like(labels, -100))


@pytest.mark.parametrize("way", ["products", "softmaxes"])
@pytest.mark.parametrize("name", ["none", "proximity", "nucleus"])
def test_log_p_has_the_gradient_of_the_loss(
    name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pam.hf import steps

    monkeypatch.setattr(steps, "PIECE", 100)  # a sentence, or two tokens, at a time
    if way == "softmaxes":
        # As if no state and position had a symbol in common.
        monkeypatch.setattr(log_linear, "SMALLEST", torch.inf)
    model = aligned("bart", **COMPONENTS[name])
    given = batch()
    labels = given.pop("labels")
    model(**given, labels=labels).loss.backward()
    expected = {name: value.grad for name, value in model.named_parameters()}
    model.zero_grad()

    symbols = model.prepare_decoder_input_ids_from_labels(labels)
    logits = model(**given, decoder_input_ids=symbols).logits
    loss = torch.nn.functional.nll_loss(logits.transpose(1, 2), labels)
    loss.backward()
    for name, value in model.named_parameters():
        if value.grad is not None:
            torch.testing.assert_close(value.grad, expected[name], msg=name)


def test_a_source_of_padding_alone_leaves_the_gradients_of_others_finite() -> None:
    model = aligned("marian")
    given = batch()
    given["attention_mask"][1] = 0
    model(**given).loss.backward()
    assert all(
        parameter.grad is None or parameter.grad.isfinite().all()
        for parameter in model.parameters()
    )


def test_what_is_frozen_stays_frozen() -> None:
    model = plain("bart").train()
    model.get_encoder().eval()
    pam_hf.with_posterior_attention(model)
    assert model.training
    assert not model.get_encoder().training


def test_symbols_can_be_added_to_a_model_with_a_head(tmp_path: Path) -> None:
    model = aligned("marian")
    model.resize_token_embeddings(SYMBOLS + 3)
    given = batch() | {"labels": torch.tensor([[SYMBOLS + 2, 2, -100], [SYMBOLS, 3, 2]])}
    loss = model(**given).loss
    model.save_pretrained(tmp_path)
    assert pam_hf.from_pretrained(tmp_path, dtype=torch.float64).eval()(**given).loss == loss

    with pytest.raises(UserError, match="output layer of its own"):
        aligned("marian", output="own").resize_token_embeddings(SYMBOLS + 3)
