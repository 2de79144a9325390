"""`pam check`: the faults of an experiment, and its cost, before it runs."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from itertools import product
from pathlib import Path

import pytest
import torch

from pam.cli import main
from pam.experiments.check import check_folder
from pam.experiments.loading import load_plan
from pam.experiments.parsing import dump_yaml
from pam.runtime import processor
from pam.runtime.processor import Trial
from pam.training.more_epochs import LAST
from pam.workflow import or_exit
from tests.cli.conftest import Call
from tests.workflow.checkouts import Checkout, with_own_data, with_own_pairs


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A folder with an experiment on made-up nouns and nothing else."""
    monkeypatch.chdir(tmp_path)
    made = with_own_data(Checkout(tmp_path))
    made.edit("own/experiment.yaml", "config/datasets.yaml, ", "")
    made.edit("own/experiment.yaml", "batch_size: 16", "batch_size: 16, warmup_steps: 1")

    return made


CHECK = ("check", "--configfile", "own/experiment.yaml")


def test_a_right_experiment_is_told_with_what_it_takes_and_leaves_nothing_behind(
    own: Checkout, called: Call
) -> None:
    before = sorted(own.folder.rglob("*"))
    result = called(*CHECK)

    assert (result.code, result.err) == (0, "")
    assert "experiment tiny: 1 task, 2 runs; the configuration is right" in result.out
    assert re.search(r"`small`, 3 files here; first row: \w+ \| number=singular \| \w+", result.out)
    for model in ("soft", "mono-postr-joint"):
        assert re.search(rf"nouns +{model} +1 +\d+\.\d +\d+ MB +5\n", result.out)

    assert re.search(r"in all about \d+ min, .* GB of disk .* MB of memory", result.out)
    assert sorted(own.folder.rglob("*")) == before


def test_trainings_that_patience_may_end_take_at_most_what_is_told(
    own: Checkout, called: Call
) -> None:
    own.edit("own/experiment.yaml", "batch_size: 16", "batch_size: 16, patience: 1")
    assert re.search(r"in all at most about \d+ min", called(*CHECK).out)


def test_it_says_whether_this_processor_has_the_precision_that_is_asked_for(
    own: Checkout, called: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "precision" not in called(*CHECK).out

    own.edit("own/experiment.yaml", "batch_size: 16", "batch_size: 16, precision: bf16")
    monkeypatch.setattr(
        processor, "try_bfloat16", lambda: Trial(pays=False, reason="there is none")
    )

    result = called(*CHECK)
    assert (result.code, result.err) == (0, "")
    assert "precision: float32 in place of bf16 (there is none)" in result.out


def test_keys_on_the_command_line_count(own: Checkout, called: Call) -> None:
    assert "6 runs" in called(*CHECK, "--config", "seeds=[1, 2, 3]", "training={epochs: 2}").out
    assert called(*CHECK, "--config", "sedes=[1]").message()[0] == "--config: unknown key `sedes`"
    assert called(*CHECK, "--config", "seeds").message() == (
        "--config seeds",
        "write KEY=VALUE, such as seeds=[1,2]",
    )


def test_a_key_with_dots_is_told_how_to_write_it(own: Checkout, called: Call) -> None:
    message, hint = called(*CHECK, "--config", "training.epochs=5").message()
    assert "training.epochs=5" in message and "training={epochs: 5}" in hint


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_an_experiment_in_another_encoding_is_told_so(
    own: Checkout, called: Call, encoding: str
) -> None:
    text = (own.folder / "own/experiment.yaml").read_text(encoding="utf-8")
    text = text.replace("Made-up nouns", "Wörter")
    (own.folder / "own/experiment.yaml").write_text(text, encoding=encoding)
    message, hint = called(*CHECK).message()
    assert message.startswith("own/experiment.yaml: ") and "UTF-8" in hint


def test_pairs_and_word_alignments_are_checked_too(own: Checkout, called: Call) -> None:
    with_own_pairs(own)
    result = called("check", "--configfile", "own/translation.yaml")

    assert result.code == 0
    assert "data of pairs: `links`, 3 files here" in result.out
    assert re.search(r"pairs +postr-joint +1 ", result.out)

    (own.folder / "own/test.links").unlink()
    message, _ = called("check", "--configfile", "own/translation.yaml").message()
    assert message.startswith("own/test.links: ")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("own/experiment.yaml", "seeds:", "sedes:", "own/experiment.yaml:3: unknown key `sedes`"),
        (
            "own/experiment.yaml",
            "seeds: [1]",
            "seeds: [1",
            "own/experiment.yaml:4: this is not valid YAML",
        ),
        (
            "own/experiment.yaml",
            "soft, m",
            "sotf, m",
            "own/experiment.yaml:4: unknown model `sotf`",
        ),
        (
            "own/experiment.yaml",
            "encoder: 8",
            "encoder: 0",
            "own/experiment.yaml:9: `network.encoder`: ",
        ),
        (
            "own/datasets.yaml",
            "dev.tsv}",
            "dve.tsv}",
            "own/dve.tsv: data set `small`: no such file",
        ),
        ("own/dev.tsv", "\tnumber", " number", "own/dev.tsv:1: 2 columns instead of 3"),
    ],
)
def test_a_mistake_is_named_before_anything_is_made(
    own: Checkout, called: Call, file: str, old: str, new: str, message: str
) -> None:
    own.edit(file, old, new)
    assert called(*CHECK).message()[0].startswith(message)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_known_before_the_run(own: Checkout, called: Call) -> None:
    own.edit("own/experiment.yaml", "device: cpu", "device: cuda")
    assert called(*CHECK).message()[0] == "no CUDA device is usable here"
    assert called(*CHECK, "--elsewhere").code == 0


@pytest.mark.parametrize("is_prepared", [False, True])
def test_more_rows_take_more_time_by_a_sample_of_them(
    own: Checkout, called: Call, is_prepared: bool
) -> None:
    # Data of other files than today's do not count.
    if is_prepared:
        entry = ("--dataset", "small", "--registry", "own/datasets.yaml")
        raw, data = str(own.folder / "raw"), "results/tiny/nouns/data"
        assert called("fetch", *entry, "--out", raw).code == 0
        assert called("prepare", *entry, "--raw", raw, "--out", data).code == 0

    text = (own.folder / "own/train.tsv").read_text(encoding="utf-8")
    (own.folder / "own/train.tsv").write_text(text * 500, encoding="utf-8")

    minutes = re.findall(
        r"nouns +\S+ +1 +(\d+\.\d)", called(*CHECK, "--config", "training={epochs: 100}").out
    )
    assert len(minutes) == 2
    assert min(map(float, minutes)) > 1.0


def test_what_is_trained_takes_nothing(own: Checkout, called: Call) -> None:
    plan = load_plan(files=["own/experiment.yaml"])
    for model in ("soft", "mono-postr-joint"):
        own.write(f"results/tiny/nouns/{model}/seed1/training.json", "{}")
        own.write(
            f"results/tiny/nouns/{model}/seed1/run.yaml", dump_yaml(plan.run("nouns", model, 1))
        )

    assert called(*CHECK, "--brief").out == "no training is left to do\n"

    # What is asked for is written before it is trained.
    folder = own.folder / "results/tiny/nouns/soft/seed1"
    own.write("results/tiny/nouns/soft/seed1/model/config.yaml", (folder / "run.yaml").read_text())
    own.edit("results/tiny/nouns/soft/seed1/run.yaml", "epochs: 1", "epochs: 9")
    assert called(*CHECK, "--brief").out == "no training is left to do\n"
    result = called(*CHECK, "--brief", "--config", "training={epochs: 100}")
    assert result.out != "no training is left to do\n"


def test_the_total_is_of_the_cores_that_will_be_used(own: Checkout, called: Call) -> None:
    for cores in (1, 3):
        line = called(*CHECK, "--brief", "--cores", str(cores)).out
        assert f"{cores} trainings at once on {cores} cores" in line


def test_a_target_after_the_configuration_is_told_from_one(own: Checkout, called: Call) -> None:
    for target in ("train", "results/tiny/tables/table2.csv"):
        message, hint = called(*CHECK, target).message()
        assert message == f"`{target}` stands after `--configfile` but is not a configuration"
        assert hint.endswith(f"--configfile own/experiment.yaml -- {target}")


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
def test_a_home_that_cannot_be_written_to_is_answered_with_the_variable_to_set(
    own: Checkout, called: Call, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv(variable, "/dev/null")

    message, hint = called(*CHECK).message()
    assert message.startswith("/dev/null/") and message.endswith(
        "Snakemake cannot keep its cache here"
    )
    assert "XDG_CACHE_HOME=FOLDER" in hint


def test_braces_in_the_name_of_the_folder_are_refused_before_anything_is_made(
    tmp_path: Path, called: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a{x}b").mkdir()
    monkeypatch.chdir(tmp_path / "a{x}b")
    with_own_data(Checkout(Path.cwd()))

    message, _ = called(*CHECK).message()
    assert message.endswith(
        "a{x}b: braces in the name of a folder, which Snakemake takes for wildcards"
    )
    with pytest.raises(SystemExit, match="braces in the name of a folder"):
        or_exit(check_folder)


def test_what_is_said_is_utf8_whatever_the_language_settings(
    own: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (own.folder / "own/train.tsv").read_text(encoding="utf-8")
    own.write("own/train.tsv", "日本ü\tnumber=singular\t語\n" + text)
    written = {
        name: io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
        for name in ("stdout", "stderr")
    }
    for name, stream in written.items():
        monkeypatch.setattr(sys, name, stream)
    assert main(CHECK) == 0

    written["stdout"].flush()
    assert "日本ü | number=singular | 語" in written["stdout"].buffer.getvalue().decode("utf-8")


@pytest.mark.parametrize(
    ("file", "old", "new", "line"),
    [
        ("own/experiment.yaml", "own/datasets.yaml", "{}", 7),
        ("own/experiment.yaml", "device: cpu", "mirror: {}", 8),
        ("own/datasets.yaml", "{path: train.tsv}", "{{path: {}}}", 6),
    ],
)
@pytest.mark.parametrize("name", ["x" * 256, "ü" * 128, "/".join(["abcdefg"] * 513)])
def test_a_path_that_no_file_can_have_is_named_by_file_and_line(
    own: Checkout, called: Call, file: str, old: str, new: str, line: int, name: str
) -> None:
    own.edit(file, old, new.format(name))
    message, hint = called(*CHECK).message()

    assert message.startswith(f"{file}:{line}: ")
    assert "longer than the file system allows" in message
    assert "255 bytes" in hint


def test_a_path_on_the_command_line_that_no_file_can_have_is_one_message(
    own: Checkout, called: Call
) -> None:
    assert called("check", "--configfile", "x" * 300).message()[0].endswith("no such file")
    message, _ = called("score", "--run", "x" * 300).message()
    assert message.startswith("xxx") and os.sep in message


def test_settings_that_little_data_cannot_fill_are_warned_of(own: Checkout, called: Call) -> None:
    own.edit(
        "own/experiment.yaml", "batch_size: 16, warmup_steps: 1", "batch_size: 100, warmup_steps: 9"
    )
    result = called(*CHECK, "--config", "decoding={beam: 500}")

    assert result.code == 0

    warned = [
        line.removeprefix("warning: soft, mono-postr-joint on nouns: ")
        for line in result.err.splitlines()
    ]
    assert len(warned) == 3
    assert warned[0].startswith(
        "the warm-up of 9 steps is as long as the training of 1 or longer: its rate stays"
    )
    assert warned[1].startswith(
        "a batch of 100 is more than all 80 training rows: each epoch is one step"
    )
    assert re.match(r"a beam of 500 is more than the \d+ symbols of the vocabulary", warned[2])


@pytest.mark.parametrize("kind", ["inflection", "translation"])
def test_targets_that_outputs_cannot_be_as_long_as_are_counted_for_every_kind_of_task(
    kind: str, own: Checkout, called: Call
) -> None:
    file = "own/experiment.yaml"
    if kind == "translation":
        with_own_pairs(own)
        file = "own/translation.yaml"

    limited = "decoding={max_ratio: 0.1, max_extra: 4, max_source: 3}"
    result = called("check", "--configfile", file, "--config", limited)
    assert result.code == 0

    warned = [line for line in result.err.splitlines() if line.startswith("warning: ")]
    for split in ("dev", "test"):
        assert any(re.search(rf"\d+ of \d+ targets of {split} are longer", line) for line in warned)
        assert any(re.search(rf"\d+ sources of {split} only the first 3 ", line) for line in warned)

    assert "longer than outputs" not in called("check", "--configfile", file).err


def test_a_changed_limit_is_told_where_the_epoch_is_chosen_by_decoding(
    own: Checkout, called: Call
) -> None:
    plan = load_plan(files=["own/experiment.yaml"])
    config = dump_yaml(plan.run("nouns", "soft", 1))
    for file, text in (
        ("training.json", "{}"),
        ("run.yaml", config),
        ("model/config.yaml", config),
    ):
        own.write(f"results/tiny/nouns/soft/seed1/{file}", text)

    changed = called(*CHECK, "--config", "decoding={max_length: 30, beam: 3}").out
    (sentence,) = [line for line in changed.splitlines() if "max_length" in line]
    assert "soft on nouns" in sentence and "training.select" in sentence
    assert "beam" not in sentence

    for other in ("decoding={beam: 3}", "training={epochs: 3}"):
        assert "training.select" not in called(*CHECK, "--config", other).out


def test_runs_of_another_configuration_are_told_of_before_they_are_replaced(
    own: Checkout, called: Call
) -> None:
    plan = load_plan(files=["own/experiment.yaml"])
    own.write("results/tiny/nouns/soft/seed1/training.json", "{}")
    own.write("results/tiny/nouns/soft/seed1/run.yaml", dump_yaml(plan.run("nouns", "soft", 1)))

    result = called(*CHECK, "--config", "training={epochs: 2}")
    warning = "1 run of nouns had another configuration and will be trained from the first epoch"
    assert warning in result.out


def test_runs_that_go_on_with_more_epochs_are_not_told_of_as_replaced(
    own: Checkout, called: Call
) -> None:
    own.edit("own/experiment.yaml", "epochs: 1", "epochs: 1, flat: 1")
    plan = load_plan(files=["own/experiment.yaml"])
    for file in ("training.json", f"state/{LAST}"):
        own.write(f"results/tiny/nouns/soft/seed1/{file}", "{}")
    own.write("results/tiny/nouns/soft/seed1/run.yaml", dump_yaml(plan.run("nouns", "soft", 1)))

    own.edit("own/experiment.yaml", "epochs: 1", "epochs: 2")
    result = called(*CHECK)
    assert result.code == 0
    assert "had another configuration" not in result.out


def test_summaries_that_do_not_say_how_they_are_read_are_answered_with_the_key(
    own: Checkout, called: Call
) -> None:
    lines = '{"article": "a b c .", "summary": "a ."}\n' * 30
    for split in ("train", "dev", "test"):
        own.write(f"own/{split}.jsonl", lines)

    files = ", ".join(
        f"{split}.jsonl: {{path: {split}.jsonl}}" for split in ("train", "dev", "test")
    )
    splits = ", ".join(f"{split}: {split}.jsonl" for split in ("train", "dev", "test"))
    layout = "{source: article, target: summary}"
    entry = (
        f"news: {{task: summarization, files: {{{files}}}, splits: {{{splits}}}, format:"
        f" {layout}}}\n"
    )
    own.write("own/news.yaml", entry)
    own.edit("own/experiment.yaml", "own/datasets.yaml", "own/news.yaml")
    own.edit("own/experiment.yaml", "dataset: small", "dataset: news")
    own.edit("own/experiment.yaml", "mono-postr-joint", "postr-joint")

    message, hint = called(*CHECK).message()
    assert message.endswith("has no file for the language `article`")
    assert "`read: jsonl`" in hint


def test_a_sum_over_fewer_positions_than_sources_have_is_warned_of(
    own: Checkout, called: Call
) -> None:
    def warned(**options: object) -> str:
        value = json.dumps({"marginalization": {"output": options}})
        return called(*CHECK, "--config", f"options={value}").err

    cut = warned(top_k=2)
    assert "mono-postr-joint on nouns: `top_k: 2`" in cut and "mass: 0.99" in cut
    assert warned(top_k=2, mass=0.99) == warned(top_k=100) == warned(mass=0.99) == ""


@pytest.mark.parametrize("count", [60, 2500])
def test_characters_are_proposed_before_any_work_where_words_are_lines(
    own: Checkout, called: Call, count: int
) -> None:
    with_own_pairs(own)
    words = ["".join(letters) for letters in product("abcdef", repeat=5)]
    for split, first in (("train", 0), ("dev", count), ("test", count + 50)):
        for side in ("xx", "yy"):
            size = count if split == "train" else 50
            lines = "".join(f"{word}\n" for word in words[first : first + size])
            own.write(f"own/{split}.{side}", lines)

    own.edit("own/translation.yaml", "    word_alignments: links\n", "")
    told = called("check", "--configfile", "own/translation.yaml").err
    assert "50 of 50 lines of xx in dev are one word" in told
    assert "`tokenize: characters`" in told

    # What a sample of training lacks, the rest may have.
    for side in ("xx", "yy"):
        own.write(f"own/dev.{side}", "".join(f"{word}\n" for word in words[:count:50]))
    assert "characters" not in called("check", "--configfile", "own/translation.yaml").err
