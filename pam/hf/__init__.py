"""Posterior attention for encoder-decoder models of Hugging Face's `transformers`.

`with_posterior_attention` gives a model an alignment head: its output is a sum over source
positions, and each output symbol has a posterior alignment by Bayes' rule. All else stays as it is:
training by `Trainer`, decoding by `generate`, `save_pretrained` and `from_pretrained`. See
docs/transformers-library.md.
"""

from __future__ import annotations

from importlib.util import find_spec

from pam.runtime.errors import UserError

if find_spec("transformers") is None:
    raise UserError(
        "the package `transformers` is not installed",
        hint="install it with `pip install transformers`",
    )

from pam.hf.modeling import PosteriorAttentionOutput, from_pretrained, with_posterior_attention

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

__all__ = ["PosteriorAttentionOutput", "from_pretrained", "with_posterior_attention"]
