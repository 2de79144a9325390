"""`analyze`, `attention`, `score`, `significance`, `tables`, `figures`: how good models are."""

from __future__ import annotations

import inspect
import sys
from argparse import REMAINDER, Namespace
from typing import TYPE_CHECKING, Any

from pam.commands import (
    DATA,
    DEVICE,
    PLUGIN,
    SPLITS,
    command,
    folder,
    import_plugins,
    option,
    output,
    path,
    run_with,
)
from pam.experiments.run_folder import RunFolder

if TYPE_CHECKING:
    from pam.evaluation.scores import Scores

SEVERAL: dict[str, Any] = {"nargs": "+", "default": []}
NAMES = "table1, table2, attentions, examples, costs, ...; an unknown name lists them all"

# Options of `score` that name files of a run, and those for plain text files.
OF_FILES = ("predictions", "decoding", "data", "analysis", "training", "kind")
OF_LINKS = ("alignments", "gold")
OF_TEXTS = (
    "hypotheses",
    "references",
    "baseline",
    "lang",
    "metric",
    "join_subwords",
    "groups",
)


@command(
    "compute likelihood, entropy, coverage and word links of a split, under teacher forcing",
    run_with("a trained model"),
    option("--split", default="test", choices=(*SPLITS, "gold")),
    DATA,
    output("--out", "analysis.json (default: in the run's folder)"),
    option(
        "--batch-size",
        "number of rows analyzed at once (default: the run's own)",
        type=int,
        metavar="N",
    ),
    DEVICE,
    examples=[
        "pam analyze --run results/quick/de-noun/postr-joint/seed1 --split dev",
    ],
)
def analyze(args: Namespace) -> int:
    from pam.evaluation.analyze import analyze, load_writer_of_symbols
    from pam.evaluation.records import save
    from pam.runtime.devices import keep_heap, limit_threads
    from pam.runtime.errors import UserError

    keep_heap()
    limit_threads()
    if args.batch_size is not None and args.batch_size < 1:
        raise UserError(f"--batch-size {args.batch_size}", hint="use a whole number, at least 1")

    run = RunFolder(args.run)
    model = load_writer_of_symbols(run.model, args.device)
    batch_size = args.batch_size or model.run.decoding.batch_size
    analysis = analyze(model, args.data or run.data(args.split), args.split, batch_size)
    save(analysis, args.out or run.analysis(args.split))

    return 0


@command(
    "write the alignments of a model for rows of a split, under teacher forcing",
    run_with("a trained model"),
    option("--split", default="test", choices=SPLITS),
    DATA,
    output("--out", "attention.json (default: in the run's folder)"),
    [
        option("--rows", "row numbers from 0, separated by commas"),
        option(
            "--count",
            "number of informative rows, spread evenly over the split",
            type=int,
            default=4,
        ),
    ],
    examples=[
        "pam attention --run results/quick/de-noun/postr-joint/seed1 --rows 0,7,12",
    ],
)
def attention(args: Namespace) -> int:
    from pam.evaluation.analyze import heat_maps, load_writer_of_symbols
    from pam.runtime.errors import UserError
    from pam.runtime.files import write_json

    run = RunFolder(args.run)
    model = load_writer_of_symbols(run.model)
    if args.count < 1:
        raise UserError(f"--count {args.count}", hint="use a whole number, at least 1")

    rows = None
    if args.rows is not None:
        try:
            rows = [int(part) for part in args.rows.split(",")]
        except ValueError as error:
            raise UserError(f"--rows {args.rows}", hint="write numbers, such as 0,5,9") from error

    maps = heat_maps(model, args.data or run.data(args.split), args.split, args.count, rows)
    write_json(args.out or run.attention, maps)
    return 0


@command(
    "score outputs or alignments, with intervals, and add up the cost",
    run_with("the files to score; or name single files by the options below", required=False),
    option("--split", "split that was decoded or aligned", default="test"),
    path(
        "--predictions",
        "instead of --run: files of predictions, one per beam, the main beam first",
        **SEVERAL,
    ),
    path("--decoding", "decoding.json of each file of predictions, for beam and cost", **SEVERAL),
    folder("--data", "prepared data that the predictions belong to"),
    path("--analysis", "analysis.json, for perplexity or alignments"),
    path("--training", "training.json, for the cost"),
    option("--kind", "kind of scoring (default: the kind of task of --data)"),
    PLUGIN,
    path("--hypotheses", "instead of --run: outputs of any system, one per line"),
    path(
        "--references",
        "for --hypotheses: references, one per line, in one or more files",
        **SEVERAL,
    ),
    path("--baseline", "for --hypotheses: outputs of another system to compare with"),
    option(
        "--lang",
        "for --hypotheses: code of the language (default: the one that the script of the references"
        " tells, else any language with spaces between words)",
    ),
    option(
        "--join-subwords",
        "for --hypotheses: join subwords, such as `teach@@ er`, to words in all files that hold"
        " some",
        action="store_true",
    ),
    option(
        "--metric",
        "for --hypotheses: bleu, sacrebleu, chrf, exact_match, wer, cer (default: these six), gleu,"
        " ...",
        metavar="NAME",
        **SEVERAL,
    ),
    path(
        "--groups",
        "for --hypotheses: the group of each line, such as seen or unseen, each scored apart too",
    ),
    path("--alignments", "instead of --run: links of words, as `align` writes them"),
    path(
        "--gold",
        "for --alignments: links that people made, in the format Pharaoh (`0-0 1p2`; p: possible)"
        " or NAACL (`1 1 2 P`)",
    ),
    option(
        "--first",
        "for --gold in the format Pharaoh: the number of a sentence's first word",
        type=int,
        choices=(0, 1),
        default=0,
    ),
    output(
        "--out", "scores.json (default: in the run's folder; without --run, metrics are printed)"
    ),
    examples=[
        "pam score --hypotheses ours.txt --references references.txt --baseline theirs.txt",
        "pam score --run results/quick/de-noun/postr-joint/seed1",
    ],
)
def score(args: Namespace) -> int:
    from pam.evaluation.records import save
    from pam.evaluation.scores import notes_of
    from pam.evaluation.scoring import Scored, files_of, score
    from pam.runtime.errors import UserError

    import_plugins(args)
    if any(getattr(args, name) for name in OF_LINKS):
        return _score_links(args)
    if any(getattr(args, name) for name in OF_TEXTS):
        return _score_texts(args)

    single_files = {name: getattr(args, name) for name in OF_FILES if getattr(args, name)}
    if args.run is None:
        files = Scored(split=args.split, **single_files)
    elif single_files:
        raise UserError(
            "--run and single files exclude each other", hint="name a run, or its files, not both"
        )
    else:
        files = files_of(RunFolder(args.run), args.split)

    scores = score(files)
    out = args.out or (args.run and RunFolder(args.run).scores(args.split))
    for note in notes_of(scores):
        sys.stdout.write(f"note: {note}\n")
    if out:
        save(scores, out)
        return 0
    _print_metrics(scores)
    for group in scores.groups:
        sys.stdout.write(f"group {group}:\n")
        _print_metrics(scores.of_group(group), indent="  ")
    return 0


def _print_metrics(scores: Scores, indent: str = "") -> None:
    """Print each metric on a line, with its interval and its units."""
    for name, value in scores.metrics.items():
        unit = f" {value.unit}" if value.unit else ""
        interval = f"[{value.low:.2f}, {value.high:.2f}]"
        units = f"{len(scores.units)} {scores.over}"
        line = f"{name}: {value.value:.2f}{unit} {interval} of {value.n}, {units}"
        sys.stdout.write(f"{indent}{line}\n")


def _score_links(args: Namespace) -> int:
    """Score files of links, which are options of their own."""
    from pam.alignment.scoring import score_links
    from pam.evaluation.records import save
    from pam.runtime.errors import UserError

    for name, other in (OF_LINKS, OF_LINKS[::-1]):
        if not getattr(args, name):
            hint = "name the links to score with --alignments, and gold links with --gold"
            raise UserError(f"--{other} without --{name}", hint=hint)
    for name in ("run", *OF_FILES, *OF_TEXTS):
        if getattr(args, name):
            hint = "score links, or something else, not both"
            raise UserError(f"--alignments and --{name.replace('_', '-')}", hint=hint)

    scores = score_links(args.alignments, args.gold, args.first)
    if args.out:
        save(scores, args.out)
    else:
        sys.stdout.write(scores.report())
    return 0


def _score_texts(args: Namespace) -> int:
    """Score plain text files, which are options of their own."""
    from pam.evaluation.plain_texts import METRIC_NAMES, report, score_texts
    from pam.evaluation.records import save
    from pam.runtime.errors import UserError

    for name in OF_TEXTS[1:]:
        if getattr(args, name) and not args.hypotheses:
            hint = "name the outputs with --hypotheses, one a line"
            raise UserError(f"--{name.replace('_', '-')} without --hypotheses", hint=hint)
    if not args.references:
        hint = "name files of references with --references, one a line"
        raise UserError("--hypotheses without --references", hint=hint)
    for name in ("run", *OF_FILES):
        if getattr(args, name):
            hint = "score text files, or a run or its files, not both"
            raise UserError(f"--hypotheses and --{name}", hint=hint)

    scores = score_texts(
        hypotheses=args.hypotheses,
        references=args.references,
        baseline=args.baseline,
        code=args.lang or "",
        metrics=args.metric or METRIC_NAMES,
        join_subwords=args.join_subwords,
        groups=args.groups,
    )
    if args.out:
        save(scores, args.out)
    else:
        sys.stdout.write(report(scores))
    return 0


@command(
    "make and score a baseline without a model, such as the first sentences of a text",
    option("--name", "lead, random, ...; an unknown name lists them all", required=True),
    folder("--data", "prepared data of a task", required=True),
    option("--split", default="test", choices=SPLITS),
    option("--experiment", "experiment whose tables show the scores", required=True),
    option("--task", "task of the experiment", required=True),
    PLUGIN,
    folder("--out", "folder for predictions.tsv and scores.json", required=True),
    examples=[
        "pam control --name lead --data data/titles --experiment mine --task titles --out lead",
    ],
)
def control(args: Namespace) -> int:
    from pam.evaluation.records import save
    from pam.evaluation.scoring import score_control

    import_plugins(args)
    scores = score_control(
        args.name,
        args.data,
        args.split,
        args.out / "predictions.tsv",
        args.experiment,
        args.task,
    )
    save(scores, args.out / "scores.json")

    return 0


@command(
    "test translations against the baseline's by sacreBLEU's paired bootstrap",
    folder("--baseline", "run of the baseline", required=True),
    folder("--systems", "runs of other models on the same task", nargs="+", required=True),
    option("--split", default="test", choices=SPLITS),
    output("--out", "JSON to write", required=True),
    examples=[
        "pam significance --baseline RUN --systems OTHER_RUN --out significance.json",
    ],
)
def significance(args: Namespace) -> int:
    from pam.runtime.files import write_json
    from pam.tasks.translation.significance import compare_runs

    systems = [RunFolder(path) for path in args.systems]
    write_json(args.out, compare_runs(RunFolder(args.baseline), systems, args.split).model_dump())
    return 0


@command(
    "compare two runs of a task: metrics, paired differences, and differences in configuration",
    folder(
        "runs",
        "folders of two scored runs, A and B; differences are positive where B is better",
        nargs=2,
    ),
    option("--split", default="test", choices=SPLITS),
    output("--out", "JSON file to write instead of printing"),
    examples=[
        "pam compare results/quick/de-noun/soft/seed1 results/quick/de-noun/postr-joint/seed1",
    ],
)
def compare(args: Namespace) -> int:
    from pam.reporting.run_pair import compare_runs, report
    from pam.runtime.files import write_json

    first, second = map(RunFolder, args.runs)
    pair = compare_runs(first, second, args.split)
    if args.out:
        write_json(args.out, pair.model_dump())
    else:
        sys.stdout.write(report(pair))
    return 0


@command(
    "make a table of an experiment: CSV, Markdown, LaTeX, HTML",
    option("--table", NAMES, required=True, metavar="NAME"),
    path("--experiment", "the experiment's configuration (YAML)", required=True),
    path("--scores", "scores.json of every run; for table3, gold_scores.json", **SEVERAL),
    path(
        "--predictions",
        "for examples: predictions.tsv of every run, in its folder beam<k>",
        **SEVERAL,
    ),
    path("--significance", "JSON files that the command `significance` wrote", **SEVERAL),
    path("--gold-scores", "for attentions: gold_scores.json of runs", **SEVERAL),
    path("--analyses", "for attentions: analysis.json of runs", **SEVERAL),
    path("--paper", "the papers' results (%(default)s)", default="config/paper_results.yaml"),
    folder("--out", "folder for the files <table>.csv, ...", required=True),
    examples=[
        "pam tables --table table2 --experiment experiment.yaml --scores *.json --out tables",
    ],
)
def tables(args: Namespace) -> int:
    from pam.reporting import catalogue, render, runs, tables

    inputs = tables.Inputs(
        experiment=runs.load_experiment(args.experiment),
        papers=catalogue.load_papers(args.paper),
        scores=args.scores,
        predictions=args.predictions,
        significance=args.significance,
        gold_scores=args.gold_scores,
        analyses=args.analyses,
    )
    render.write(tables.build(args.table, inputs), args.out, args.table)

    return 0


@command(
    "draw one figure, as SVG and PNG",
    option("kind", "quality, gains, ...; without it, all kinds are listed", nargs="?"),
    # Read later, by the module of that kind: importing all of them would slow down every command.
    option("rest", "options; `KIND --help` lists them", nargs=REMAINDER),
    examples=[
        "pam figures",
        "pam figures gains --help",
        "pam figures gains --experiment experiment.yaml --scores */scores.json --out gains.svg",
    ],
)
def figures(args: Namespace) -> int:
    from pam.reporting import catalogue, figures

    if args.kind is None:
        for kind in catalogue.DRAWINGS:
            draw = figures.drawing_of(kind)
            sentence = " ".join((inspect.getdoc(draw) or "").partition("\n\n")[0].split())
            sys.stdout.write(f"{kind}: {sentence}\n")
        return 0
    figures.write(args.kind, args.rest, f"pam figures {args.kind}")
    return 0
