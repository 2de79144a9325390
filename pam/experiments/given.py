"""What a user gives: configurations that are merged, and keys on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pam.runtime.errors import UserError

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

HOW_TO_GIVE = "write lists and sections as --config 'seeds=[1, 2]' 'training={epochs: 2}'"


class Given(str):
    """Keys and values that were given elsewhere than in a file, as with `--config`.

    It stands in place of the file's name; `content` has the keys and values.
    """

    content: dict[str, Any]

    @classmethod
    def of(cls, name: str, content: dict[str, Any]) -> Given:
        """Make one of this name."""
        values = cls(name)
        values.content = content
        return values


def merged(base: Any, over: Any) -> Any:
    """Return a configuration with what another one sets in its place, section by section."""
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    return base | {key: merged(base.get(key), value) for key, value in over.items()}


def check_configfiles(files: Sequence[str]) -> None:
    """Check that the words after `--configfile` are configurations.

    A UserError names one that looks like a target.
    """
    for file in files[1:]:
        if Path(file).suffix not in (".yaml", ".yml", ".json"):
            hint = (
                f"write targets before `--configfile`, or after two dashes: --configfile {files[0]}"
                f" -- {file}"
            )
            message = f"`{file}` stands after `--configfile` but is not a configuration"
            raise UserError(message, hint=hint)
