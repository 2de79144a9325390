"""What a piece of work depends on in this package's source, as one short hash.

The workflow gives each rule the fingerprint of the modules that its command uses, so that a
changed module runs again what it computed and nothing else. Comments, docstrings and layout do
not count, since they change no result.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from pam.config import ModelConfig, kind_of

PACKAGE = Path(__file__).parent
"""The folder of `pam`; every dotted name here starts with its name."""

IGNORED_MODULES = frozenset(
    {
        "pam",
        "pam.answers",
        "pam.config",
        "pam.io",
        "pam.plugins",
        "pam.data.download",
        "pam.data.registry",
    }
)
"""Modules that carry values, messages and bytes but decide no result.

What the configuration decides reaches a rule as its parameters, and what is downloaded is held to
its hash, so a new key, a better message or another way to retry runs nothing again.
"""

QUESTIONS = tuple(
    name for name in ModelConfig.model_fields if (PACKAGE / "models" / f"{name}s").is_dir()
)
"""The questions whose answers are components: `coupling` is answered in `pam.models.couplings`."""


def fingerprint(*entries: str) -> str:
    """Hash of the code of `entries` and of all that they import within the package.

    Args:
        entries: dotted names of modules, such as `pam.commands.train`.

    Raises:
        ModuleNotFoundError: an entry does not exist.
    """
    digest = hashlib.sha256()
    for module in closure(entries):
        digest.update(f"{module}\n{_code(file_of(module))}\n".encode())
    return digest.hexdigest()[:16]


def closure(entries: Iterable[str]) -> list[str]:
    """The modules that `entries` import, directly or not, themselves included, sorted.

    Imports are followed wherever they stand, inside functions too. Components count only for the
    models that choose them, so they are entries (`model_modules`) or imported by other components:
    shared code that names a component's class, to pick a faster path for it, does not depend on it.
    """
    found: set[str] = set()
    waiting = list(entries)
    while waiting:
        module = waiting.pop()
        if module in found or module in IGNORED_MODULES:
            continue
        found.add(module)
        imports = _imports(module)
        if not _is_component(module):
            imports = frozenset(name for name in imports if not _is_component(name))
        waiting.extend(imports)
    return sorted(found)


def _is_component(module: str) -> bool:
    parts = module.split(".")
    return len(parts) == 4 and parts[1] in ("models", "fast") and parts[2][:-1] in QUESTIONS


def model_modules(components: ModelConfig) -> list[str]:
    """The modules that hold a model's components, which are imported by computed names.

    The answer `monotone` to the question `coupling` is `pam.models.couplings.monotone`, and where
    `pam.fast` mirrors it, `pam.fast.couplings.monotone` too.
    """
    modules = []
    for question in QUESTIONS:
        kind, options = kind_of(getattr(components, question))
        for member in options.get("members") or () if question == "architecture" else ():
            modules += model_modules(ModelConfig(**member["components"]))
        for room in ("models", "fast"):
            module = f"pam.{room}.{question}s.{kind.replace('-', '_')}"
            if exists(module):
                modules.append(module)
    return modules


def exists(module: str) -> bool:
    """Whether the package has a module (or package) of this dotted name."""
    return _find(module) is not None


def _find(module: str) -> Path | None:
    parts = module.split(".")
    if parts[0] != PACKAGE.name or not all(part.isidentifier() for part in parts):
        return None
    path = PACKAGE.joinpath(*parts[1:])
    for file in (path.with_suffix(".py") if len(parts) > 1 else path, path / "__init__.py"):
        if file.is_file():
            return file
    return None


def file_of(module: str) -> Path:
    """The file of a module of this package.

    Raises:
        ModuleNotFoundError: it does not exist.
    """
    file = _find(module)
    if file is None:
        raise ModuleNotFoundError(f"no module {module} in {PACKAGE}", name=module)
    return file


@cache
def tree(file: Path) -> ast.Module:
    """A module's code, parsed once."""
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


@cache
def _imports(module: str) -> frozenset[str]:
    """Modules of the package that `module` imports, with the packages around them."""
    file = file_of(module)
    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    named = {module}
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            named.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = package[: len(package) + 1 - node.level] if node.level else []
            origin = ".".join([*around, *(node.module.split(".") if node.module else [])])
            named.add(origin)
            named.update(f"{origin}.{alias.name}" for alias in node.names)
    inside = {name for name in named if exists(name)}
    # Importing a.b.c runs a/__init__.py and a/b/__init__.py as well.
    parents = {name[:place] for name in inside for place, sign in enumerate(name) if sign == "."}
    return frozenset(inside | parents)


@cache
def _code(file: Path) -> str:
    """The code of a module in one canonical layout, without comments and docstrings."""
    parsed = tree(file)
    for node in ast.walk(parsed):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            code = [line for line in body if not _is_text(line)]
            node.body = code or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(parsed)


def _is_text(line: ast.AST) -> bool:
    return (
        isinstance(line, ast.Expr)
        and isinstance(line.value, ast.Constant)
        and isinstance(line.value.value, str)
    )
