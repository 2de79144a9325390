"""`bench`: training and decoding speed of the models, in turns."""

from __future__ import annotations

from argparse import Namespace

from pam.commands import command, folder, option, output, path

MODELS = [
    "soft",
    "hard-mono",
    "prior-joint",
    "postr-joint",
    "postr-joint:6",
    "prox-postr-joint",
    "mono-postr-joint",
]
CUTS = (
    "NAME:K sums over the K most probable positions; NAME:MASS, such as postr-joint:0.99, over"
    " the fewest positions that hold this share of the prior; NAME:MASS:K over at most K of"
    " these"
)


@command(
    "measure training and decoding speed of models, in turns on one core, and the speed of the"
    " core's matrix products",
    folder("--data", "prepared data (default: the German nouns, prepared now)"),
    option("--models", f"names in config/models; {CUTS}", nargs="+", default=MODELS),
    path("--configfile", "an experiment, whose variants may then be named too"),
    option("--embedding", "units of an embedding", type=int, default=64),
    option("--encoder", "LSTM units of the encoder, per direction", type=int, default=128),
    option("--decoder", "LSTM units of the decoder", type=int, default=128),
    option("--layers", "layers of encoder and decoder", type=int, default=1),
    option("--batch-size", type=int, default=64),
    option("--rounds", "turns of each model", type=int, default=15),
    option("--batches", "batches in a turn", type=int, default=10),
    option("--warm-up", "batches before the first timed one", type=int, default=10),
    option("--beams", "beams to time; none: only training", type=int, nargs="*", default=[1, 4]),
    option("--precision", choices=("float32", "tf32", "bf16"), default="float32"),
    option("--threads", type=int, default=1),
    option(
        "--beside",
        "measure instead the time of N trainings at once, divided by their time one after another",
        type=int,
        metavar="N",
    ),
    option("--device", choices=("auto", "cpu", "cuda"), default="cpu"),
    output("--out", "JSON with the same figures", default="results/bench.json"),
    examples=[
        "pam bench",
        "pam bench --models soft postr-joint:0.99 --rounds 5",
        "pam bench --beside 2",
    ],
)
def bench(args: Namespace) -> int:
    from pam.experiments.settings import Network
    from pam.measuring.benchmark import Plan, run

    network = Network(
        embedding=args.embedding,
        encoder=args.encoder,
        decoder=args.decoder,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
    )
    plan = Plan(
        network,
        batch_size=args.batch_size,
        rounds=args.rounds,
        batches=args.batches,
        warm_up=args.warm_up,
        beams=args.beams,
        precision=args.precision,
        threads=args.threads,
    )
    run(args.models, plan, args.data, args.device, args.beside, args.out, args.configfile)

    return 0
