"""What a piece of work depends on in the source, as one short hash.

The workflow gives each rule the fingerprint of the code that its command uses, so that a change
runs again what it computed and nothing else. Comments, docstrings and layout do not count, since
they change no result. A module counts as a whole, with all that it imports, but for the modules of
`choices`, and those of which an entry names one definition. Of these only the definitions count
that are named elsewhere, and what those name in turn: a changed
coupling is no change of another one in the same file.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec, resolve_name
from pathlib import Path

from pam.config import RunConfig
from pam.io import UserError, write_json
from pam.models.options import COMPONENTS, PARTS
from pam.reporting.catalogue import FIGURE_CODE

PACKAGE = Path(__file__).parent

# Modules that hold what a configuration of data and evaluation chooses from, and the dictionaries
# by which it is chosen. To name such a dictionary is to depend on nothing that it lists: what is
# chosen is an
# entry.
TABLES: dict[str, set[str]] = {
    "pam.data.captioning": set(),
    "pam.data.dataset": set(),
    "pam.data.generated": {"GENERATORS"},
    "pam.data.inflection": set(),
    "pam.data.prepare": set(),
    "pam.data.readers": {"READERS"},
    "pam.data.summarization": set(),
    "pam.data.text_files": set(),
    "pam.data.tokenizers": {"TOKENIZERS", "CODECS"},
    "pam.data.translation": set(),
    "pam.decoding.generator": set(),
    "pam.decoding.search": set(),
    "pam.evaluation.scores": {"KINDS", "CONTROLS"},
    "pam.reporting.figures": {"KINDS"},
}

# Modules that carry values, messages and bytes but decide no result: what the configuration decides
# reaches a rule as its parameters, what is downloaded is checked against its hash.
IGNORED_MODULES = {
    "pam",
    "pam.config",
    "pam.data.download",
    "pam.data.registry",
    "pam.experiment",
    "pam.fingerprint",
    "pam.io",
    "pam.jobs",
    "pam.models.fitting",
    "pam.models.options",
    "pam.run_folder",
}

CODE = {  # command to the modules that decide what it makes; a change of one runs its jobs again
    "prepare": ("pam.data.prepare:prepare",),
    "word-alignments": ("pam.data.word_alignments:prepare_word_alignments",),
    "train": ("pam.training.run:train",),
    "ensemble": ("pam.training.run:join",),
    "reuse": ("pam.training.run:reuse",),
    "length-penalty": ("pam.evaluation.length_penalty:choose",),
    "predict": ("pam.decoding.generator:predict_split", "pam.decoding.generator:sampling_of"),
    "attention": (
        "pam.evaluation.analyze:heat_maps",
        "pam.evaluation.analyze:load_writer_of_symbols",
    ),
    "analyze": ("pam.evaluation.analyze:analyze", "pam.evaluation.analyze:load_writer_of_symbols"),
    "score": ("pam.evaluation.scores:score", "pam.evaluation.scores:files_of"),
    "control": ("pam.evaluation.scores:score_control",),
    "significance": ("pam.evaluation.translation:compare_runs",),
    "tables": ("pam.reporting.tables", "pam.reporting.render"),
    "figures": ("pam.reporting.style",),
    "report": ("pam.reporting.data_and_cost:datasets",),
    "page": ("pam.reporting.page",),
}
SCORED = {
    "inflection": "pam.evaluation.inflection",
    "translation": "pam.evaluation.translation",
    "alignment": "pam.evaluation.alignment",
    "summarization": "pam.evaluation.summarization",
    "captioning": "pam.evaluation.captioning",
}
# modules that only some jobs of a command use
KINDS = {"score": SCORED, "control": SCORED, "figures": FIGURE_CODE}
# in place of a name: all of a module, or no more than what importing it runs
EVERYTHING, NOTHING = ("*", "")
Need = tuple[str, str]  # a module, and the name in it that is needed


@cache
def choices() -> dict[str, set[str]]:
    """Modules of which only what is chosen counts, and their dictionaries of choices.

    Those of models are where the registry says that kinds of components are computed: an entry
    names one class there, `pam.models.scores:Dot`. A package of one's own counts as a whole.
    """
    implementations = {
        options.implementation for kinds in COMPONENTS.values() for options in kinds.values()
    }
    modules = {implementation.partition(":")[0] for implementation in implementations}
    return TABLES | {module: set() for module in modules if module.startswith(f"{PACKAGE.name}.")}


@cache
def fingerprint(*entries: str) -> str:
    """Hash of the code of `entries` and of all that they reach: modules, or `module:name` for a
    definition of one.

    A ModuleNotFoundError says if there is no such module, or it defines no such name.
    """
    # What a plugin's entry reaches is in no file of this package.
    kept = _kept() if all(entry.startswith(f"{PACKAGE.name}.") for entry in entries) else None
    key = " ".join(entries)
    if kept is not None and key in kept.values:
        return kept.values[key]
    digest = hashlib.sha256()
    for module, code in sorted(_reach(entries).items()):
        digest.update(f"{module}\n{code}\n".encode())
    result = digest.hexdigest()[:16]
    if kept is not None:
        kept.add(key, result)
    return result


@dataclass
class _Kept:
    """Fingerprints that another process has computed from the same files, beside their bytecode.

    To compute those of an experiment takes longer than all else that Snakemake does before its
    first job.
    """

    file: Path
    sources: str
    values: dict[str, str]

    def add(self, key: str, value: str) -> None:
        """Keep one more, where bytecode is kept too."""
        self.values[key] = value
        if not sys.dont_write_bytecode:
            with suppress(UserError, OSError):
                write_json(self.file, {"sources": self.sources, "values": self.values})


@cache
def _kept() -> _Kept:
    """The fingerprints that are kept of the package as it is now."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.yaml")]):
        digest.update(f"{path.relative_to(PACKAGE)}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    sources = digest.hexdigest()
    file = PACKAGE / "__pycache__" / "fingerprints.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["sources"] == sources:
            return _Kept(file, sources, dict(content["values"]))
    return _Kept(file, sources, {})


def closure(entries: Iterable[str]) -> list[str]:
    """The modules that `entries` reach, themselves included, sorted."""
    return sorted(_reach(tuple(entries)))


def model_modules(run: RunConfig) -> list[str]:
    """Entries for a run's components: the classes that compute the kinds it chose."""
    entries = []
    for components in [one.components for one in run.members] or [run.components]:
        used = ["architecture", *(PARTS if components.architecture.has_components else ())]
        entries += [getattr(components, component).implementation for component in used]
    return ["pam.models.ensemble", *sorted(set(entries))] if run.members else entries


def _reach(entries: tuple[str, ...]) -> dict[str, str]:
    """The code that `entries` reach, by module.

    Imports are followed wherever they are, inside functions too.
    """
    reached: dict[str, set[str]] = {}
    waiting: list[Need] = []
    in_parts = set(choices())
    for entry in entries:
        module, _, name = entry.partition(":")
        if (
            name
            and name not in source_of(module).definitions.keys() | source_of(module).imports.keys()
        ):
            raise ModuleNotFoundError(f"no {name} in {module}", name=module)
        if name and module.startswith(f"{PACKAGE.name}."):
            in_parts.add(module)
        waiting += _with_parents(module, name or EVERYTHING)
    while waiting:
        module, name = waiting.pop()
        if module in IGNORED_MODULES:
            continue
        if module not in in_parts:
            name = EVERYTHING
        elif name in choices().get(module, ()):
            name = NOTHING
        names = reached.setdefault(module, set())
        if name not in names:
            names.add(name)
            waiting += source_of(module).needs(name)
    return {module: source_of(module).code(frozenset(names)) for module, names in reached.items()}


def _with_parents(module: str, name: str) -> list[Need]:
    """A name of a module. Importing a.b.c runs a/__init__.py and a/b/__init__.py as well."""
    parts = module.split(".")
    parents = [".".join(parts[:end]) for end in range(1, len(parts))]
    return [(module, name), *((parent, NOTHING) for parent in parents if exists(parent))]


class Source:
    """The code of one module, without docstrings, and what each of its definitions needs."""

    def __init__(self, module: str, file: Path) -> None:
        self.module = module
        self.package = module if file.name == "__init__.py" else module.rpartition(".")[0]
        self.tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
        table = file.with_suffix(".yaml")  # which the module reads: a part of it, as a whole
        self.table = table.read_text(encoding="utf-8") if table.is_file() else ""
        # Without texts such as docstrings; comments are not in the tree.
        for node in ast.walk(self.tree):
            if isinstance(body := getattr(node, "body", None), list):
                node.body = [one for one in body if not _is_text(one)] or [ast.Pass()]  # type: ignore[attr-defined]
        self._needs: dict[str, list[Need]] = {}
        self._codes: dict[frozenset[str], str] = {}

    @cached_property
    def definitions(self) -> dict[str, list[ast.stmt]]:
        """Name to the statements of the module that bind it; `NOTHING` to those that just run."""
        found: dict[str, list[ast.stmt]] = {NOTHING: []}
        for statement in self.tree.body:
            for name in _bound(statement):
                found.setdefault(name, []).append(statement)
        return found

    @cached_property
    def imports(self) -> dict[str, list[tuple[str, str, str]]]:
        """Local name to what it is imported as: by which path in the code, from where, what."""
        found: dict[str, list[tuple[str, str, str]]] = {}
        for node in ast.walk(self.tree):
            for path, module, name in self._imported(node):
                found.setdefault(path.partition(".")[0], []).append((path, module, name))
        return found

    def statements(self, name: str) -> list[ast.stmt]:
        """The statements that make `name`, and those that run whenever the module is imported."""
        if name != EVERYTHING:
            return self.definitions.get(name, []) + self.definitions[NOTHING]
        chosen = choices().get(self.module, set())
        return [one for one in self.tree.body if not chosen.intersection(_bound(one))]

    def needs(self, name: str) -> list[Need]:
        """What `name` needs, here and in other modules."""
        if name not in self._needs:
            found = set(self._of_statements(self.statements(name)))
            for path, module, origin in self.imports.get(name, ()):
                found.update(self._of_import(path, module, origin, {path}))
            if exists(f"{self.module}.{name}"):
                found.add((f"{self.module}.{name}", EVERYTHING))
            self._needs[name] = sorted(found)
        return self._needs[name]

    def code(self, names: frozenset[str]) -> str:
        """The statements that make `names`, in one layout."""
        if names not in self._codes:
            made = {id(one) for name in names for one in self.statements(name)}
            lines = [ast.unparse(one) for one in self.tree.body if id(one) in made]
            self._codes[names] = "\n".join(lines) + self.table
        return self._codes[names]

    def _of_statements(self, statements: list[ast.stmt]) -> Iterator[Need]:
        used = {path for statement in statements for path in _paths(statement)}
        for name in {path.partition(".")[0] for path in used}:
            if name in self.definitions:
                yield self.module, name
            for imported in self.imports.get(name, ()):
                yield from self._of_import(*imported, used)
        # An import that runs counts, be its name used or not.
        for statement in statements:
            for node in ast.walk(statement):
                for imported in self._imported(node):
                    yield from self._of_import(*imported, used)

    def _of_import(self, path: str, module: str, name: str, used: set[str]) -> Iterator[Need]:
        """What code that uses the dotted paths `used` needs of an import."""
        whole = f"{module}.{name}" if name else module
        if exists(whole):
            below = {
                own.removeprefix(f"{path}.").partition(".")[0]
                for own in used
                if own.startswith(f"{path}.")
            }
            for one in below | ({EVERYTHING} if path in used else set()) or {NOTHING}:
                yield from _with_parents(whole, one)
        elif name and exists(module):
            yield from _with_parents(module, name)

    def _imported(self, node: ast.AST) -> Iterator[tuple[str, str, str]]:
        """Imports of a node from its own package or this one: path in the code, module, name."""
        near = (PACKAGE.name, self.module.partition(".")[0])
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in near:
                    yield alias.asname or alias.name, alias.name, ""
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), self.package)
            if module.partition(".")[0] in near:
                for alias in node.names:
                    yield alias.asname or alias.name, module, alias.name


def _is_text(line: ast.AST) -> bool:
    return (
        isinstance(line, ast.Expr)
        and isinstance(line.value, ast.Constant)
        and isinstance(line.value.value, str)
    )


def _bound(statement: ast.stmt) -> list[str]:
    """The names that a statement of a module binds; `NOTHING` if it does something by itself."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    checked = isinstance(statement, ast.If) and ast.unparse(statement.test).endswith(
        "TYPE_CHECKING"
    )
    if checked or isinstance(statement, ast.Import | ast.ImportFrom):
        return []  # an import counts where its names are used
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    names = [
        node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
    ]
    plain = targets and all(isinstance(one, ast.Name | ast.Tuple) for one in targets)
    return names if plain else [NOTHING]


def _paths(node: ast.AST) -> Iterator[str]:
    """The dotted paths that code names: `a.b.c` once, not `a.b` and `a` as well."""
    origin: ast.AST = node
    below: list[str] = []
    while isinstance(origin, ast.Attribute):
        below = [origin.attr, *below]
        origin = origin.value
    if isinstance(origin, ast.Name):
        yield ".".join([origin.id, *below])
    else:
        for child in ast.iter_child_nodes(node):
            yield from _paths(child)


@cache
def source_of(module: str) -> Source:
    """The source of a module of this package, or of an entry's; none is a ModuleNotFoundError."""
    file = _find(module)
    if file is None:
        raise ModuleNotFoundError(f"no module {module}", name=module)
    return Source(module, file)


def exists(module: str) -> bool:
    """Whether there is a module (or package) of this dotted name, in Python."""
    return _find(module) is not None


@cache
def _find(module: str) -> Path | None:
    """A module's file. Nothing is imported to find it."""
    top, *parts = module.split(".")
    root: Path | None = PACKAGE
    if top != PACKAGE.name:
        # The folder of a package of somebody's own, or the file of a single module.
        spec = find_spec(top) if top.isidentifier() else None
        places = [*(spec.submodule_search_locations or ()), spec.origin or ""] if spec else [""]
        root = Path(places[0]) if places[0].endswith(".py") or len(places) > 1 else None
    if root is None or not all(part.isidentifier() for part in parts):
        return None
    if root.is_file():
        return None if parts else root
    path = root.joinpath(*parts)
    files = [path / "__init__.py", *([path.with_suffix(".py")] if parts else [])]
    return next(filter(Path.is_file, files), None)
