r"""The room for speed: what plain autograd would compute, by a few large products.

A decoder uses the same weights at every step. Autograd would add up their gradient step by step,
one thin product each. Here a layer that steps share has a `tape.Tape`: in the backward pass each
step notes the factors of its share of the gradient, and one product takes all shares once the last
of the steps has been differentiated.

Every kernel has a plain twin of a few lines, by which it is defined and tested.

- `lstm`: a step of an LSTM layer, whose weights many steps share;
- `linear`: a linear layer that many steps share, or that a search calls often;
- `additive`: the additive score, whose hidden layer is not stored;
- `source`: a matrix for each sentence, which attention reads from either side;
- `output_layer`: the softmax over the vocabulary, and the gradients of its weights;
- `positions`: log p(y_t | s_t, h_a) step by step, for models that feed it back;
- `mixture`: positions summed out, or an expectation, for all tokens at once;
- `search_layer`: all symbols at all positions, in a search.

`products` takes products with shared weights, `pairs` says which (row, position) pairs of an output
layer are computed at all, `hidden_layers` has the function before the softmax.
"""

from pam.models.kernels.source import SourceMatrix

__all__ = ["SourceMatrix"]
