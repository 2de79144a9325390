"""The expectation from a relaxed draw, whose gradient flows through it."""

from __future__ import annotations

from torch import Tensor

from pam.models.memory import relaxed
from pam.models.parts import Estimator
from pam.models.readout import Gold
from pam.models.sizes import Sizes, check_number


class Gumbel(Estimator):
    """log p(y_t | s_t, sum_a w(a) h_a) of Gumbel-Softmax weights w drawn from q (Jang et al. 2017).

    The context lies between encoder states, so that value and gradient are biased, less so the
    lower the temperature, at which their variance grows. Orlova et al. (section 2) name it and did
    not try it.

    Args:
        temperature: 0.5, as Amortized Context Vector Inference has it.
    """

    def __init__(self, sizes: Sizes, temperature: float = 0.5) -> None:
        super().__init__()
        self.temperature = check_number(
            "estimator option `temperature`", temperature, least=1e-3, most=1e3
        )

    def forward(
        self, gold: Gold, log_q: Tensor, log_prior: Tensor, gumbel: Tensor | None
    ) -> Tensor:
        assert gumbel is not None
        return gold.at(relaxed(log_q, gumbel, self.temperature).exp())


COMPONENT = Gumbel
