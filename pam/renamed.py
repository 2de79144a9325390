"""Names that older configurations have, and what they are called now: one message for each."""

from __future__ import annotations

KEYS = {
    "feedback": "input_feeding",
    "marginal": "marginalization",
    "watch": "eval_metrics",
    "paper_beside": "paper_reference",
    "gold": "word_alignments",
    "optimiser": "optimizer",
    "choices": "components",
    "tokenise": "tokenize",
    "tokenised": "tokenized",
}
"""Keys of an experiment, of a model, of a run, of a data set's format."""

MODELS = {
    "acvi-light": "acvi-kl0.01",
    "acvi-drawn": "acvi-sampled",
    "base": "luong-base",
    "base-dropout": "luong-dropout",
    "base-feeding": "luong-feeding",
    "base-local-p": "luong-local-p",
    "base-location": "luong-location",
    "base-reverse": "luong-reverse",
    "base-sampled": "luong-sampled",
    "base-unknown": "luong-unknown",
    "soft-unfed": "soft-no-input-feeding",
    "variational-light": "variational-kl0.1",
    "ved-drawn": "ved-sampled",
}
"""Files of `config/models/`."""

FILES = {"cell.yaml": "run.yaml", "zoo.yaml": "attentions.yaml"}
"""Other files: a run's configuration, an experiment."""

NAMES = KEYS | MODELS
