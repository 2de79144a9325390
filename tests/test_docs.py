"""The site of `make docs`: all pages are in it, it agrees with the code, and what it says to write
works.
"""

from __future__ import annotations

import argparse
import gzip
import html
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from importlib.util import find_spec
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from pam import cli
from pam.data import readers
from pam.evaluation import metrics
from pam.experiments.experiment import Experiment, TaskConfig
from pam.experiments.model import ModelConfig
from pam.experiments.settings import Decoding, Network, ResourcesByModel, Training
from pam.models.options import COMPONENTS, is_shipped
from pam.tasks.translation.counts import Prediction
from tests.test_texts import ELSEWHERE, TEXTS, links, read

ROOT = Path(__file__).resolve().parents[1]
SECTIONS: tuple[type[BaseModel], ...] = (
    Experiment,
    TaskConfig,
    Network,
    Training,
    Decoding,
    ResourcesByModel,
    ModelConfig,
)
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
CODE = re.compile(r"`([^`]+)`")
NEEDS_SPHINX = pytest.mark.skipif(
    any(
        find_spec(name) is None for name in ("sphinx", "myst_parser", "furo", "sphinx_argparse_cli")
    ),
    reason="Sphinx or one of its parts is not installed: envs/requirements-dev.txt has them",
)


@pytest.fixture
def conf(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run docs/conf.py; return the names that it defines."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    return runpy.run_path(str(ROOT / "docs/conf.py"))


@pytest.fixture(scope="module")
def extending() -> str:
    return (ROOT / "docs/extending.md").read_text(encoding="utf-8")


def build(source: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Build as `make docs` does."""
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "--fail-on-warning",
        "-c",
        str(ROOT / "docs"),
        *options,
    ]
    return subprocess.run(
        [*command, str(source), str(out)], cwd=ROOT, capture_output=True, text=True, check=False
    )


def shown_as_code(page: Path) -> set[str]:
    """Return all that a page shows as code."""
    parts = re.findall(
        r"<code[^>]*>(.*?)</code>", page.read_text(encoding="utf-8"), flags=re.DOTALL
    )
    return {html.unescape(re.sub(r"<[^>]+>", "", part)) for part in parts}


def linked_files() -> set[str]:
    """Return the files, from the root, that texts for readers link."""
    targets = set()
    for text in TEXTS:
        for link in links(read(text)):
            if not link.startswith(ELSEWHERE):
                target = (ROOT / text).parent / link.partition("#")[0]
                targets.add(os.path.relpath(target, ROOT))

    return targets


def parsers() -> dict[str, argparse.ArgumentParser]:
    actions = cli.parser()._actions
    (action,) = (action for action in actions if isinstance(action, argparse._SubParsersAction))

    return dict(action.choices)


def test_every_text_is_a_page_of_the_site(conf: dict[str, Any]) -> None:
    listed = [conf["root_doc"], *chain.from_iterable(conf["SECTIONS"].values())]
    patterns = ("*.md", "*/README.md", "*/*/README.md", "docs/*.md")
    paths = chain.from_iterable(ROOT.glob(pattern) for pattern in patterns)
    written = {str(path.relative_to(ROOT)) for path in paths}

    assert {f"{page}.md" for page in listed} == {
        name for name in written if not name.startswith(("data/", "."))
    }
    assert len(set(listed)) == len(listed)


def test_every_column_of_a_table_has_a_heading(conf: dict[str, Any]) -> None:
    """A reader who hears the page would not know what the column is."""
    listed = [conf["root_doc"], *chain.from_iterable(conf["SECTIONS"].values())]
    nameless = []
    for page in listed:
        lines = (ROOT / f"{page}.md").read_text(encoding="utf-8").splitlines()
        for number, (head, rule) in enumerate(pairwise(lines), start=1):
            cells = re.split(r"(?<!\\)\|", head)[1:-1]
            if re.match(r"\| ?:?-", rule) and not all(cell.strip() for cell in cells):
                nameless.append(f"{page}.md:{number}")

    assert nameless == []


def test_every_stored_figure_is_in_the_gallery_with_the_caption_of_its_report(
    conf: dict[str, Any],
) -> None:
    gallery = conf["gallery"]
    page = gallery.text(ROOT, Path("docs"))

    # The paper's own figures come first.
    folders = re.findall(r"^## .*\(`(.+)/`\)$", page, re.MULTILINE)
    assert folders[:3] == ["small", "subwords", "table2"]
    stored = sorted((ROOT / "results/reference").glob("*/figures/*.png"))
    links = re.findall(r"^```\{figure\} (.+)$", page, flags=re.MULTILINE)
    linked = sorted((ROOT / "docs" / path).resolve() for path in links)

    assert stored and linked == stored
    # Nothing of reStructuredText or of the template is left over.
    assert not re.search(r"\{\{|\}\}|\{%|::|^\.\. ", page, flags=re.MULTILINE)

    content = conf["gallery"].read_yaml(ROOT / "results/reference/table2/experiment.yaml")
    experiment = Experiment.model_validate(content)
    folder = ROOT / "results/reference/table2/figures"
    caption = gallery.caption(ROOT, folder / "attention_ddn13-de-verb_seed2.png", experiment)

    assert "ddn13-de-verb" in caption and "seed 2" in caption


@pytest.mark.parametrize(
    ("stored", "of_gains", "of_values"),
    [
        ("recipes", "A gain of a single seed has no interval.", "test units."),
        ("table2", "Bars are", "test units and seeds."),
        # One seed, and more of some models alone.
        ("subwords", "Bars are", "test units and seeds."),
    ],
)
def test_a_caption_tells_of_intervals_over_seeds_only_where_they_are_drawn(
    stored: str, of_gains: str, of_values: str, conf: dict[str, Any]
) -> None:
    gallery = conf["gallery"]
    content = gallery.read_yaml(ROOT / f"results/reference/{stored}/experiment.yaml")
    experiment = Experiment.model_validate(content)

    assert gallery.caption(ROOT, Path("gains.png"), experiment).startswith(of_gains)
    assert of_values in gallery.caption(ROOT, Path("accuracy.png"), experiment)


@NEEDS_SPHINX
@pytest.mark.slow
@pytest.mark.parametrize(
    "tables", ["those that texts link", pytest.param("all", marks=pytest.mark.faults)]
)
def test_the_site_has_no_broken_link_and_every_key_command_and_figure(
    tables: str, tmp_path: Path, conf: dict[str, Any]
) -> None:
    files = {str(path.relative_to(ROOT)) for path in ROOT.glob(f"{conf['TABLES']}.md")}
    options = []
    if tables != "all":
        files &= linked_files()
        patterns = [page for page in conf["include_patterns"] if "/tables/" not in page]
        options = ["-D", f"include_patterns={','.join([*patterns, *files])}"]

    done = build(ROOT, tmp_path, *options)

    table_pages = tmp_path.glob(f"{conf['TABLES']}.html")
    assert {str(page.relative_to(tmp_path).with_suffix(".md")) for page in table_pages} == files
    assert files
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "index.html").read_bytes() == (tmp_path / "README.html").read_bytes()

    for script in conf["html_js_files"]:
        assert (tmp_path / "_static" / script).is_file()

    keys = shown_as_code(tmp_path / "config/README.html")
    for section in SECTIONS:
        assert set(section.model_fields) <= keys
    for component, kinds in COMPONENTS.items():
        assert {component, *kinds} <= keys
        for options in kinds.values():
            assert not is_shipped(options) or set(options.model_fields) - {"kind"} <= keys

    commands = (tmp_path / "docs/commands.html").read_text(encoding="utf-8")
    code = shown_as_code(tmp_path / "docs/commands.html")

    for name, parser in parsers().items():
        assert f"pam {name}" in commands
        for action in parser._actions:
            assert set(action.option_strings) <= code, (name, action)

    stored = list((ROOT / "results/reference").glob("*/figures/*.png"))
    page = (tmp_path / "docs/gallery.html").read_text(encoding="utf-8")

    assert page.count("<figure") == page.count('src="../_thumbnails/') == len(stored)
    assert len(list((tmp_path / "_thumbnails").glob("*.png"))) == len(stored)

    text = (tmp_path / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    titles = zip(index["docnames"], index["titles"], strict=True)
    searched = {page for page, title in titles if title}

    assert searched == {conf["root_doc"], *chain.from_iterable(conf["SECTIONS"].values())}
    assert "the pam authors" in (tmp_path / "index.html").read_text(encoding="utf-8")

    # Results have excerpts also where the site is opened as a file.
    if CHROMIUM is not None:
        address = f"{(tmp_path / 'search.html').as_uri()}?q=nucleus"
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=9000"]
        shown = subprocess.run(
            [CHROMIUM, *options, f"--user-data-dir={tmp_path}/profile", "--dump-dom", address],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        excerpts = re.findall(r'<p class="context">(.*?)</p>', shown.stdout, re.DOTALL)
        assert any("nucleus" in excerpt for excerpt in excerpts)


@NEEDS_SPHINX
@pytest.mark.slow
def test_a_broken_link_fails(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Start\n\n[a](gone.md) [b](#nowhere)\n", encoding="utf-8")
    done = build(tmp_path, tmp_path / "site", "--keep-going")

    assert done.returncode != 0
    for target in ("gone", "nowhere"):
        assert re.search(f"README.md:3: WARNING: .*{target}", done.stderr)


def test_the_lines_to_change_for_a_metric_or_a_reader_are_there(extending: str) -> None:
    rows = re.findall(r"^\| [^|]+ \| `([\w/.]+)` \| ([^|]+) \|$", extending, flags=re.MULTILINE)
    assert rows

    for file, where in rows:
        text = (ROOT / file).read_text(encoding="utf-8")
        for name in CODE.findall(where):
            assert re.search(rf"(?<!\w){re.escape(name.removesuffix('...)'))}", text), (
                f"{name} is not in {file}"
            )

    prose = re.sub(r"```.*?```", "", extending, flags=re.DOTALL)
    named = {path for path in CODE.findall(prose) if "/" in path and " " not in path}
    ours = {path for path in named if not path.startswith("mylab/")}  # an example's own
    assert ours and all((ROOT / path).exists() for path in ours)


def test_the_functions_that_the_method_names_are_in_their_files() -> None:
    page = (ROOT / "docs/method.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|.*\| (`[^|]+) \| `(pam/[\w/]+\.py)` \|$", page, flags=re.MULTILINE)
    assert rows

    for names, file in rows:
        text = (ROOT / file).read_text(encoding="utf-8")
        for name in CODE.findall(names):
            for part in name.split("."):
                assert re.search(rf"^ *(def|class) {part}\b", text, flags=re.MULTILINE), name


def test_the_metric_that_the_page_adds_counts_what_it_says(extending: str) -> None:
    (definition,) = re.findall(r"`(Metric\(.+\))`", extending)
    metric = eval(definition, vars(metrics).copy())  # noqa: S307 -- of our own page

    assert metric.value(np.array([[3.0, 4.0]])).tolist() == [75.0]

    (column,) = re.findall(r"`of_beam\(\"exact\", beam\): (.+)`", extending)
    rows = [Prediction("a", "x y", "x y", "x y"), Prediction("b", "x", "y", "y")]

    assert eval(column, {"np": np, "rows": rows}).tolist() == [1.0, 0.0]  # noqa: S307


def test_the_reader_that_the_page_adds_reads(
    extending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", extending, flags=re.DOTALL)
    (code,) = (block for block in blocks if "class Alternating" in block)
    names = vars(readers) | {"__name__": "own"}
    exec(compile(code, "docs/extending.md", "exec", dont_inherit=True), names)  # noqa: S102
    monkeypatch.setitem(readers.READERS, "alternating", names["Alternating"])
    reader = readers.load_reader(
        {"kind": "alternating", "first": "de", "divide": {"dev": 1, "test": 1}}
    )
    file = tmp_path / "pairs.gz"
    file.write_bytes(gzip.compress("".join(f"Satz {n}\nsentence {n}\n" for n in range(4)).encode()))
    pairs_of = {split: list(pairs) for split, pairs in reader.read({"all": file}, ("en", "de"))}

    assert [len(pairs_of[split]) for split in ("train", "dev", "test")] == [2, 1, 1]
    for source, target in chain.from_iterable(pairs_of.values()):
        assert source.text.replace("sentence", "Satz") == target.text

    file.write_bytes(gzip.compress(b"Satz\nsentence\nSatz\n"))
    with pytest.raises(readers.UserError, match="no translation"):
        list(
            readers.load_reader({"kind": "alternating", "first": "de"}).pairs(
                "train", file, ("de", "en")
            )
        )  # type: ignore[attr-defined]
