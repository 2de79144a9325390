"""Score by a perceptron with one hidden layer."""

from __future__ import annotations

from torch import Tensor, nn

from pam.models.memory import Memory, Past
from pam.models.parts import Score
from pam.models.readout import tanh
from pam.models.sizes import Sizes, check_size


class Mlp(Score):
    """e_t(a) = v^T tanh(W s_t + U h_a) (Bahdanau et al. 2015, appendix A.1.2).

    Args:
        units: of the hidden layer. None: as many as the decoder has.
    """

    def __init__(self, sizes: Sizes, units: int | None = None) -> None:
        super().__init__()
        check_size("score option `units`", units, null="the decoder's")
        units = units or sizes.query
        self.of_query = nn.Linear(sizes.query, units, bias=False)
        self.of_values = nn.Linear(sizes.values, units, bias=False)
        self.weight = nn.Linear(units, 1, bias=False)

    def keys(self, values: Tensor) -> Tensor:
        keys: Tensor = self.of_values(values)
        return keys

    def forward(self, query: Tensor, memory: Memory, past: Past) -> Tensor:
        scores: Tensor = self.weight(tanh(memory.keys + self.of_query(query)[:, None]))
        return scores.squeeze(2)


COMPONENT = Mlp
