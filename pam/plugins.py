"""Parts found by name: the modules of a package are the answers to one question.

A new answer is a new file; nothing lists them. Configuration writes `two-words` for the module
`two_words`.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from pam.io import unknown


def names(package: str) -> list[str]:
    """Names of all modules of a package, as configuration writes them."""
    folders = importlib.import_module(package).__path__
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(folders))


def module_of(package: str, what: str, name: str) -> str:
    """Dotted name of the module of this name.

    Args:
        package: dotted name of the package.
        what: what its modules are, for the message.
        name: as configuration writes it.

    Raises:
        UserError: there is none; names the closest.
    """
    known = names(package)
    if name.replace("_", "-") not in known:
        raise unknown(what, name, known)
    return f"{package}.{name.replace('-', '_')}"


def load(package: str, what: str, name: str) -> ModuleType:
    """The module of this name; arguments and errors are those of `module_of`."""
    return importlib.import_module(module_of(package, what, name))
