"""Every command explains itself, without waiting for torch."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

import pam
from pam import cli
from pam.reporting.catalogue import DRAWINGS
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
        assert f"usage: pam {name} [-h]" in done.stdout

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
        "data check run fetch prepare word-alignments train ensemble reuse length-penalty predict"
    )
    assert list(cli.COMMANDS)[:11] == first_commands.split()


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
    assert "usage: pam" in capsys.readouterr().err


def words_of(example: str) -> list[str]:
    """Return the words of a call of `pam`, in whatever line of a shell it stands."""
    words = shlex.split(example)
    words = words[words.index("pam") + 1 :]
    return words[: words.index(">")] if ">" in words else words


def test_every_command_has_examples_which_its_parser_takes() -> None:
    for name, command in cli.COMMANDS.items():
        assert command.examples, name
        for example in command.examples:
            assert cli.parser().parse_args(words_of(example)).command == name


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["trian"], "`train`"),
        (["predict", "--beem", "3"], "`--beam`"),
        (["predict", "--split", "tset"], "`test`"),
        (["figures", "gain"], "`gains`"),
        (["figures", "gains", "--experimnet", "x"], "`--experiment`"),
        (["train", "--dataa", "x"], "`--data`"),
    ],
)
def test_a_misspelt_word_is_answered_by_the_closest(
    arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = cli.main(arguments)
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


def test_the_version_and_the_kinds_of_figures_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"pam {pam.__version__}\n"

    assert cli.main(["figures"]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == list(
        DRAWINGS
    )


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_completes_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in cli.COMMANDS)
    assert "--length-penalty" in script


def test_run_keeps_the_words_for_snakemake_in_their_order() -> None:
    words = ["data", "--cores", "2", "-n", "--configfile", "mine.yaml", "--", "tables"]
    assert cli.parser().parse_args(["run", *words]).words == words
