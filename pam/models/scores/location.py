"""Score from the decoder's state alone, a number for each place in a sentence."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from pam.models.logspace import ZERO
from pam.models.memory import Memory, Past
from pam.models.parts import Score
from pam.models.sizes import Sizes, check_size


class Location(Score):
    """e_t = W s_t, row a of W for position a (Luong et al. 2015, equation 7).

    As there, a short sentence uses the first rows, and in a long one the words near the end are
    ignored.

    Args:
        longest: rows of W.
    """

    def __init__(self, sizes: Sizes, longest: int = 100) -> None:
        super().__init__()
        check_size("score option `longest`", longest)
        self.weight = nn.Linear(sizes.query, longest, bias=False)

    def keys(self, values: Tensor) -> Tensor:
        return values[..., :0]

    def forward(self, query: Tensor, memory: Memory, past: Past) -> Tensor:
        length = memory.mask.shape[1]
        scores: Tensor = self.weight(query)[:, :length]
        return F.pad(scores, (0, length - scores.shape[1]), value=ZERO)


COMPONENT = Location
