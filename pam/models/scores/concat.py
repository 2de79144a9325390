"""Score of query and encoder state, one after the other."""

from __future__ import annotations

from pam.models.scores.mlp import Mlp


class Concat(Mlp):
    """e_t(a) = v^T tanh(W [s_t; h_a]) (Luong et al. 2015, equation 8, `concat`).

    W's two halves are the two matrices of `mlp`, so that it is the same function; Luong et al.
    name it as another one.
    """


COMPONENT = Concat
