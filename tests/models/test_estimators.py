"""Estimators of a bound and of its gradient, compared with the enumerated ones (float64)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pam.models.interfaces import Noise
from pam.models.seq2seq import Seq2Seq
from tests.models import tiny
from tests.models.plain import one_sentence

Gradient = dict[str, Tensor]


def gradient(model: Seq2Seq, sentence: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Gradient]:
    """Return the objective of a sentence of one symbol, and its gradient."""
    model.zero_grad()
    value = model.objective(*sentence).sum()
    value.backward()
    gradients = {
        name: torch.zeros_like(part) if part.grad is None else part.grad.clone()
        for name, part in model.named_parameters()
    }
    return value.detach(), gradients


def mean_over_draws(model: Seq2Seq, probabilities: Tensor) -> tuple[Tensor, Gradient]:
    """Average objective and gradient exactly, over all positions that may be drawn."""
    sentence = one_sentence(target=1)
    length = sentence[0].shape[1]
    total = torch.zeros((), dtype=torch.float64)
    mean = {}

    for position, weight in enumerate(probabilities):
        chosen = torch.zeros(1, 1, length, dtype=torch.float64)
        chosen[0, 0, position] = 1e6  # noise with which this position is drawn
        noise = Noise(chosen, torch.zeros(1, 1, 6, dtype=torch.float64))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Noise, "draw", classmethod(lambda cls, steps, values, n=noise: n))
            value, gradients = gradient(model, sentence)

        total = total + weight * value
        for name, part in gradients.items():
            mean[name] = mean.get(name, torch.zeros_like(part)) + weight * part

    return total, mean


def exact_twin(name: str, **changed: Any) -> tuple[Seq2Seq, Seq2Seq]:
    """Make a model that draws, and one with the same weights that enumerates."""
    model = tiny.model(tiny.components(name, **changed))
    exact = tiny.model(tiny.components(name, **{**changed, "estimator": "exact"}))
    weights = {key: value for key, value in model.state_dict().items() if "estimator" not in key}
    exact.load_state_dict(weights)
    return model, exact


@pytest.mark.parametrize("baseline", ["soft", "moving", "none"])
@pytest.mark.parametrize("name", ["hard", "variational-sample"])
def test_reinforce_is_unbiased_in_value_and_gradient(name: str, baseline: str) -> None:
    """Averaged over all draws, by their probabilities, it is the enumerated gradient."""
    estimator = {"kind": "reinforce", "baseline": baseline, "decay": 1.0}
    model, exact = exact_twin(name, estimator=estimator)
    # Any constant will do as a baseline.
    if baseline == "moving":
        model.estimator.average.fill_(-1.7)
    sentence = one_sentence(target=1)
    log_q = tiny.infer(model, *sentence)
    prior = model.teacher_force(*sentence).prior[0, 0]
    probabilities = (prior if log_q is None else log_q[0, 0].exp()).detach()
    value, mean = mean_over_draws(model, probabilities)
    exact_value, enumerated = gradient(exact, sentence)

    torch.testing.assert_close(value, exact_value)

    for key, part in enumerated.items():
        torch.testing.assert_close(mean[key], part, msg=lambda m, k=key: f"{k}: {m}")


def test_the_soft_baseline_lowers_the_variance_of_the_gradient() -> None:
    sentence = one_sentence(target=1)
    spread = {}
    for baseline in ("soft", "none"):
        model = tiny.model(
            tiny.components("hard", estimator={"kind": "reinforce", "baseline": baseline})
        )
        prior = model.teacher_force(*sentence).prior[0, 0]
        _, mean = mean_over_draws(model, prior)
        squares = 0.0
        for position, weight in enumerate(prior):
            _, drawn = mean_over_draws(model, torch.eye(len(prior), dtype=torch.float64)[position])
            # This draw's distance from the mean, weighted by its probability.
            squares += float(weight * sum(((drawn[k] - mean[k]) ** 2).sum() for k in mean))

        spread[baseline] = squares

    assert spread["soft"] < spread["none"]


def test_the_moving_baseline_follows_what_it_saw_in_training_alone() -> None:
    model = tiny.model(tiny.components("hard-moving"))
    batch = tiny.batch(target=1)
    model.objective(*batch)

    assert float(model.estimator.average) == 0.0  # in evaluation mode

    model.train()
    value = model.objective(*batch)
    assert float(model.estimator.average) == pytest.approx(0.1 * float(value.detach().mean()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_moving_baseline_is_the_average_before_the_step(dtype: torch.dtype) -> None:
    model = tiny.model(tiny.components("hard-moving")).to(dtype).train()
    model.estimator.average.fill_(-1.5)
    log_prob = torch.tensor([-3.0, -5.0], dtype=dtype)

    baseline = model.estimator._mean_reward(log_prob, is_real=torch.tensor([True, True]))

    assert float(baseline) == -1.5
    assert float(model.estimator.average) == pytest.approx(0.9 * -1.5 + 0.1 * -4.0)


def test_gumbel_softmax_is_biased_and_less_so_at_a_lower_temperature() -> None:
    """Value and gradient, each the mean of 4,000 draws."""
    source, lengths, target = one_sentence(target=1)
    many = source.expand(4000, -1), lengths.expand(4000), target.expand(4000, -1)
    value_bias = {}
    gradient_bias = {}
    for temperature in (5.0, 0.1):
        estimator = {"kind": "gumbel", "temperature": temperature}
        model, exact = exact_twin("variational-gumbel", estimator=estimator)
        for either in (model, exact):
            # A larger weight of the context makes the bias visible.
            either.readout.of_values.weight.data.mul_(3)
        torch.manual_seed(0)
        value, gradients = gradient(model, many)
        exact_value, enumerated = gradient(exact, (source, lengths, target))
        distance = sum(((gradients[k] / 4000 - enumerated[k]) ** 2).sum() for k in enumerated)
        size = sum((part**2).sum() for part in enumerated.values())
        value_bias[temperature] = float((value / 4000 - exact_value).abs())
        gradient_bias[temperature] = float((distance / size) ** 0.5)

    assert value_bias[5.0] > 5 * value_bias[0.1] and value_bias[5.0] > 0.01
    assert gradient_bias[5.0] > 2 * gradient_bias[0.1] and gradient_bias[5.0] > 0.03


def test_expected_contexts_have_the_plain_gradient_of_soft_attention() -> None:
    steadied = tiny.model(
        tiny.components("hard", estimator={"kind": "reinforce", "expected": 1})
    ).train()
    soft = tiny.model(tiny.components("soft", input_feeding="sample")).train()
    soft.load_state_dict(
        {name: part for name, part in steadied.state_dict().items() if "estimator" not in name}
    )
    sentence = one_sentence(target=1)
    results = []
    for model in (steadied, soft):
        torch.manual_seed(4)
        results.append(gradient(model, sentence))

    (value, gradients), (soft_value, soft_gradients) = results
    torch.testing.assert_close(value, soft_value)
    for name, soft_gradient in soft_gradients.items():
        torch.testing.assert_close(gradients[name], soft_gradient)


def test_the_entropy_bonus_is_the_entropy_of_q_in_training_alone() -> None:
    values = []
    for entropy in (0.0, 0.7):
        model = tiny.model(
            tiny.components("hard", estimator={"kind": "reinforce", "entropy": entropy})
        ).train()
        torch.manual_seed(4)
        value, unrolled = model.unrolled_objective(*one_sentence(target=1))
        torch.manual_seed(4)
        prior = model.attention(unrolled, of_posterior=False)
        values.append((value, prior, model.eval().objective(*one_sentence(target=1))))

    (plain, prior, before), (bonus, _, after) = values
    torch.testing.assert_close(bonus - plain, -0.7 * (prior * prior.log()).sum(2))
    torch.testing.assert_close(before, after)
