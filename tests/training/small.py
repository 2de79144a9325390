"""A few real nouns and a network of a few units: trainings that take a fraction of a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pam.data.dataset import write_summary
from pam.experiments.model import ModelConfig
from pam.experiments.parsing import dump_yaml
from pam.experiments.run_config import RunConfig
from pam.runtime.files import write_text
from pam.tasks.inflection.stages import Index, InflectionFormat
from tests.variants import model_named

ROOT = Path(__file__).resolve().parents[2]
FEATURES = (
    "case=nominative,number=singular",
    "case=genitive,number=singular",
    "case=nominative,number=plural",
)
NOUNS = {
    "train": """
        Tag Tages Tage, Haus Hauses Häuser, Kind Kindes Kinder, Frau Frau Frauen,
        Baum Baumes Bäume, Hand Hand Hände, Stadt Stadt Städte, Buch Buches Bücher,
        Bild Bildes Bilder, Weg Weges Wege, Jahr Jahres Jahre, Stein Steines Steine,
        Nacht Nacht Nächte, Mann Mannes Männer, Land Landes Länder, Wort Wortes Wörter,
        Uhr Uhr Uhren, Tür Tür Türen, Hund Hundes Hunde, Maus Maus Mäuse
    """,
    "dev": "Laus Laus Läuse, Rat Rates Räte, Wald Waldes Wälder, Dorf Dorfes Dörfer",
    "test": "Blatt Blattes Blätter, Arm Armes Arme, Fuß Fußes Füße, Berg Berges Berge",
}
ROWS = {
    split: [
        (lemma, features, form)
        for lemma, *forms in (noun.split() for noun in nouns.split(","))
        for features, form in zip(FEATURES, (lemma, *forms), strict=True)
    ]
    for split, nouns in NOUNS.items()
}
"""60, 12 and 12 rows."""


def prepare(folder: Path, rows: Mapping[str, Sequence[tuple[str, ...]]] | None = None) -> Path:
    """Prepare a folder as the command `prepare` does."""
    raw = folder.parent / f"{folder.name} raw"
    files = {}
    if rows is None:
        rows = ROWS
    for split, listed in rows.items():
        files[split] = raw / f"{split}.tsv"
        write_text(files[split], "".join("\t".join(row) + "\n" for row in listed))

    counts = Index(files, InflectionFormat(), folder).run()
    write_summary(folder, {"dataset": "small", "task": "inflection", **counts})

    return folder


def components(model: str = "soft") -> ModelConfig:
    """Return a named model's components without its own sizes."""
    return model_named(model).model_copy(update={"network": {}})


def run(model: str = "soft", seed: int = 1, **training: Any) -> RunConfig:
    """Configure 3 epochs of 4 batches, with a state saved after every batch."""
    return RunConfig.model_validate(
        {
            "experiment": "tiny",
            "task": "nouns",
            "model": model,
            "label": model,
            "seed": seed,
            "components": components(model),
            "network": {"embedding": 8, "encoder": 8, "decoder": 8, "dropout": 0.3},
            "training": {
                "epochs": 3,
                "batch_size": 15,
                "learning_rate": 0.02,
                "warmup_steps": 3,
                "state_every_s": 0.0,
                **training,
            },
            # An untrained model writes until it has to end.
            "decoding": {"batch_size": 8, "max_ratio": 1.0, "max_extra": 3},
        }
    )


def write_run(folder: Path, run: RunConfig) -> Path:
    """Write the configuration as the file that `train` reads."""
    write_text(folder / "run.yaml", dump_yaml(run))
    return folder / "run.yaml"
