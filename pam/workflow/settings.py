"""The experiment that Snakemake was asked for: its configuration files and `--config`."""

from __future__ import annotations

from typing import Any

from pam.experiments.given import Given, merged
from pam.experiments.yaml import parse_yaml, read_yaml
from pam.runtime.errors import UserError
from pam.runtime.files import find_file
from pam.runtime.snakemake_internals import CommandLine, command_line

DEFAULT = "config/config.yaml"  # the experiment that is run unless another one is named


def read_config(workflow: Any, config: dict[str, Any]) -> list[str | Given]:
    """Fill Snakemake's `config` with the experiment, and return what it was merged from.

    That is files, then what `--config` gave. A file on the command line replaces the default
    experiment, with which Snakemake would merge it. A module of another workflow has what its
    `config:` gives; its `prefix:` is a UserError, as commands write where the experiment says.
    """
    line = command_line(workflow)
    if line.moves_files:
        hint = (
            "leave it out: the experiment's name is the folder below `results`, and `--directory`"
            " the one above"
        )
        raise UserError(
            "a module's `prefix` or `replace_prefix` cannot move the files of this workflow",
            hint=hint,
        )

    merged_from = list(line.module_configfiles)
    if not line.has_config:
        merged_from = _read_files(line, config)
    # A cluster's profile has the device among its resources: what it had under `config:` any
    # `--config` would replace.
    if line.device is not None:
        config.setdefault("device", line.device)
    return merged_from


def _read_files(line: CommandLine, config: dict[str, Any]) -> list[str | Given]:
    """Fill Snakemake's `config` by the files and `--config` of its command line."""
    files: list[str | Given] = [*line.configfiles]
    if not files:
        files = [str(find_file(DEFAULT))]

    # Snakemake has filled it from the same files, by another reading of YAML: a key `no` is false.
    config.clear()
    for file in files:
        content = read_yaml(file)
        if not isinstance(content, dict):
            raise UserError("expected keys and values", file=file, hint="see config/README.md")
        config.update(merged(config, content))

    overrides = Given.of("--config", _retyped(line.config))
    config.update(merged(config, overrides.content))
    return [*files, overrides]


def _retyped(value: Any) -> Any:
    """Return values of Snakemake's `--config` as YAML means them.

    Snakemake reads no numbers inside of `[1, 2]` and `{a: 1}`.
    """
    if isinstance(value, dict):
        return {key: _retyped(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_retyped(item) for item in value]

    if not isinstance(value, str):
        return value

    try:
        meant = parse_yaml(value, "--config")
    except UserError:
        return value
    return meant if isinstance(meant, bool | int | float | None) else value
