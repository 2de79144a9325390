"""Copies of the repository in which the workflow is run, and small data for it."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from filelock import FileLock

from tests.warm import bin_folder, preload

ROOT = Path(__file__).resolve().parents[2]
PYTHON_KEYS = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
PARTS = (
    *("Snakefile", "Makefile", "pyproject.toml"),
    *("cluster", "config", "envs", "pam", "profiles", "workflow"),
)

REGISTRY = """\
small:
  task: inflection
  title: Made-up nouns
  licence: none
  files:
    train.tsv: {path: train.tsv}
    dev.tsv: {path: dev.tsv}
    test.tsv: {path: test.tsv}
"""

EXPERIMENT = """\
experiment: tiny
title: Made-up nouns
seeds: [1]
models: [soft, mono-postr-joint]
tasks:
  nouns: {dataset: small}
registries: [config/datasets.yaml, own/datasets.yaml]
device: cpu
network: {embedding: 8, encoder: 8, decoder: 16}
training: {epochs: 1, batch_size: 16}
attention_words: 2
"""


PAIRS = """\
pairs:
  task: translation
  title: Made-up sentences
  licence: none
  files:
    train.xx: {path: train.xx}
    train.yy: {path: train.yy}
    dev.xx: {path: dev.xx}
    dev.yy: {path: dev.yy}
    test.xx: {path: test.xx}
    test.yy: {path: test.yy}
  splits:
    train: {xx: train.xx, yy: train.yy}
    dev: {xx: dev.xx, yy: dev.yy}
    test: {xx: test.xx, yy: test.yy}
  format: {source: xx, target: yy, tokenize: none}
links:
  task: alignment
  title: Links of the test sentences
  licence: none
  files:
    test.xx: {path: test.xx}
    test.yy: {path: test.yy}
    test.links: {path: test.links}
  splits:
    gold: {xx: test.xx, yy: test.yy, links: test.links}
  format: {source: xx, target: yy, first: 1}
"""

TRANSLATION = """\
experiment: translated
title: Made-up sentences
models: [soft, prior-joint, postr-joint]
tasks:
  pairs:
    dataset: pairs
    word_alignments: links
    note: made up
    paper_reference: IWSLT14 DE-EN
    models: [soft, postr-joint]
    decoding: {dev: true}
  yy-xx:
    dataset: pairs
    format: {source: yy, target: xx}
    models: [soft]
registries: [own/pairs.yaml]
device: cpu
attention_words: 2
network: {embedding: 8, encoder: 8, decoder: 16}
training: {epochs: 1, batch_size: 16, select: loss}
decoding: {beam: 2, beams: [1]}
options: {marginalization: {output: {top_k: 2}}}
"""


FAR_REGISTRY = """\
far:
  task: translation
  title: The first words in another order
  files:
    far.xx: {path: far.xx}
    far.yy: {path: far.yy}
  splits: {test: {xx: far.xx, yy: far.yy}}
  format: {source: xx, target: yy, tokenize: none}
"""

FAR_TASK = """\
  far:
    dataset: far
    trained_on: pairs
    decoding: {length_penalties: [0.5, 1.0]}
"""

CANDIDATES = [0.0, 0.8, 3.0]


@dataclass(frozen=True)
class Outcome:
    """What a Snakemake did: its exit code and all that it said."""

    code: int
    said: str

    @property
    def jobs(self) -> Counter[str]:
        """Number of jobs by rule, from the table that Snakemake prints; noun targets excepted."""
        table = self.said.partition("Job stats:")[2].partition("total")[0]
        rows = re.findall(r"^(\w+) +(\d+)$", table, flags=re.MULTILINE)
        nouns = ("all", "data", "train", "tables", "figures", "report")

        return Counter({rule: int(number) for rule, number in rows if rule not in nouns})

    @property
    def trained(self) -> set[str]:
        """The trainings, as `model on task, seed n`."""
        return set(re.findall(r"Training (\S+ on \S+, seed \d+)", self.said))


@dataclass(frozen=True)
class Checkout:
    """A copy of the repository, to be run and changed at will.

    Its commands are forked by the server of `tests.warm`. Those of tests/faults that are killed are
    started as a user starts them.
    """

    folder: Path

    def run(self, *arguments: str, **environment: str) -> Outcome:
        """Run Snakemake there on two cores."""
        return self.command(
            [sys.executable, "-m", "snakemake", "--cores", "2", "--nocolor", *arguments],
            **environment,
        )

    def plan(self, *arguments: str, **environment: str) -> Outcome:
        """Return what Snakemake would do."""
        return self.run("--dry-run", *arguments, **environment)

    def command(self, command: list[str], **environment: str) -> Outcome:
        """Run any command there, with the package of this copy."""
        # Copies keep their bytecode, or each process would compile the package anew.
        inherited = {name: value for name, value in os.environ.items() if name not in PYTHON_KEYS}
        if command[0] == sys.executable:
            command = [str(bin_folder() / "python"), *command[1:]]
            inherited["PATH"] = os.pathsep.join(
                [inherited["PATH"], os.path.dirname(sys.executable)]
            )

        done = subprocess.run(
            command,
            cwd=self.folder,
            env=inherited | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

        return Outcome(done.returncode, done.stdout)

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace a text, which must be there, in a file."""
        path = self.folder / file
        text = path.read_text(encoding="utf-8")

        assert old in text, f"{old!r} is not in {file}"

        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def write(self, file: str, text: str) -> None:
        """Write a file, its folders included."""
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def copy(self, folder: Path) -> Checkout:
        """Make a copy with the same times of change."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return Checkout(folder)


def checkout(folder: Path) -> Checkout:
    """Make a fresh copy of the repository without results."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(template(), folder)
    return Checkout(folder)


def copy_repository(folder: Path) -> None:
    folder.mkdir()
    leave_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=leave_out)
        else:
            shutil.copy2(source, folder / part)


@cache
def template() -> Path:
    """Make a copy with its bytecode and the fingerprints of its code, once for all test processes.

    Both are kept beside the code and hold as long as it is not changed, in copies of the copy too.
    """
    folder = bin_folder() / "template"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            new = folder.with_suffix(".new")
            copy_repository(new)
            subprocess.run([sys.executable, "-m", "compileall", "-q", "pam"], cwd=new, check=True)
            fill_fingerprints(new)
            new.rename(folder)
            preload(folder)
    return folder


def fill_fingerprints(package: Path) -> None:
    """Keep in a copy of the repository the fingerprints that most experiments of tests ask for."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = with_own_pairs(with_own_data(Checkout(Path(folder))))
        command = [
            sys.executable,
            str(Path(__file__).with_name("fill_fingerprints.py")),
            *(str(package / "config" / name) for name in ("config.yaml", "nouns.yaml")),
            "own/experiment.yaml",
            "own/translation.yaml",
        ]
        outcome = scratch.command(command, PYTHONPATH=str(package))

    assert outcome.code == 0, outcome.said


def with_own_data(made: Checkout) -> Checkout:
    """Add a data set of made-up nouns and an experiment on it, `own/experiment.yaml`."""
    draw = random.Random(1)
    letters = "abdefgiklmnoprstuz"
    seen = set()
    made.write("own/datasets.yaml", REGISTRY)
    made.write("own/experiment.yaml", EXPERIMENT)

    for split, lemmas in (("train", 40), ("dev", 8), ("test", 8)):
        rows = []
        while len(rows) < 2 * lemmas:
            lemma = "".join(draw.choices(letters, k=draw.randint(3, 6)))
            if lemma not in seen:
                seen.add(lemma)
                rows += [
                    f"{lemma}\tnumber=singular\t{lemma}\n",
                    f"{lemma}\tnumber=plural\t{lemma}en\n",
                ]
        made.write(f"own/{split}.tsv", "".join(rows))

    return made


def with_own_pairs(made: Checkout) -> Checkout:
    """Add made-up sentence pairs with links, and an experiment on them, `own/translation.yaml`.

    A word is written backwards in the other language, and words come in the opposite order.
    """
    draw = random.Random(2)
    words = ["".join(draw.choices("abdegiklmnoprstu", k=4)) for _ in range(20)]
    made.write("own/pairs.yaml", PAIRS)
    made.write("own/translation.yaml", TRANSLATION)
    seen = set()
    for split, count in (("train", 60), ("dev", 10), ("test", 12)):
        rows = []
        while len(rows) < count:
            row = tuple(draw.choices(words, k=draw.randint(3, 8)))
            if row not in seen:
                seen.add(row)
                rows.append(row)
        turned = [[word[::-1] for word in reversed(row)] for row in rows]
        for ending, lines in (("xx", rows), ("yy", turned)):
            made.write(f"own/{split}.{ending}", "".join(" ".join(line) + "\n" for line in lines))
        if split == "test":
            links = "".join(f"{reversed_links(len(row))}\n" for row in rows)
            made.write("own/test.links", links)

    return made


def with_far_task(made: Checkout) -> Checkout:
    """Add to the sentence pairs a task `far`, which tests the models of `pairs` on longer ones."""
    registry = (made.folder / "own/pairs.yaml").read_text(encoding="utf-8")
    made.write("own/pairs.yaml", registry + FAR_REGISTRY)
    for side in ("xx", "yy"):
        lines = (made.folder / f"own/test.{side}").read_text(encoding="utf-8").splitlines()
        made.write(f"own/far.{side}", "".join(f"{line} {line}\n" for line in lines[:6]))

    made.edit("own/translation.yaml", "registries", f"{FAR_TASK}registries")
    return made


def with_learned_pairs(made: Checkout) -> Checkout:
    """Add sentence pairs whose development and test split are learned, and every kind of a task.

    Small networks translate some of them well, so that length penalties and beams differ. Two
    models and their ensemble translate from left to right. `yy-xx` is the other direction, and
    `far` tests a model of the first one.
    """
    with_own_pairs(made)
    for side in ("xx", "yy"):
        text = (made.folder / f"own/train.{side}").read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        made.write(f"own/dev.{side}", "".join(lines[:30]))
        made.write(f"own/test.{side}", "".join(lines[30:]))

    sentences = (made.folder / "own/test.xx").read_text(encoding="utf-8").splitlines()
    links = "".join(f"{reversed_links(len(line.split()))}\n" for line in sentences)
    made.write("own/test.links", links)
    with_far_task(made)
    made.write("config/models/both.yaml", "label: Both\nmembers: [soft, postr-joint]\n")

    file = "own/translation.yaml"
    made.edit(file, "    models: [soft, postr-joint]", "    models: [soft, postr-joint, both]")
    made.edit(file, "[soft, prior-joint, postr-joint]", "[soft, prior-joint, postr-joint, both]")
    aligned = "    models: [soft]\n    training: {epochs: 1}\n    align: {programs: [fast_align]}"
    made.edit(file, "    models: [soft]", aligned)
    made.edit(file, "trained_on: pairs", "trained_on: pairs\n    models: [soft]")
    made.edit(file, "{beam: 2, ", f"{{beam: 2, length_penalties: {CANDIDATES}, ")
    network = "{embedding: 16, encoder: 16, decoder: 32, dropout: 0.0}"
    made.edit(file, "{embedding: 8, encoder: 8, decoder: 16}", network)
    training = "{epochs: 20, learning_rate: 0.02, batch_size: 8, "
    made.edit(file, "{epochs: 1, batch_size: 16, ", training)
    return made


def reversed_links(count: int) -> str:
    """Return the links of a sentence of so many words, which come in the opposite order."""
    return " ".join(f"{number}-{count + 1 - number}" for number in range(1, count + 1))
