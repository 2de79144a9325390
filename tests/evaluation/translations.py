"""A small translated test set: prepared data, predictions as real models write them, analyses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pam.data.dataset import Prepared, write_summary
from pam.evaluation.attention import Analysis, Coverage, Entropy, Sentences
from pam.evaluation.records import save

SOURCES = [
    "ein mann mit einem orangefarbenen hut , der etwas anstarrt .",
    "ein boston terrier läuft über saftig-grünes gras vor einem weißen zaun .",
    "ein mädchen in einem karateanzug bricht ein brett mit einem tritt .",
    "fünf leute in winterjacken und mit helmen stehen im schnee .",
    "leute reparieren das dach eines hauses .",
    "das ist alles .",
]
TARGETS = [
    "a man in an orange hat starring at something .",
    "a boston terrier is running on lush green grass in front of a white fence .",
    "a girl in karate uniform breaking a stick with a front kick .",
    "five people wearing winter jackets and helmets stand in the snow .",
    "people are fixing the roof of a house .",
    "that 's all .",
]
REFERENCES = [
    "A man in an orange hat starring at something.",
    "A Boston Terrier is running on lush green grass in front of a white fence.",
    "A girl in karate uniform breaking a stick with a front kick.",
    "Five people wearing winter jackets and helmets stand in the snow.",
    "People are fixing the roof of a house.",
    "That's all.",
]
OUTPUTS = [
    "a man in an orange hat is staring at something .",
    "a black dog is running through the grass in front of a white fence .",
    "a girl in a karate uniform is breaking a <unk> with a kick .",
    "five people in winter jackets and with helmets are standing in the snow .",
    "people are people of a house .",
    "",
]
WORSE = [
    "a man with a hat .",
    "a dog is running in the grass .",
    "a girl in a <unk> is doing a trick .",
    "a group of people are standing in the snow .",
    "people are working on a roof .",
    "it is it is it is .",
]


def text_of(words: str) -> str:
    """Detokenize roughly, enough to tell words from text."""
    return words.replace(" .", ".").replace(" '", "'").capitalize()


def prepare(folder: Path, times: int = 1) -> Path:
    """Write the files of a prepared folder that scoring needs."""
    folder.mkdir(parents=True)
    rows = list(zip(SOURCES, TARGETS, strict=True)) * times
    write(folder / "test.tsv", ["\t".join(row) for row in rows])
    write(folder / "test.target.txt", REFERENCES * times)
    summary = {"task": "translation", "languages": {"source": "de", "target": "en"}}
    write_summary(folder, summary)

    return folder


def shorten(folder: Path, rows: int, *names: str) -> None:
    """Keep the first rows of files of a prepared folder, as if no more had been prepared."""
    for name in names:
        write(folder / name, (folder / name).read_text(encoding="utf-8").splitlines()[:rows])
    write_summary(folder, Prepared(folder).summary)


def predict(path: Path, outputs: Sequence[str], times: int = 1) -> Path:
    """Write a file of predictions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["source\ttarget\tpredicted\tlog_prob\ttext"]
    for source, target, output in list(zip(SOURCES, TARGETS, outputs, strict=True)) * times:
        lines.append("\t".join([source, target, output, "-1.5", text_of(output)]))

    return write(path, lines)


def analyze(path: Path, rows: int, links: Sequence[list[tuple[int, int]]] | None = None) -> Path:
    """Write an analysis whose likelihoods are simple numbers."""
    numbers = [float(row + 1) for row in range(rows)]
    analysis = Analysis(
        task="t",
        model="soft",
        label="Soft",
        seed=1,
        split="test",
        sentences=Sentences(
            nll=numbers,
            nll_exact=[number / 2 for number in numbers],
            tokens=[4] * rows,
            correct=[3] * rows,
            source_words=[3] * rows,
            coverage=[0.5] * rows,
            covered=[0.5] * rows,
            links=list(links or [[]] * rows),
            links_prior=[[(0, 0)]] * rows,
        ),
        entropy=Entropy(mean=2.0, count=[1] * 16, correct=[0] * 16),
        coverage=Coverage(words=[1] * 20, sentences=[1] * 20),
        wall_s=1.0,
        cpu_s=1.0,
        gpu_s=0.0,
    )
    save(analysis, path)

    return path


def write(path: Path, lines: Iterable[str]) -> Path:
    """Write lines of text to a file."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
