"""eole, the successor of OpenNMT-py: its recurrent model and its Transformer.

Configuration, builder and translator are its own. Its bidirectional encoder has as many units as
its decoder, both directions together, and also reads the padding after short sources. The loss is
the sum that its `LossCompute` takes, without the statistics, which cost time of their own.
"""

from __future__ import annotations

import logging
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from serving import BOS, DEVICE, LONGEST, PAD, Rows, Task, arguments, padded, serve, step
from torch import Tensor, nn

# It fetches models from there, which is not done here.
hub: Any = ModuleType("huggingface_hub")
hub.hf_hub_download = hub.list_repo_files = hub.snapshot_download = None
sys.modules["huggingface_hub"] = hub

from eole.config.models import CustomModelConfig  # noqa: E402
from eole.constants import DefaultTokens  # noqa: E402
from eole.inputters.inputter import dict_to_vocabs  # noqa: E402
from eole.models.model import EncoderDecoderModel  # noqa: E402
from eole.predict import GNMTGlobalScorer  # noqa: E402
from eole.predict.translator import Translator  # noqa: E402

HEADS = 4
SPECIAL = [DefaultTokens.PAD, DefaultTokens.BOS, DefaultTokens.EOS, DefaultTokens.UNK]  # by our ids


def configuration(name: str, task: Task) -> Any:
    """Return the section `model` of its configuration."""
    if name == "soft":
        return CustomModelConfig(
            layers=task.layers,
            hidden_size=task.decoder,
            embeddings={"word_vec_size": task.embedding},
            encoder={"encoder_type": "brnn"},
            decoder={"decoder_type": "rnn", "global_attention": "general"},
        )

    positions = {"position_encoding_type": "SinusoidalInterleaved"}
    sizes = {"heads": HEADS, "transformer_ff": 4 * task.embedding}
    return CustomModelConfig(
        layers=task.layers,
        hidden_size=task.embedding,
        embeddings={"word_vec_size": task.embedding, **positions},
        encoder={"encoder_type": "transformer", **sizes},
        decoder={"decoder_type": "transformer", **sizes},
    )


def vocabulary(size: int) -> list[str]:
    """Return the names of so many symbols; those of the special ones are its own."""
    return SPECIAL + [f"w{number}" for number in range(len(SPECIAL), size)]


def vocabularies(task: Task) -> dict[str, Any]:
    """Make both vocabularies in its format."""
    names = ("pad_token", "bos_token", "eos_token", "unk_token")
    content = {
        "src": vocabulary(task.source),
        "tgt": vocabulary(task.target),
        "specials": dict(zip(names, SPECIAL, strict=True)),
        "decoder_start_token": DefaultTokens.BOS,
    }
    vocabs: dict[str, Any] = dict_to_vocabs(content)
    return vocabs


def batch_of(sources: Rows, targets: Rows) -> dict[str, Tensor]:
    """Make a batch as its data iterator does."""
    return {
        "src": padded(sources),
        "srclen": torch.tensor([len(row) for row in sources], device=DEVICE),
        "tgt": padded([[BOS, *row] for row in targets]),
    }


def searching(task: Task) -> SimpleNamespace:
    """Return the options of prediction: its defaults, but for beam and length."""
    return SimpleNamespace(
        transforms=[],
        optional_eos=[],
        dynamic_shapes=True,
        n_best=1,
        min_length=task.steps or 0,
        max_length=task.steps or LONGEST,
        max_length_ratio=0,
        context_length=0,
        beam_size=task.beam,
        temperature=1.0,
        top_k=0,
        top_p=0.0,
        ban_unk_token=False,
        ratio=-0.0,
        stepwise_penalty=False,
        dump_beam="",
        block_ngram_repeat=0,
        ignore_when_blocking=[],
        replace_unk=False,
        tgt_file_prefix=False,
        phrase_table="",
        data_type="text",
        verbose=False,
        report_time=False,
        report_align=False,
        gold_align=False,
        seed=1,
        with_score=False,
        estim_only=False,
        self_attn_backend="pytorch",
        fuse_gate=False,
    )


def main() -> None:
    logging.disable(logging.CRITICAL)
    args, task = arguments("soft", "transformer")
    config = configuration(args.model, task)
    vocabs = vocabularies(task)
    running = SimpleNamespace(
        dropout=[task.dropout],
        attention_dropout=[task.dropout],
        param_init_method="uniform" if args.model == "soft" else "xavier_uniform",
        param_init=0.1,
        self_attn_backend="pytorch",
    )
    model = EncoderDecoderModel.build(config, vocabs, running)
    model.init_weights(running)
    model = model.to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss(ignore_index=PAD, reduction="sum")
    batches = [batch_of(*batch) for batch in task.symbols]
    translator = Translator(
        model,
        vocabs,
        searching(task),
        config,
        device_id=-1 if DEVICE.type == "cpu" else 0,
        global_scorer=GNMTGlobalScorer(0.0, 0.0, "none", "none"),
        logger=logging.getLogger("eole"),
    )

    def train(number: int) -> tuple[int, int]:
        batch = batches[number % len(batches)]
        gold = batch["tgt"][:, 1:]
        symbols = int((gold != PAD).sum())
        model.train()
        optimizer.zero_grad()

        states, *_ = model(batch["src"], batch["tgt"], batch["srclen"])
        loss = loss_of(model.generator(states).flatten(0, 1), gold.flatten())
        step(model, optimizer, loss / symbols)
        return len(gold), symbols

    def decode(number: int) -> tuple[int, int]:
        batch = batches[number % len(batches)]
        model.eval()
        sources = {"src": batch["src"], "srclen": batch["srclen"]}
        predictions = translator.predict_batch(sources, False)["predictions"]
        return len(batch["src"]), sum(len(best[0]) for best in predictions)

    serve(train, decode)


if __name__ == "__main__":
    main()
