"""docs/configurations.md says of each configuration of a paper's size what its file says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pam.experiments.loading import load_plan
from pam.experiments.yaml import read_yaml

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/configurations.md").read_text(encoding="utf-8")
SIZED = ("paper", "acvi", "summaries-paper", "captions-paper", "variational", "ablation")


def rows_of(name: str) -> list[list[str]]:
    """Return the cells of a configuration's table."""
    section = PAGE.split(f"\n## `{name}`\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]

    return [
        [cell.strip() for cell in re.split(r" \| | \|$", line.removeprefix("| "))] for line in lines
    ]


def value_of(content: Any, path: str) -> Any:
    """Return the value at a dotted path, or None."""
    for key in path.split("."):
        if isinstance(content, list):
            variants = [item for item in content if isinstance(item, Mapping)]
            content = {name: changes for item in variants for name, changes in item.items()}
        content = content.get(key) if isinstance(content, Mapping) else None
    return content


@pytest.mark.parametrize("name", SIZED)
def test_the_table_says_what_the_configuration_has(name: str) -> None:
    configured = load_plan(files=[ROOT / f"config/{name}.yaml"]).experiment.model_dump()
    configured["datasets"] = read_yaml(ROOT / "config/datasets.yaml")
    rows = rows_of(name)

    assert len(rows) > 10
    for key, source, ours, *_ in rows:
        assert source
        assert value_of(configured, key.strip("`")) == yaml.safe_load(ours.strip("`")), key
