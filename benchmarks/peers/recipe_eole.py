"""eole by its own command line: vocabularies, training with early stopping, beam search."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from recipe_runs import Run

from pam.runtime.files import write_text

COMMAND = ("-m", "eole.bin.main")
BEAM = 4


def train(run: Run) -> dict[str, Any]:
    """Train on the words of prepared data; return what `training.json` holds."""
    for split in ("train", "dev", "test"):
        rows = run.data.rows(split)[:]
        write_text(run.folder / f"{split}.src", "".join(f"{row[0]}\n" for row in rows))
        write_text(run.folder / f"{split}.tgt", "".join(f"{row[1]}\n" for row in rows))

    config = run.folder / "config.yaml"
    write_text(config, yaml.safe_dump(_configuration(run)))
    costs = [
        run.call(*COMMAND, "build_vocab", "--config", config, "--n_sample", "-1"),
        run.call(*COMMAND, "train", "--config", config),
    ]
    log = run.log.read_text(encoding="utf-8")
    parameters = re.findall(r"number of parameters: (\d+)", log)[-1]
    return run.training_record(*costs, parameters=int(parameters), **_steps(run))


def predict(run: Run, path: Path) -> dict[str, Any]:
    """Write predictions for the test split; return what `decoding.json` holds."""
    outputs = run.folder / "outputs.txt"
    files = ("--src", run.folder / "test.src", "--output", outputs)
    # It keeps several states, and would take the last one.
    best = run.folder / "model" / f"step_{_steps(run)['best_step']}"
    model = ("--model_path", best, "--beam_size", str(BEAM))
    cost = run.call(*COMMAND, "predict", *model, *files)
    run.write_predictions(outputs, path)
    return {**cost, "beam": BEAM}


def _steps(run: Run) -> dict[str, int]:
    """Return the last step, and the step with the lowest perplexity of the development split."""
    log = run.log.read_text(encoding="utf-8")
    saved = [int(step) for step in re.findall(r"optimizer and weights to step_(\d+)", log)]
    perplexities = [float(number) for number in re.findall(r"Validation perplexity: (\S+)", log)]

    # It saves after each validation.
    best = min(range(len(perplexities)), key=perplexities.__getitem__)
    return {"steps": saved[-1], "best_step": saved[best]}


def _configuration(run: Run) -> dict[str, Any]:
    """Return the recipe with the files of this run."""
    recipe = run.options
    folder = run.folder

    def pair(split: str) -> dict[str, str]:
        return {"path_src": str(folder / f"{split}.src"), "path_tgt": str(folder / f"{split}.tgt")}

    recipe["training"]["model_path"] = str(folder / "model")
    return recipe | {
        "seed": run.seed,
        "save_data": str(folder / "vocabularies"),
        "overwrite": True,
        "src_vocab": str(folder / "vocab.src"),
        "tgt_vocab": str(folder / "vocab.tgt"),
        "report_every": 50,
        "data": {"corpus": pair("train"), "valid": pair("dev")},
    }
