"""Tables and figures of translation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pam.reporting.items import (
    ANALYSES,
    DEV_SCORES,
    GOLD_SCORES,
    PREDICTIONS,
    RUN_CONFIG,
    SCORES,
    SIZED_SCORES,
    Examples,
    FigureSpec,
    TableSpec,
    compared,
    gains_of,
)

# An experiment with one of these models gets the comparison of its kind.
LATENT = ("acvi", "ved")
SAMPLED = ("variational-sample",)


# words of the sentences that are shown: neither trifling nor too long to be compared by eye
WORDS = range(6, 26)

_table = partial(TableSpec, kind="translation", files=SCORES)
_figure = partial(FigureSpec, kind="translation")
_compared = partial(compared, kind="translation")

_TABLE1 = _table(
    "Table 1: perplexity and BLEU",
    title="Perplexity and BLEU of translation",
    cites="the paper's Table 1",
    metrics=("ppl", "bleu_b*", "bleu_unpenalized_b*", "bleu_characters_b*"),
    paper="table1",
    front=True,
    finding=("bleu_b*", "bleu_characters_b*"),
)
_TABLE3 = _table(
    "Table 3: alignment",
    title="Agreement of attention with gold word alignments",
    cites="the paper's Table 3",
    metrics=(
        "one_minus_aer",
        "one_minus_aer_posterior",
        "one_minus_aer_prior",
        "one_minus_aer_late",
        "one_minus_aer_head",
        "one_minus_aer_shift_att",
    ),
    paper="table3",
    files=GOLD_SCORES,
    needs=("gold",),
    front=True,
)
_ALIGNMENT = _compared("Alignment: 1 − AER", "quality", "one_minus_aer", "table3")

TABLES: dict[str, TableSpec] = {
    "table1": _TABLE1,
    "table1_gains": gains_of(_TABLE1, "Table 1: gains in perplexity and BLEU"),
    "table1_more": _table(
        "sacreBLEU, chrF, error rates, exact perplexity",
        title=(
            "sacreBLEU and chrF of readable text, error rates, and perplexity with the exact sum"
            " over positions"
        ),
        metrics=(
            "sacrebleu_b*",
            "chrf_b*",
            "wer_b*",
            "per_b*",
            "cer_b*",
            "ser_b*",
            "exact_match_b*",
            "ppl_exact",
        ),
        files=SCORES | {"significance": "{task}/significance/seed{seed}.json"},
    ),
    "lengths": _table(
        "Length penalties",
        title="Length penalties chosen on the development split",
        builder="lengths",
        needs=("penalties",),
    ),
    "table3": _TABLE3,
    "table3_gains": gains_of(_TABLE3, "Table 3: gains in alignment"),
    "table1_dev": _table(
        "Table 1: development split",
        title="The development split: next symbol, perplexity and BLEU",
        metrics=("token_accuracy", "ppl", "bleu_b*"),
        files=DEV_SCORES,
        needs=("dev",),
    ),
    "table_acvi_mt": _table(
        "Latent contexts: BLEU",
        title="BLEU on the test split",
        cites="Amortized Context Vector Inference, Table 4",
        metrics=("bleu_b*",),
        paper="table_acvi_mt",
        of=LATENT,
    ),
    "table_acvi_mt_dev": _table(
        "Latent contexts: BLEU, development split",
        title="BLEU on the development split",
        cites="Amortized Context Vector Inference, Table 4",
        metrics=("bleu_b*",),
        paper="table_acvi_mt_dev",
        files=DEV_SCORES,
        needs=("dev",),
        of=LATENT,
    ),
    "table_variational": _table(
        "Variational attention: development split",
        title="Accuracy and perplexity on the development split",
        cites="Orlova et al., Latent Alignment and Variational Attention, section 4",
        metrics=("token_accuracy", "ppl"),
        paper="table_variational",
        files=DEV_SCORES,
        needs=("dev",),
        of=SAMPLED,
    ),
    "table_variational_bleu": _table(
        "Variational attention: BLEU",
        title="BLEU on the test split",
        cites="Orlova et al., Latent Alignment and Variational Attention, section 4",
        metrics=("bleu_b*",),
        paper="table_variational",
        of=SAMPLED,
    ),
    "table_ablation": _table(
        "What each part adds",
        title="What each part adds to translation without attention",
        cites="Luong et al. 2015, Table 1",
        metrics=("ppl", "bleu_b*"),
        paper="table_ablation",
        of=("luong-base",),
    ),
    "table_ablation_aer": _table(
        "Alignment error of attentions",
        title="Alignment error rate of attention",
        cites="Luong et al. 2015, Table 6",
        metrics=("aer",),
        paper="table_ablation",
        files=GOLD_SCORES,
        needs=("gold",),
        of=("local-m", "local-p"),
    ),
    "examples": _table(
        "Examples of translations",
        title="Translations of all models",
        builder="examples",
        files=PREDICTIONS,
        also_reads=RUN_CONFIG,
        examples=Examples(
            rows=f"sentences of {WORDS.start} to {WORDS.stop - 1} source words", lengths=WORDS
        ),
    ),
}


FIGURES: dict[str, FigureSpec] = {
    "bleu": _compared("BLEU", "quality", "bleu_b*", "table1"),
    "bleu_gains": _compared("Gains in BLEU", "gains", "bleu_b*", "table1"),
    "perplexity": _compared("Perplexity", "quality", "ppl", "table1"),
    "alignment": replace(_ALIGNMENT, files=GOLD_SCORES, needs=("gold",)),
    "entropy_accuracy": _figure(
        "Figure 3: entropy and accuracy", files=ANALYSES, draws="entropy_accuracy"
    ),
    "coverage": _figure("Figure 4: coverage", files=ANALYSES, draws="coverage"),
    "bleu_by_length": _figure("BLEU by sentence length", files=SCORES, draws="bleu_by_length"),
    "bleu_by_size": _figure(
        "BLEU by training pairs", files=SIZED_SCORES, needs=("sizes",), draws="bleu_by_size"
    ),
    "bleu_cost": _compared("BLEU against cost", "cost", "bleu_b*"),
}
