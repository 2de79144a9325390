"""Train models of `transformers` on phrases whose word alignments are known, and score alignments.

    python benchmarks/transformers_library.py OUT [--seeds 1 2 3] [--epochs 7 --tuned 6]

It needs `pip install '.[hf]'` and no network. A small Marian is trained by
`Trainer` alone; then it is trained further: as it is, with posterior attention, and with posterior
attention in place of the decoder's own attention to the source (`head-alone`). OUT gets the models,
their links, and `results.json` with 1 - AER of the posterior, the prior and every head of
cross-attention, the share of right outputs, and CPU seconds.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from pam.alignment.aligner import Aligner, Settings
from pam.alignment.links import linked, word_probabilities
from pam.alignment.scoring import score_links
from pam.alignment.words import words_between_spaces
from pam.data.cldr import Cldr
from pam.evaluation.metrics import Floats
from pam.hf import with_posterior_attention
from pam.hf.pair_model import HubPairModel, TokenizedText

SPECIALS = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
Pairs = list[tuple[str, str]]


def phrases(folder: Path, seed: int) -> dict[str, Pairs]:
    """Draw phrases, write their gold links, and return the pairs of each split."""
    texts = Cldr(seed=seed).draw(None)  # type: ignore[arg-type]
    (folder / "gold.txt").write_text(texts["test.links"])
    return {
        split: list(
            zip(texts[f"{split}.de"].splitlines(), texts[f"{split}.en"].splitlines(), strict=True)
        )
        for split in ("train", "dev", "test")
    }


def tokenizer_of(pairs: Pairs, size: int = 1000) -> Any:
    """Train byte pair encoding on both sides."""
    tokenizer = Tokenizer(models.BPE(unk_token=SPECIALS["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[*SPECIALS.values()], show_progress=False
    )
    tokenizer.train_from_iterator([text for pair in pairs for text in pair], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_input_names=["input_ids", "attention_mask"], **SPECIALS
    )


def small_marian(tokenizer: Any, units: int) -> Any:
    """Make a Marian with fresh weights."""
    config = transformers.MarianConfig(
        vocab_size=len(tokenizer),
        d_model=units,
        encoder_layers=3,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=4 * units,
        decoder_ffn_dim=4 * units,
        max_position_embeddings=128,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.bos_token_id,
        forced_eos_token_id=None,
        scale_embedding=True,
        attn_implementation="eager",
    )
    return transformers.MarianMTModel(config)


def trained(model: Any, tokenizer: Any, pairs: Pairs, out: Path, **settings: Any) -> float:
    """Train a model by `Trainer`, save it with its tokenizer, and return the CPU seconds."""
    rows = [tokenizer(source, text_target=target) for source, target in pairs]
    start = time.process_time()
    transformers.Seq2SeqTrainer(
        model=model,
        args=transformers.Seq2SeqTrainingArguments(
            output_dir=str(out / "trainer"),
            per_device_train_batch_size=64,
            lr_scheduler_type="linear",
            warmup_steps=100,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            logging_steps=100,
            **settings,
        ),
        train_dataset=rows,
        data_collator=transformers.DataCollatorForSeq2Seq(tokenizer, model=model),
    ).train()
    spent = time.process_time() - start
    model.eval()
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return spent


def right_outputs(model: Any, tokenizer: Any, pairs: Pairs) -> float:
    """Return the share of sources whose greedy output is the target."""
    right = 0
    for first in range(0, len(pairs), 50):
        sources, targets = zip(*pairs[first : first + 50], strict=True)
        batch = tokenizer(list(sources), return_tensors="pt", padding=True)
        outputs = model.generate(**batch, max_new_tokens=60, num_beams=1)
        texts = tokenizer.batch_decode(outputs, skip_special_tokens=True)
        right += sum(
            text.split() == target.split() for text, target in zip(texts, targets, strict=True)
        )
    return right / len(pairs)


def aligned(folder: Path, pairs: Pairs, smooth: bool = False) -> list[set[tuple[int, int]]]:
    """Return the links of a folder's model, as `pam align --hf` writes them."""
    aligner = Aligner(HubPairModel.load(folder, torch.device("cpu")), None, Settings(smooth=smooth))
    return [{(link.source, link.target) for link in pair.links} for pair in aligner(pairs)]


@torch.no_grad()
def by_attention(
    model: Any, reader: HubPairModel, pairs: Pairs, attention: Callable[[Any], dict[str, Floats]]
) -> dict[str, list[set[tuple[int, int]]]]:
    """Return links of attentions (steps, source symbols), each by its name, of every pair."""
    links: dict[str, list[set[tuple[int, int]]]] = {}
    for source, target in pairs:
        read: list[TokenizedText] = [
            reader.read(source, "source", "source", 1000),
            reader.read(target, "target", "target", 1000),
        ]
        words = [words_between_spaces(text) for text in (source, target)]
        ids = [torch.tensor([text.ids]) for text in read]
        outputs = model(input_ids=ids[0], labels=ids[1], output_attentions=True)
        for name, weights in attention(outputs).items():
            probabilities = word_probabilities(
                alignment=weights[read[1].kept][:, read[0].kept],
                source_words=read[0].word_indices(words[0]),
                target_words=read[1].word_indices(words[1]),
                shape=(len(words[0]), len(words[1])),
            )
            links.setdefault(name, []).append(linked(probabilities))
    return links


def heads(outputs: Any) -> dict[str, Floats]:
    """Return the cross-attention of every head, at the step that writes a symbol and one late."""
    by_head = {}
    for layer, weights in enumerate(outputs.cross_attentions, 1):
        for head, of_head in enumerate(weights[0].double().numpy(), 1):
            by_head[f"layer {layer}, head {head}"] = of_head
            by_head[f"layer {layer}, head {head}, late"] = np.roll(of_head, -1, axis=0)
        by_head[f"layer {layer}, mean"] = weights[0].double().mean(0).numpy()
    return by_head


def prior(outputs: Any) -> dict[str, Floats]:
    return {"prior": outputs.alignment[0].double().numpy()}


def score(links: list[set[tuple[int, int]]], out: Path, name: str, gold: Path) -> float:
    """Write links, and return 1 - AER."""
    file = out / f"{name.replace(' ', '-').replace(',', '')}.links"
    file.write_text("".join(" ".join(f"{i}-{j}" for i, j in sorted(pair)) + "\n" for pair in links))
    return round(1 - score_links(file, gold, first=1).metrics["aer"].value, 4)


def measured(out: Path, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """Train and measure the models of one seed."""
    out.mkdir(parents=True, exist_ok=True)
    data = phrases(out, args.data_seed)
    tokenizer = tokenizer_of(data["train"])
    results: dict[str, Any] = {"seed": seed}
    settings = {"seed": seed, "learning_rate": args.learning_rate}

    torch.manual_seed(seed)
    first = small_marian(tokenizer, args.units)
    first_s = trained(
        first, tokenizer, data["train"], out / "first", num_train_epochs=args.epochs, **settings
    )

    for name, components in {"plain": None, **args.heads}.items():
        model = copy.deepcopy(first)
        if components is not None:
            torch.manual_seed(seed)
            model = with_posterior_attention(model, **components)
        folder = out / name
        tuned_s = trained(
            model, tokenizer, data["train"], folder, num_train_epochs=args.tuned, **settings
        )
        row: dict[str, Any] = {"first_cpu_s": round(first_s), "tuned_cpu_s": round(tuned_s)}
        start = time.process_time()
        row["right"] = right_outputs(model, tokenizer, data["test"])
        row["generate_cpu_s"] = round(time.process_time() - start, 1)

        links = {}
        reader = HubPairModel(model, tokenizer, name)
        if components is None:
            links = by_attention(model, reader, data["test"], heads)
        else:
            start = time.process_time()
            links["posterior"] = aligned(folder, data["test"])
            row["align_cpu_s"] = round(time.process_time() - start, 1)
            links["posterior, smoothed"] = aligned(folder, data["test"], smooth=True)
            links |= by_attention(model, reader, data["test"], prior)
            if components.get("source_attention", True):
                links |= by_attention(model, reader, data["test"], heads)
        gold = out / "gold.txt"
        row["one_minus_aer"] = {
            kind: score(of_kind, folder, kind, gold) for kind, of_kind in links.items()
        }
        results[name] = row
        sys.stderr.write(f"{seed} {name} {json.dumps(row)}\n")
    return results


HEADS: dict[str, dict[str, Any]] = {
    "head": {"coupling": "proximity"},
    "head-alone": {"coupling": "proximity", "source_attention": False},
    "head-nucleus": {
        "coupling": "proximity",
        "marginalization": {"kind": "output", "mass": 0.99},
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--heads", nargs="+", choices=HEADS, default=["head", "head-alone"])
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--tuned", type=int, default=6)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--data-seed", type=int, default=1)
    args = parser.parse_args()
    args.heads = {name: HEADS[name] for name in args.heads}

    results = [measured(args.out / f"seed{seed}", seed, args) for seed in args.seeds]
    (args.out / "results.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
