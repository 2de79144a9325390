"""Configurations that nobody meant: refused with a hint, or run as they say."""

from __future__ import annotations

import datetime
import math
import random
import shutil
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import strategies as st

from pam.commands.data import overrides
from pam.data.dataset import SPLITS
from pam.data.registry import load_registries
from pam.experiments.check import check_datasets
from pam.experiments.loading import load_plan
from pam.experiments.parsing import dump_yaml
from pam.experiments.run_config import RunConfig, load_run
from pam.models.build import build
from pam.models.fitting import check_fit
from pam.runtime.devices import enough_for
from tests.conftest import Recorder
from tests.faults.cases import numbered
from tests.faults.damage import DAMAGES
from tests.faults.fuzz import changed, fuzz, paths, replaced, texts
from tests.faults.outcomes import outcome
from tests.training import small
from tests.workflow.checkouts import PAIRS, REGISTRY, ROOT

CASES = 15
"""Cases of a block."""

EXPERIMENT = {
    "plugins": [],
    "experiment": "tiny",
    "title": "Made up",
    "seeds": [1, 2],
    "baseline": "soft",
    "models": ["soft", "postr-joint", "variational", "soft-pointer-coverage"],
    "tasks": {
        "nouns": {"dataset": "small", "label": "Nouns", "network": {"decoder": 6}},
        "pairs": {
            "dataset": "pairs",
            "word_alignments": "links",
            "models": ["soft"],
            "format": {"subwords": {"merges": 5}, "vocabulary": {"size": {"xx": 9}}},
            "training": {"select": "loss"},
            "decoding": {"beams": [1, 2]},
            "resources": {"threads": 2},
            "options": {"marginalization": {"output": {"top_k": 2}}},
        },
        "far": {
            "dataset": "pairs-test",
            "trained_on": "pairs",
            "models": ["soft"],
            "format": {"subwords": {"merges": 5}, "vocabulary": {"size": {"xx": 9}}},
        },
        "clips": {
            "dataset": "clips",
            "models": ["soft"],
            "format": {
                "frames": {"first": 9, "spaced": 3},
                "clips": {"train": 3, "dev": 1, "test": 2},
            },
        },
        "news": {
            "dataset": "news",
            "models": ["soft-pointer-coverage"],
            "format": {"truncate": {"source": 9, "target": 5}},
            "training": {"phases": [{"until": 5, "source": 4, "target": 3}, {"source": 9}]},
            "options": {
                "score": {"coverage": {"active": {"kind": "delayed", "value": 1, "after": 0.9}}}
            },
        },
    },
    "network": {"embedding": 4, "encoder": 3, "decoder": 5, "dropout": 0.1, "initial_range": 0.1},
    "training": {"epochs": 1, "batch_size": 8, "learning_rate": 0.01, "clip": 1.0},
    "decoding": {"beam": 2, "length_penalty": 0.5, "max_ratio": 2.0},
    "registries": ["own/small.yaml", "own/pairs.yaml", "own/later.yaml"],
    "device": "cpu",
    "resources": {"threads": 1, "mem_mb": 500, "runtime": 9},
    "options": {
        "marginalization": {"output": {"top_k": 3}},
        "input_feeding": {"posterior": {"mix": 0.5}},
    },
}
LATER: dict[str, Any] = {
    "pairs-test": {
        "task": "translation",
        "files": {"far.xx": {"path": "far.xx"}, "far.yy": {"path": "far.yy"}},
        "splits": {"test": {"xx": "far.xx", "yy": "far.yy"}},
        "format": {"source": "xx", "target": "yy", "tokenize": "none"},
    },
    "clips": {
        "task": "captioning",
        "files": {
            "captions.json": {"path": "captions.json"},
            "features.h5": {"path": "features.h5"},
        },
        "splits": {"all": {"captions": "captions.json", "features": "features.h5"}},
        "format": {
            "clips": {"train": 3, "dev": 1, "test": 2},
            "frames": {"first": 9, "spaced": 3},
            "unmatched": "drop",
            "vocabulary": {"size": 9, "min_count": 1},
        },
    },
    "news": {
        "task": "summarization",
        "files": {"news.jsonl": {"path": "news.jsonl"}},
        "splits": dict.fromkeys(SPLITS, "news.jsonl"),
        "format": {
            "read": {
                "kind": "jsonl",
                "only": {"train": {"year": "201[0-8]"}, "dev": {"year": "2019"}},
            },
            "source": "text",
            "target": "title",
            "tokenize": "none",
            "sentences": "tags",
            "truncate": {"source": 9, "target": 5},
            "sample": {"train": 3, "seed": 1},
        },
    },
}
STARTED = {
    "label": "Started",
    "init_from": "structural",
    "score": {"kind": "structural"},
    "distribution": {"kind": "softmax"},
    "copying": {"kind": "pointer"},
    "training": {"phases": [{"until": 5, "source": 4, "target": 3}, {"source": 9}], "average": 2},
}
MODEL = {
    "label": "Odd",
    "source": "nowhere",
    "members": [],
    "architecture": "recurrent",
    "score": {"kind": "structural", "units": 3, "markov": 1, "global_fertility": 0.1},
    "window": {"kind": "predictive", "width": 2},
    "distribution": {"kind": "fusedmax", "weight": 0.1},
    "coupling": {"kind": "proximity", "width": 2, "first": "free"},
    "latent": {"kind": "acvi", "samples": 2, "temperature": 0.5, "last": 0.1, "weight": 1.0},
    "marginalization": {"kind": "output", "top_k": 3},
    "input_feeding": {"kind": "posterior", "mix": 0.5, "gradient": True},
    "inference": "none",
    "estimator": "exact",
    "targets": "symbols",
    "network": {"embedding": 4, "encoder": 3, "decoder": 5},
    "training": {"epochs": 2},
}
REGISTRIES = {
    **yaml.safe_load(REGISTRY),
    **yaml.safe_load(PAIRS),
    **LATER,
    "fetched": {
        "task": "inflection",
        "mirror_name": "nouns",
        "obtain": "by hand",
        "files": {
            "train.tsv": {"urls": ["https://example.org/a.zip#t"], "sha256": "0" * 64, "bytes": 9},
            "dev.tsv": {"urls": ["https://example.org/d"], "md5": "0" * 32, "hash_from": "a copy"},
            "test.tsv": {},
        },
        "format": {"columns": ["lemma", "form", "features"], "separator": ";"},
    },
    "drawn": {
        "task": "inflection",
        "package": {"name": "german-nouns", "version": "1.2.5", "options": {"seed": 1, "dev": 2}},
        "files": {"train.tsv": {}, "dev.tsv": {}, "test.tsv": {}},
    },
}
RUN = small.run("prox-postr-joint").model_dump()
COVERED = small.run(
    "soft-pointer-coverage", phases=[{"until": 5, "source": 4, "target": 3}, {"source": 9}]
).model_dump()
FORMAT = {
    "read": {"kind": "columns", "columns": {"xx": 0, "yy": 1}, "divide": {"dev": 1, "test": 1}},
    "tokenize": {"xx": "moses"},
    "max_ratio": 1.5,
    "subwords": {"merges": 5, "joint": True},
    "vocabulary": {"size": {"xx": 9}, "min_count": 1},
}
VALUES = (
    *(None, True, 0, -1, 1, 2**31, 2**63, 2**64, 10**30, 0.0, 1e-320, 1e308),
    *(math.inf, -math.inf, math.nan, [], {}, "", "\x00", "\u2028", "../x", "$(touch x)", "{task}"),
    *("a b", "soft\n", "é" * 3000, [1], ["a", "a"], {"kind": "none"}, {"a": 1}, b"x"),
    datetime.date(2018, 5, 1),
)
BLOCKS = 120
"""Blocks into which all keys with all odd values are divided."""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the working folder: models and registries as in the repository."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    (tmp_path / "own").mkdir()
    (tmp_path / "own/small.yaml").write_text(REGISTRY, encoding="utf-8")
    (tmp_path / "own/pairs.yaml").write_text(PAIRS, encoding="utf-8")
    (tmp_path / "own/later.yaml").write_bytes(dumped(LATER))
    monkeypatch.chdir(tmp_path)

    return tmp_path


def dumped(document: Any) -> bytes:
    return yaml.safe_dump(document, allow_unicode=True, sort_keys=False).encode()


@st.composite
def garbled(draw: st.DrawFn, document: Any) -> bytes:
    """Draw the text of a document with damaged bytes, or marks of YAML where none belong."""
    content = dumped(document)
    if draw(st.booleans()):
        return draw(st.sampled_from(DAMAGES))(content, random.Random(draw(st.integers(0, 10**6))))

    marks = ["&a ", "*a", "!!python/name:os.system ", "!!timestamp x", "!!int x", "!!set ", "<<: "]
    marks += ["[" * 2000, "{", "- ", "? ", "|\n", "---\n", "%YAML 3.0\n", "\t", "\x00", "\ufeff"]
    position = draw(st.integers(0, len(content)))
    mark = draw(st.sampled_from(marks) | texts)

    return content[:position] + mark.encode("utf-8", "surrogatepass") + content[position:]


def written(document: Any) -> st.SearchStrategy[bytes]:
    """Draw files that hold a changed document, or a garbled one."""
    whole = changed(document).map(dumped)
    return st.one_of(whole, whole, whole, garbled(document))


def run_experiment(file: Path) -> None:
    """Do what Snakemake does before the first job, and each training before its first step."""
    plan = load_plan(files=[file])
    datasets = load_registries(plan.experiment.registries)
    check_datasets(plan, datasets)

    for task in plan.experiment.tasks:
        plan.beams(task)
        for model in plan.experiment.models_of(task):
            plan.resources(task, model)
            for seed in plan.experiment.seeds:
                run_run(plan.run(task, model, seed))


def run_run(run: RunConfig) -> None:
    """Check that a run is the same when it is read again, and that its model can be made."""
    Path("run.yaml").write_text(dump_yaml(run), encoding="utf-8")
    assert load_run("run.yaml") == run

    with enough_for("making the network", "lower the sizes in `network`"):
        check_fit(run.components, run.network)
        build(run.components, run.network, 9, 9)


def run_model(file: Path) -> None:
    """Run an experiment with a model of one's own."""
    file.rename("config/models/odd.yaml")
    changes = {"models": ["odd"], "baseline": "odd", "tasks": {"nouns": {"dataset": "small"}}}
    Path("experiment.yaml").write_bytes(dumped(EXPERIMENT | changes))
    run_experiment(Path("experiment.yaml"))


def read_registry(file: Path) -> None:
    for dataset in load_registries([file]).values():
        assert dataset.layout is not None


def read_format(file: Path) -> None:
    """Read keys that are given with `pam prepare --format`."""
    text = file.read_bytes().decode("utf-8", "replace")
    overrides(text, load_registries(["own/pairs.yaml"])["pairs"])


CONFIGURATIONS: dict[str, tuple[Any, Callable[[Path], None]]] = {
    "an experiment": (EXPERIMENT, run_experiment),
    "a model": (MODEL, run_model),
    "a registry": (REGISTRIES, read_registry),
    "a model that starts from another": (STARTED, run_model),
    "a run": (RUN, lambda file: run_run(load_run(file))),
    "a run with copying, coverage and phases": (COVERED, lambda file: run_run(load_run(file))),
    "a format on the command line": (FORMAT, read_format),
}


def check_with(use: Callable[[Path], None]) -> Callable[[bytes], None]:
    """Return a function that writes a file of some content and uses it."""

    def check(content: bytes) -> None:
        Path("odd.yaml").write_bytes(content)
        use(Path("odd.yaml"))

    return check


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_what_is_changed_below_can_be_run_unchanged(kind: str, room: Path) -> None:
    document, use = CONFIGURATIONS[kind]
    check_with(use)(dumped(document))


@pytest.mark.parametrize("block", numbered(120, sample=1))
@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_a_configuration_is_refused_with_a_hint_or_can_be_run(
    kind: str, block: int, room: Path, record: Recorder
) -> None:
    document, use = CONFIGURATIONS[kind]
    fuzz(block, CASES, written(document), check_with(use))

    record(
        fault=f"{kind} that nobody meant",
        showed="refused with a hint before any work, or it can be run",
        tried=CASES,
    )


@pytest.mark.parametrize("block", numbered(BLOCKS, sample=1))
@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_each_key_with_each_odd_value_is_refused_or_can_be_run(
    kind: str, block: int, room: Path, record: Recorder
) -> None:
    document, use = CONFIGURATIONS[kind]
    cases = list(product(paths(document), VALUES))[block::BLOCKS]
    for path, value in cases:
        content = dumped(replaced(document, path, value))
        outcome(partial(check_with(use), content), f"{path}: {value!r}")

    record(
        fault=f"each key of {kind} with each odd value",
        showed="refused with a hint before any work, or it can be run",
        tried=len(cases),
    )
