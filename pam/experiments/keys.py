"""Types of the keys that many sections have: names, texts, seeds and plugins.

Every key, its type and its default are stated in one class, in `pam.experiments.settings`, `model`
and `experiment`. The JSON schemas in `workflow/schemas/` are generated from these classes, and
every file is read through them, so a misspelt key is a UserError.
"""

from __future__ import annotations

import importlib
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from pam.experiments.parsing import refused
from pam.runtime.errors import UserError

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

# Names are those of folders too: they hold nothing that a shell or a path would read otherwise.
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
Name = Annotated[str, Field(pattern=NAME)]
# Words for people, on one line.
Text = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$")]
LARGEST_SEED = 2**63 - 1
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]


def key(default: Any, description: str, **bounds: Any) -> Any:
    """Declare a key that need not be written."""
    return Field(default, description=description, **bounds)


def import_plugin(module: str) -> None:
    """Import a module, which registers its kinds; a UserError says that it cannot be imported."""
    try:
        importlib.import_module(module)
    except UserError:
        raise
    except ModuleNotFoundError as error:
        hint = f"install the package of `{error.name}`, or put its folder on PYTHONPATH"
        raise UserError(f"no module `{error.name}`", hint=hint) from error
    # A module of somebody's own may raise anything.
    except Exception as error:
        message = f"`{module}` cannot be imported: {type(error).__name__}: {error}"
        hint = f"`python -c 'import {module}'` shows where"
        raise UserError(message, hint=hint) from error


def _import_plugins(modules: list[str]) -> list[str]:
    """Import modules, which register their kinds, and return their names."""
    for module in modules:
        try:
            import_plugin(module)
        except UserError as error:
            raise refused(error, module) from error
    return modules


ModuleName = Annotated[
    str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$", max_length=200)
]
Plugins = Annotated[list[ModuleName], AfterValidator(_import_plugins)]
"""Modules that are imported as they are read: what is read after them may use their kinds."""
