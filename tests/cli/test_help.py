"""Every command explains itself, without waiting for torch."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pam import cli
from tests.training.small import ROOT

HELPS = """
import json, sys, time
from pam import cli
found = {}
for name in [None, *cli.COMMANDS]:
    try:
        cli.main(["--help"] if name is None else [name, "--help"])
    except SystemExit as end:
        found[name or ""] = end.code
heavy = {"torch", "pandas", "matplotlib", "numpy", "snakemake", "tensorboard"}
print(json.dumps([found, sorted(heavy & set(sys.modules))]), file=sys.stderr)
"""


def test_every_help_ends_well_and_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HELPS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    codes, heavy = json.loads(done.stderr)

    assert codes == dict.fromkeys(["", *cli.COMMANDS], 0)
    assert heavy == []
    assert "(default: None)" not in done.stdout
    for name in cli.COMMANDS:
        assert f"usage: python -m pam {name} [-h]" in done.stdout

    for option in ("--run", "--beam", "--model", "--data", "--dataset"):
        assert option in done.stdout


def test_the_module_itself_can_be_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pam", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in ("fetch", "prepare", "train", "predict", "score", "bench"):
        assert f"    {name} " in done.stdout


def test_commands_are_listed_in_the_order_in_which_they_are_used() -> None:
    first_commands = (
        "data check fetch prepare word-alignments train ensemble reuse length-penalty predict"
    )
    assert list(cli.COMMANDS)[:10] == first_commands.split()


def test_every_command_is_explained() -> None:
    for action in cli.parser()._subparsers._group_actions:  # type: ignore[union-attr]
        for name, parser in action.choices.items():  # type: ignore[union-attr]
            assert parser.description, name


@pytest.mark.parametrize("arguments", [[], ["trian"], ["train"], ["predict", "--beam", "many"]])
def test_a_wrong_call_is_told_by_usage_and_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage: python -m pam" in capsys.readouterr().err
