"""The folder of one run, and where in it each command finds and leaves its files.

`results/<experiment>/<task>/<model>/seed<k>` holds `run.yaml` and all that is made from it:

    run.yaml                                        the run's configuration, written once
    model/  history.csv  training.json              by `train` (or `ensemble`)
    beam<k>/length_penalty.json                     by `length-penalty`, if there are several
    beam<k>/predictions.tsv  beam<k>/decoding.json  by `predict`, of the test split
    attention.json  analysis.json  scores.json      by `attention`, `analyze`, `score`
    gold_analysis.json  gold_scores.json            of the task's word alignments
    restored.json                                   by `restore_reference.py`: what a run without
                                                    weights was trained with
    <split>/...                                     of other splits, by the same names

The task's prepared data are in `../../data`, its word alignments in `../../gold`. The rules of the
workflow name their files through this class too, with `{task}`, `{model}`, `{seed}` in the path.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pam.experiments.parsing import parse
from pam.experiments.yaml import parse_yaml, placed
from pam.runtime.errors import UserError

if TYPE_CHECKING:
    from pam.experiments.run_config import RunConfig

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

GOLD = "gold"  # the split of word alignments that people made; it has a folder of its own
# Column of predictions: the outputs without the length penalty that was chosen.
UNPENALIZED = "unpenalized"
# What a model folder holds, so that the model can be used by itself.
WEIGHTS = "weights.safetensors"
MODEL_FILES = ("config.yaml", WEIGHTS, "source.vocab", "target.vocab", "lengths.json")


@dataclass(frozen=True)
class RunFolder:
    """One run's folder; `text` is its configuration as YAML, in place of `run.yaml`."""

    path: Path
    text: str | None = None

    def load(self) -> RunConfig:
        """Read the run's configuration.

        A UserError says that it is missing, has an error, or that the model's parts do not fit.
        """
        from pam.experiments.run_config import RunConfig, load_run
        from pam.models.fitting import FitError, check_fit

        if self.text is not None:
            run = parse(RunConfig, parse_yaml(self.text, "--config"), "--config")
        elif self.config_file.is_file():
            run = load_run(self.config_file)
        else:
            hint = "name the folder of a run, results/<experiment>/<task>/<model>/seed<k>"
            raise UserError("no such file", file=self.config_file, hint=hint)

        try:
            check_fit(run.components, run.network)
        except FitError as error:
            if self.text is not None:
                raise placed(error, [], ["components", *error.keys]) from error
            raise placed(error, [self.config_file], ["components", *error.keys]) from error

        return run

    @property
    def config_file(self) -> Path:
        return self.path / "run.yaml"

    @property
    def model(self) -> Path:
        """The folder of the trained model."""
        return self.path / "model"

    @property
    def model_files(self) -> list[Path]:
        return [self.model / name for name in MODEL_FILES]

    @property
    def weights(self) -> Path:
        return self.model / WEIGHTS

    @property
    def training(self) -> Path:
        """The record of the training: cost, origin, outcome."""
        return self.path / "training.json"

    @property
    def history(self) -> Path:
        return self.path / "history.csv"

    @property
    def attention(self) -> Path:
        """Alignments of some rows of the test split, for heat maps."""
        return self.path / "attention.json"

    @property
    def alignment_record(self) -> Path:
        """What the model did as an aligner of the training text."""
        return self.path / "alignment.json"

    @property
    def restored(self) -> Path:
        """The record of a run that was restored from `results/reference`, which has no weights."""
        return self.path / "restored.json"

    @property
    def lacks_weights(self) -> bool:
        """Whether the run was restored with its scores and has not been trained here since."""
        if not self.restored.is_file() or not self.scores("test").is_file():
            return False
        return not all(file.is_file() for file in self.model_files)

    @property
    def asked_again(self) -> Path:
        """The mark that the training is to be done again though its results are there."""
        return self.path / "state" / "again"

    @property
    def may_be_finished(self) -> bool:
        """Whether a training has ended here, be it this one or an earlier one."""
        return (self.path / "state" / "finished").is_dir()

    def data(self, split: str = "test") -> Path:
        """Return the folder of prepared data that has a split."""
        task = self.path.parent.parent
        if split == GOLD:
            return task / GOLD
        return task / "data"

    def member(self, model: str, seed: int | None = None) -> RunFolder:
        """Return the run of another model on the same task, with the same seed or a given one."""
        name = self.path.name
        if seed is not None:
            name = f"seed{seed}"
        return RunFolder(self.path.parent.parent / model / name)

    def predictions(self, split: str, beam: int | str = "") -> Path:
        """Return the file of outputs on a split; the test split has one for every beam."""
        if split == "test":
            return self.path / f"beam{beam}" / "predictions.tsv"
        return self.path / split / "predictions.tsv"

    def decoding(self, split: str, beam: int | str = "") -> Path:
        """Return the record of a split's decoding: its cost, and what it was like."""
        return self.predictions(split, beam).with_name("decoding.json")

    def length_penalty(self, beam: int | str) -> Path:
        """Return the file of the length penalty chosen for a beam on the development split."""
        return self.path / f"beam{beam}" / "length_penalty.json"

    def analysis(self, split: str) -> Path:
        """Return the file of likelihood and attention under teacher forcing."""
        return self._by_split("analysis.json", split)

    def scores(self, split: str) -> Path:
        """Return the file of a split's scores."""
        return self._by_split("scores.json", split)

    def _by_split(self, name: str, split: str) -> Path:
        """Return a file of a split: those of the test split lie in the run's folder itself."""
        if split == GOLD:
            return self.path / f"{GOLD}_{name}"
        if split == "test":
            return self.path / name
        return self.path / split / name


def command_line() -> str:
    """Return this process's command, for records.

    It is without `--config`, whose text the run's folder holds.
    """
    words = sys.argv[1:]
    if "--config" in words:
        index = words.index("--config")
        del words[index : index + 2]
    return shlex.join(["python", "-m", "pam", *words])
