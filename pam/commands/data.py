"""`data`, `check`, `fetch`, `prepare` and `word-alignments`: from addresses to ids."""

from __future__ import annotations

import sys
from argparse import BooleanOptionalAction, Namespace
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

from pam.commands import PLUGIN, command, folder, import_plugins, option, output, path
from pam.data.guesses import KINDS

if TYPE_CHECKING:
    from pam.data.registry import Dataset

EXPERIMENT = "config/config.yaml"
REGISTRY = "config/datasets.yaml"
DATASET = (
    option("--dataset", "name of the data set in a registry", required=True, metavar="NAME"),
    option(
        "--registry",
        f"registry of data sets; may be repeated (default: {REGISTRY})",
        action="append",
        metavar="FILE",
    ),
    option(
        "--hashes",
        "SHA-256 that files of your own must have: {FILE: HASH} (default: not checked)",
        default="{}",
        metavar="YAML",
    ),
    PLUGIN,
)
RAW = folder("--raw", "folder into which `fetch` wrote the files", required=True)


@command(
    "download the files of a data set and check their hashes",
    *DATASET,
    folder("--out", "folder for the files", required=True),
    option(
        "--mirror",
        "folder or base address with files as DATASET/FILE, tried first (default: $PAM_MIRROR)",
        metavar="PLACE",
    ),
    examples=[
        "pam fetch --dataset de-noun --out raw",
    ],
)
def fetch(args: Namespace) -> int:
    from pam.data import download

    download.fetch(
        args.dataset,
        _dataset(args),
        args.out,
        args.mirror,
        say=partial(print, file=sys.stderr),
    )
    return 0


@command(
    "check the text of a fetched data set and turn it into ids",
    *DATASET,
    folder("--out", "folder for the prepared data", required=True),
    RAW,
    option("--format", "keys that override the data set's `format`: {key: value}", metavar="YAML"),
    folder(
        "--base",
        "prepared data of the same kind: prepare only the test split, with their vocabularies",
    ),
    option(
        "--symbols-of",
        "a trained model (a run's folder, or a file that `export` wrote): prepare all splits"
        " with its vocabularies",
        metavar="MODEL",
    ),
    option(
        "--stage",
        "run only this stage; the stages before it must have run (default: all)",
        metavar="NAME",
    ),
    examples=[
        "pam prepare --dataset de-noun --raw raw --out data/de-noun",
        "pam prepare --dataset mine --registry my/datasets.yaml --raw raw --out data/mine",
    ],
)
def prepare(args: Namespace) -> int:
    from pam.data import prepare as preparation
    from pam.library.model_files import Description, opened
    from pam.runtime.errors import UserError

    dataset = _dataset(args)
    if args.format is not None:
        dataset = dataset.with_format(overrides(args.format, dataset))

    if args.base is not None and args.symbols_of is not None:
        hint = "name prepared data to make a test split alone, or a model to make all splits"
        raise UserError("--base and --symbols-of exclude each other", hint=hint)

    with ExitStack() as stack:
        model = None
        if args.symbols_of is not None:
            folder = stack.enter_context(opened(args.symbols_of))
            model = Description.of(folder).symbols(args.symbols_of)

        counts = preparation.prepare(
            name=args.dataset,
            dataset=dataset,
            raw=args.raw,
            out=args.out,
            stage=args.stage,
            base=args.base,
            model=model,
        )

    for warning in counts["warnings"]:
        sys.stderr.write(f"warning: {args.dataset}: {warning}\n")
    return 0


@command(
    "prepare word alignments that people made, to compare attention with",
    *DATASET,
    folder("--out", "folder for the prepared alignments", required=True),
    RAW,
    folder("--data", "the task's prepared data", required=True),
    examples=[
        "pam word-alignments --dataset gold --raw raw --data data/multi30k --out data/gold",
    ],
)
def word_alignments(args: Namespace) -> int:
    from pam.tasks.alignment.links import prepare_word_alignments

    prepare_word_alignments(args.dataset, _dataset(args), args.raw, args.data, args.out)
    return 0


@command(
    "check an experiment before it runs: configuration, data, device, memory, time and disk",
    option(
        "--configfile",
        "the experiment, or several files, merged (default: config/config.yaml)",
        nargs="+",
        metavar="FILE",
    ),
    option(
        "--config",
        "set single keys, as in snakemake",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
    ),
    option("--brief", "print only the expected time, disk space and memory", action="store_true"),
    output("--expected", "JSON file to write: the expected seconds of each training"),
    option("--cores", "cores that the run will use (default: all)", type=int, metavar="N"),
    option(
        "--elsewhere",
        "the run is for other machines, such as a cluster's: their devices are not checked",
        action="store_true",
    ),
    examples=[
        "pam check",
        "pam check --configfile mine.yaml",
        "pam check --configfile mine.yaml --config 'seeds=[1, 2, 3]' --brief",
    ],
)
def check(args: Namespace) -> int:
    from pam.experiments.check import check as checked
    from pam.experiments.given import Given, check_configfiles
    from pam.experiments.yaml import parse_yaml
    from pam.runtime.errors import UserError
    from pam.runtime.files import find_file

    check_configfiles(args.configfile or [])
    values = {}
    for text in args.config:
        key, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--config {text}", hint="write KEY=VALUE, such as seeds=[1,2]")
        section, dot, inner = key.partition(".")
        if dot:
            hint = f"write {section}={{{inner}: {value}}}, in quotes"
            raise UserError(f"--config {text}: a key has no dots", hint=hint)
        values[key] = parse_yaml(value, "--config")

    files = args.configfile or [str(find_file(EXPERIMENT))]
    if values:
        files = [*files, Given.of("--config", values)]

    # With --brief the last line alone is printed, which has the time.
    lines: list[str] = []
    say = lines.append if args.brief else lambda line: sys.stdout.write(f"{line}\n")
    for warning in checked(files, say, args.expected, args.cores, args.elsewhere):
        sys.stderr.write(f"warning: {warning}\n")
    sys.stdout.writelines(f"{line}\n" for line in lines[-1:])
    return 0


@command(
    "describe your own files: guess their format, show five rows, write an entry of a registry",
    option("action", "what to do", choices=["new"]),
    path(
        "files",
        "a pair of texts, or one file of both (TSV, CSV, JSON lines, Parquet, Excel, TMX, CoNLL-U,"
        " M2); or such files for each of train, dev, test",
        nargs="+",
    ),
    option("--name", "name of the data set (default: from the first file)"),
    path(
        "--registry",
        "registry to add the entry to (default: datasets.yaml in the first file's folder)",
    ),
    option(
        "--kind", "kind of task, or of words read by characters (default: guessed)", choices=KINDS
    ),
    option(
        "--languages",
        "codes or names of source and target (default: from the file names)",
        nargs=2,
        metavar="NAME",
    ),
    option(
        "--columns",
        "names of a table's columns in their order, `-` for a column to skip",
        nargs="+",
        metavar="NAME",
    ),
    option(
        "--header",
        "whether a table's first line names the columns (default: guessed)",
        action=BooleanOptionalAction,
    ),
    option(
        "--splits",
        "splits of the files in their order (default: from the file names)",
        nargs="+",
        metavar="SPLIT",
    ),
    option("--replace", "replace an entry of the same name", action="store_true"),
    examples=[
        "pam data new my/nouns.tsv",
        "pam data new letters.de letters.en",
        "pam data new train.tsv dev.tsv test.tsv --kind g2p",
    ],
)
def data(args: Namespace) -> int:
    from pam.data.guesses import Choices
    from pam.data.new import write_entry
    from pam.runtime.messages import aligned, shortened

    options = [field.name for field in fields(Choices)]
    entry = write_entry(Choices(**{name: getattr(args, name) for name in options}))
    dataset = entry.dataset

    headings = dataset.kind.headings(dataset.layout)
    sys.stdout.write(f"this looks like {dataset.task}; the first rows:\n\n")
    rows = [tuple(map(shortened, row)) for row in entry.rows]
    sys.stdout.write(_indented(aligned([headings, *rows])))
    if entry.notes:
        sys.stdout.write("\nThis was guessed; commands that say otherwise are in brackets:\n\n")
        sys.stdout.write(_indented(entry.notes))

    sys.stdout.write(f"\nadded to {entry.registry}, where you can correct it:\n\n{entry.text}\n")
    sys.stdout.write(
        USE.format(name=entry.name, key=_key(entry.name), registry=_key(str(entry.registry)))
    )
    return 0


def _key(text: str) -> str:
    """Return a text as YAML has it in brackets: in quotes where it would be something else."""
    import yaml

    brackets = yaml.safe_dump([text], default_flow_style=True, allow_unicode=True, width=10**6)
    return brackets.strip()[1:-1]


def _indented(lines: Iterable[str]) -> str:
    return "".join(f"    {line}\n" for line in lines)


USE = """\
Write an experiment, say {name}.yaml, then check it and run it:

experiment: {key}
models: [soft, postr-joint]
tasks: {{{key}: {{dataset: {key}}}}}
registries: [{registry}]

    pam check --configfile {name}.yaml
    pam run --configfile {name}.yaml
"""


def _dataset(args: Namespace) -> Dataset:
    """Return the entry of the data set that is named on the command line."""
    from pam.data.registry import find_dataset
    from pam.experiments.yaml import parse_yaml
    from pam.runtime.errors import UserError, unknown

    import_plugins(args)
    dataset = find_dataset(args.registry or [REGISTRY], args.dataset)
    hashes = parse_yaml(args.hashes, "--hashes")
    if not isinstance(hashes, dict):
        raise UserError("no hashes", file="--hashes", hint="write {FILE: HASH, ...}")

    for name in hashes:
        if name not in dataset.files:
            raise unknown("file", str(name), list(dataset.files), "--hashes")
    return dataset.with_hashes({name: str(value) for name, value in hashes.items()})


def overrides(text: str, dataset: Dataset) -> dict[str, Any]:
    """Read the keys of `--format`, checked with those of the data set that they do not override.

    A UserError names what is wrong.
    """
    from pam.data.registry import load_task
    from pam.experiments.parsing import parse
    from pam.experiments.yaml import parse_yaml
    from pam.runtime.errors import UserError

    keys = parse_yaml(text, "--format")
    if not isinstance(keys, dict):
        raise UserError("no keys", file="--format", hint="write {key: value, ...}")

    parse(load_task(dataset.task).Format, dataset.format | keys, "--format")
    return keys
