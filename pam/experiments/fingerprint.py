"""What a piece of work depends on in the source, as one short hash.

The workflow gives each rule the fingerprint of the code that its command uses, so that a change
runs again what it computed and nothing else. Comments, docstrings and layout do not count, since
they change no result. It begins with entries: the function of a command, the classes of a run's
components, the parts of a kind of task. Of each module the definitions count that these name, those
that they name in turn, and what an import of the module runs: a changed coupling is no change of
another one in the same file. Modules of somebody's own package count as a whole.

Two marks in the code itself say what does not count: a dictionary of the type `Choices` depends on
nothing that it lists, and a module with `DECIDES_NO_RESULT = True` carries values, messages and
bytes alone. What the configuration decides reaches a rule as its parameters.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec, resolve_name
from pathlib import Path

from pam.experiments.run_config import RunConfig
from pam.models.options import PARTS
from pam.reporting.catalogue import BUILDERS, DRAWINGS
from pam.runtime.errors import UserError
from pam.runtime.files import PACKAGE, write_json
from pam.tasks import KINDS, find_kind

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

# Command to what it calls that decides its result; a change of it runs the command's jobs again.
CODE: dict[str, tuple[str, ...]] = {
    "prepare": ("pam.data.prepare:prepare",),
    "word-alignments": ("pam.tasks.alignment.links:prepare_word_alignments",),
    "train": ("pam.training.run:train",),
    "ensemble": ("pam.training.run:join",),
    "reuse": ("pam.training.run:reuse",),
    "length-penalty": ("pam.models.checkpoint:load_model", "pam.evaluation.length_penalty:choose"),
    "predict": (
        "pam.models.checkpoint:load_model",
        "pam.decoding.generator:predict_split",
        "pam.decoding.generator:sampling_of",
    ),
    "attention": (
        "pam.evaluation.analyze:heat_maps",
        "pam.evaluation.analyze:load_writer_of_symbols",
    ),
    "analyze": ("pam.evaluation.analyze:analyze", "pam.evaluation.analyze:load_writer_of_symbols"),
    "align": ("pam.alignment.aligner", "pam.alignment.pair_models", "pam.alignment.record"),
    "align-by-program": ("pam.alignment.peers", "pam.alignment.record"),
    "aligners": ("pam.reporting.aligners",),
    "score": ("pam.evaluation.scoring:score", "pam.evaluation.scoring:files_of"),
    "control": ("pam.evaluation.scoring:score_control",),
    "significance": ("pam.tasks.translation.significance:compare_runs",),
    "tables": ("pam.reporting.tables", "pam.reporting.render", "pam.reporting.catalogue"),
    "figures": ("pam.reporting.style",),
    "report": (
        "pam.reporting.tables.data:datasets",
        "pam.reporting.tables.data:summaries_of",
    ),
    "page": ("pam.reporting.page", "pam.reporting.tables.data:summaries_of"),
}
# Command to the parts of a kind of task that it uses: of one kind, or where results of several are
# shown together, of all.
PARTS_OF_KIND = {"score": ("counts", "metrics"), "control": ("controls", "counts", "metrics")}
PARTS_OF_ALL = {
    "tables": ("tables", "metrics"),
    "figures": ("figures", "metrics"),
    "report": ("sizes",),
    "page": ("tables", "figures", "metrics", "example"),
}
# A module that defines this name is left out.
MARK = "DECIDES_NO_RESULT"
# What a text names that is an entry.
ENTRY = re.compile(r"[A-Za-z_]\w*(\.\w+)+:[A-Za-z_]\w*")
# In place of a name: all of a module, or no more than what importing it runs.
EVERYTHING = "*"
NOTHING = ""
Need = tuple[str, str]  # a module, and the name in it that is needed
Imported = tuple[str, str, str]  # the path in the code, the module, the name there
# Where a node of a syntax tree has statements, or handlers and cases that have some.
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def entries_of(command: str, kind: str | None = None) -> list[str]:
    """Return the entries of a command, with those of what it does for one kind.

    Args:
        kind: a kind of task, or a kind of table or figure of the command `tables` or `figures`.
    """
    entries = list(CODE[command])
    if command in PARTS_OF_ALL:
        for task_kind in KINDS.values():
            entries += task_kind.entries(*PARTS_OF_ALL[command])
    if kind is None:
        return entries
    if command == "tables":
        return [*entries, BUILDERS[kind]]
    if command == "figures":
        return [*entries, DRAWINGS[kind]]
    return [*entries, *find_kind(kind).entries(*PARTS_OF_KIND[command])]


@cache
def fingerprint(*entries: str) -> str:
    """Return the hash of the code of `entries` and of all that they reach.

    An entry is a module, or `module:name` for a definition of one. A ModuleNotFoundError says if
    there is no such module, or it defines no such name.
    """
    # What a plugin's entry reaches is in no file of this package.
    stored = _stored() if all(map(_is_ours, entries)) else None
    key = " ".join(entries)
    if stored is not None and key in stored.values:
        return stored.values[key]

    digest = hashlib.sha256()
    for module, code in sorted(_reach(entries).items()):
        digest.update(f"{module}\n{code}\n".encode())
    result = digest.hexdigest()[:16]
    if stored is not None:
        stored.add(key, result)

    return result


def _is_ours(module: str) -> bool:
    """Return whether a module, or an entry of one, is of this package."""
    return module.startswith(f"{PACKAGE.name}.")


@dataclass
class _Stored:
    """Fingerprints that another process has computed from the same files, beside their bytecode.

    To compute the fingerprints of an experiment takes longer than all else that Snakemake does
    before its first job.
    """

    file: Path
    sources: str
    values: dict[str, str]

    def add(self, key: str, value: str) -> None:
        """Store one more, where bytecode is stored too."""
        self.values[key] = value
        if not sys.dont_write_bytecode:
            with suppress(UserError, OSError):
                write_json(self.file, {"sources": self.sources, "values": self.values})


@cache
def _stored() -> _Stored:
    """Return the stored fingerprints of the package as it is now."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.yaml")]):
        digest.update(f"{path.relative_to(PACKAGE)}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())

    sources = digest.hexdigest()
    file = PACKAGE / "__pycache__" / "fingerprints.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["sources"] == sources:
            return _Stored(file, sources, dict(content["values"]))

    return _Stored(file, sources, {})


def closure(entries: Iterable[str]) -> list[str]:
    """Return the modules that `entries` reach, themselves included, sorted."""
    return sorted(_reach(tuple(entries)))


def model_modules(run: RunConfig) -> list[str]:
    """Return entries for a run's components: the classes that compute the kinds it chose."""
    entries = []
    for components in [member.components for member in run.members] or [run.components]:
        used = ["architecture"]
        if components.architecture.has_components:
            used += PARTS
        entries += [getattr(components, component).implementation for component in used]

    if not run.members:
        return entries

    return ["pam.models.ensemble", *sorted(set(entries))]


def _reach(entries: tuple[str, ...]) -> dict[str, str]:
    """Return the code that `entries` reach, by module.

    Imports are followed wherever they are, inside functions too.
    """
    waiting: list[Need] = []
    for entry in entries:
        module, _, name = entry.partition(":")
        if name and not source_of(module).has(name):
            raise ModuleNotFoundError(f"no {name} in {module}", name=module)
        waiting += _with_parents(module, name or EVERYTHING)

    reached: dict[str, set[str]] = {}
    while waiting:
        module, name = waiting.pop()
        source = source_of(module)
        if source.decides_no_result:
            continue
        # Of somebody's own modules we do not know what an import does.
        if not _is_ours(module):
            name = EVERYTHING
        elif name in source.choices:
            name = NOTHING

        names = reached.setdefault(module, set())
        if name not in names:
            names.add(name)
            waiting += source.needs(name)

    return {module: source_of(module).code(frozenset(names)) for module, names in reached.items()}


def _with_parents(module: str, name: str) -> list[Need]:
    """Return a name of a module with the packages above, which an import runs as well."""
    parts = module.split(".")
    parents = [".".join(parts[:end]) for end in range(1, len(parts))]
    return [(module, name), *((parent, NOTHING) for parent in parents if exists(parent))]


@dataclass(frozen=True)
class Uses:
    """What a statement names, as dotted paths, the imports in it, and entries in its texts."""

    paths: frozenset[str]
    imports: tuple[Imported, ...]
    entries: tuple[str, ...]


class Source:
    """The code of one module, without docstrings, and what each of its definitions needs."""

    def __init__(self, module: str, file: Path) -> None:
        self.module = module
        is_package = file.name == "__init__.py"
        self.package = module if is_package else module.rpartition(".")[0]
        self.tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
        # A table that the module reads counts as a part of it, as a whole.
        self.table = ""
        table = file.with_suffix(".yaml")
        if table.is_file():
            self.table = table.read_text(encoding="utf-8")

        _leave_out_texts(self.tree)

        self._uses: dict[ast.stmt, Uses] = {}
        self._needs: dict[str, list[Need]] = {}
        self._codes: dict[frozenset[str], str] = {}

    @cached_property
    def choices(self) -> frozenset[str]:
        """Names of the dictionaries from which a configuration chooses."""
        return frozenset(
            name
            for statement in self.tree.body
            if isinstance(statement, ast.AnnAssign)
            and ast.unparse(statement.annotation).partition("[")[0] == "Choices"
            for name in _bound(statement)
        )

    @cached_property
    def decides_no_result(self) -> bool:
        """Whether the module says so."""
        return MARK in self.definitions

    @cached_property
    def definitions(self) -> dict[str, list[ast.stmt]]:
        """Name to the statements of the module that bind it; `NOTHING` to those that just run."""
        statements: dict[str, list[ast.stmt]] = {NOTHING: []}
        for statement in self.tree.body:
            for name in _bound(statement):
                statements.setdefault(name, []).append(statement)
        return statements

    @cached_property
    def imports(self) -> dict[str, list[Imported]]:
        """Local name to its imports: the path in the code, the module, the name there."""
        imports: dict[str, list[Imported]] = {}
        for statement in self.tree.body:
            for path, module, name in self.uses(statement).imports:
                imports.setdefault(path.partition(".")[0], []).append((path, module, name))
        return imports

    def has(self, name: str) -> bool:
        """Return whether the module defines or imports a name."""
        return name in self.definitions or name in self.imports

    def statements(self, name: str) -> list[ast.stmt]:
        """List the statements that make `name`, and those that an import of the module runs."""
        if name != EVERYTHING:
            return self.definitions.get(name, []) + self.definitions[NOTHING]
        return [
            statement
            for statement in self.tree.body
            if not self.choices.intersection(_bound(statement))
        ]

    def needs(self, name: str) -> list[Need]:
        """List what `name` needs, here and in other modules."""
        if name not in self._needs:
            needs = set(self._of_statements(self.statements(name)))
            for path, module, origin in self.imports.get(name, ()):
                needs.update(self._of_import(path, module, origin, {path}))
            if exists(f"{self.module}.{name}"):
                needs.add((f"{self.module}.{name}", EVERYTHING))
            self._needs[name] = sorted(needs)

        return self._needs[name]

    def code(self, names: frozenset[str]) -> str:
        """Return the statements that make `names`, in one layout."""
        if names not in self._codes:
            makers = {id(statement) for name in names for statement in self.statements(name)}
            lines = [written(statement) for statement in self.tree.body if id(statement) in makers]
            self._codes[names] = "\n".join(lines) + self.table

        return self._codes[names]

    def _of_statements(self, statements: list[ast.stmt]) -> Iterator[Need]:
        """Yield what statements need: the names that they use, and the imports that they run."""
        used = {path for statement in statements for path in self.uses(statement).paths}
        for name in {path.partition(".")[0] for path in used}:
            if name in self.definitions:
                yield self.module, name
            for imported in self.imports.get(name, ()):
                yield from self._of_import(*imported, used)

        # An import that runs counts, be its name used or not.
        for statement in statements:
            for imported in self.uses(statement).imports:
                yield from self._of_import(*imported, used)
            # As `imported` of `pam.tasks` reads them. Those of a plugin are what it registers.
            for entry in self.uses(statement).entries:
                module, _, name = entry.partition(":")
                if _is_ours(self.module) and _is_ours(module) and exists(module):
                    yield from _with_parents(module, name)

    def uses(self, statement: ast.stmt) -> Uses:
        """Return the paths that a statement names, the imports in it, and entries in its texts.

        Of `a.b.c` the path is this one, and neither `a.b` nor `a`. Statements that an import of the
        module runs are asked for with each name in it, so the answers are kept.
        """
        if statement not in self._uses:
            paths: set[str] = set()
            imports: list[Imported] = []
            entries: list[str] = []
            waiting: list[ast.AST] = [statement]
            while waiting:
                node = waiting.pop()
                if isinstance(node, ast.Name | ast.Attribute):
                    origin, path = _path_of(node)
                    if path is None:
                        waiting.append(origin)
                    else:
                        paths.add(path)
                elif isinstance(node, ast.Import | ast.ImportFrom):
                    imports += self._imported(node)
                elif isinstance(node, ast.Constant):
                    if isinstance(node.value, str) and ENTRY.fullmatch(node.value):
                        entries.append(node.value)
                else:
                    waiting.extend(ast.iter_child_nodes(node))

            self._uses[statement] = Uses(frozenset(paths), tuple(imports), tuple(entries))

        return self._uses[statement]

    def _of_import(self, path: str, module: str, name: str, used: set[str]) -> Iterator[Need]:
        """Yield what code that uses the dotted paths `used` needs of an import."""
        whole = f"{module}.{name}" if name else module
        if exists(whole):
            # Names of the imported module that the code uses, as `name` in `path.name.more`.
            names = {
                dotted.removeprefix(f"{path}.").partition(".")[0]
                for dotted in used
                if dotted.startswith(f"{path}.")
            }
            if path in used:
                names.add(EVERYTHING)
            for needed in names or {NOTHING}:
                yield from _with_parents(whole, needed)
        elif name and exists(module):
            yield from _with_parents(module, name)

    def _imported(self, node: ast.Import | ast.ImportFrom) -> Iterator[Imported]:
        """Yield a node's imports from its package or this one."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                if self._is_near(alias.name):
                    yield alias.asname or alias.name, alias.name, ""
        else:
            module = resolve_name("." * node.level + (node.module or ""), self.package)
            if self._is_near(module):
                for alias in node.names:
                    yield alias.asname or alias.name, module, alias.name

    def _is_near(self, module: str) -> bool:
        """Return whether a module is of this one's package, or of ours."""
        return module.partition(".")[0] in (PACKAGE.name, self.module.partition(".")[0])


def written(node: object) -> str:
    """Write a part of a tree in one way, whatever the layout of its code and the Python here.

    `ast.unparse` quotes texts by the version of Python, and `ast.dump` names fields that a version
    has added. So fields without content are left out.
    """
    if isinstance(node, ast.Constant):
        return f"{type(node.value).__name__} {node.value!r}"
    if isinstance(node, ast.AST):
        fields = [
            f"{name}={written(value)}"
            for name, value in ast.iter_fields(node)
            if value is not None and value != []
        ]
        return f"{type(node).__name__}({', '.join(fields)})"
    if isinstance(node, list):
        return f"[{', '.join(map(written, node))}]"
    return repr(node)


def _leave_out_texts(tree: ast.Module) -> None:
    """Take docstrings and other mere texts out of a tree; comments are not in it."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(body := getattr(node, "body", None), list):
            code = [statement for statement in body if not _is_text(statement)]
            node.body = code or [ast.Pass()]  # type: ignore[attr-defined]

        # Statements are in statements alone, never in what these compute.
        for block in BLOCKS:
            inner = getattr(node, block, None)
            if isinstance(inner, list):
                waiting += inner


def _is_text(statement: ast.AST) -> bool:
    """Return whether a statement is a mere text, as docstrings are."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _bound(statement: ast.stmt) -> list[str]:
    """List the names that a statement of a module binds; `NOTHING` if it does something itself."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]

    # An import counts where its names are used.
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return []
    if isinstance(statement, ast.If) and ast.unparse(statement.test).endswith("TYPE_CHECKING"):
        return []

    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]

    if not targets or not all(isinstance(target, ast.Name | ast.Tuple) for target in targets):
        return [NOTHING]

    return [
        node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
    ]


def _path_of(node: ast.Name | ast.Attribute) -> tuple[ast.AST, str | None]:
    """Return what a chain of attributes begins with, and its dotted path if that is a name."""
    origin: ast.AST = node
    names: list[str] = []
    while isinstance(origin, ast.Attribute):
        names.append(origin.attr)
        origin = origin.value

    if not isinstance(origin, ast.Name):
        return origin, None
    return origin, ".".join([origin.id, *reversed(names)])


@cache
def source_of(module: str) -> Source:
    """Return the source of a module of this package, or of a plugin's.

    A ModuleNotFoundError says that there is none.
    """
    file = _find(module)
    if file is None:
        raise ModuleNotFoundError(f"no module {module}", name=module)
    return Source(module, file)


def exists(module: str) -> bool:
    """Return whether there is a module (or package) of this dotted name, in Python."""
    return _find(module) is not None


@cache
def _find(module: str) -> Path | None:
    """Return a module's file. Nothing is imported to find it."""
    top, *parts = module.split(".")
    root = PACKAGE if top == PACKAGE.name else _root_of(top)
    if root is None or not all(part.isidentifier() for part in parts):
        return None
    if root.is_file() and parts:
        return None
    if root.is_file():
        return root

    path = root.joinpath(*parts)
    files = [path / "__init__.py"]
    if parts:
        files.append(path.with_suffix(".py"))

    return next(filter(Path.is_file, files), None)


def _root_of(package: str) -> Path | None:
    """Return the folder of a package of somebody's own, or the file of a single module."""
    if not package.isidentifier():
        return None

    spec = find_spec(package)
    if spec is None:
        return None

    folders = list(spec.submodule_search_locations or ())
    if folders:
        return Path(folders[0])
    if spec.origin and spec.origin.endswith(".py"):
        return Path(spec.origin)

    return None
