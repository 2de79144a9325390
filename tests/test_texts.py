"""The texts for readers: every link in them leads somewhere, and what they show as YAML is YAML."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
TEXTS = sorted(
    str(path.relative_to(ROOT))
    for path in (
        *ROOT.glob("*.md"),
        ROOT / "config/README.md",
        ROOT / "results/reference/README.md",
        ROOT / "benchmarks/peers/README.md",
        *(ROOT / "docs").glob("*.md"),
    )
)

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", flags=re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
INLINE = re.compile(r"\[[^\[\]]*\]\(([^()\s]+)\)")
"""A link or an image, `[words](target)`; the words may go on in the next line."""
DEFINITION = re.compile(r"^\[([^\]]+)\]: (\S+)$", flags=re.MULTILINE)
REFERENCE = re.compile(r"\[[^\[\]]+\]\[([^\[\]]+)\]")
"""A link `[words][name]` whose target is defined at the text's end."""
HEADING = re.compile(r"^#{1,6} (.+)$", flags=re.MULTILINE)
ELSEWHERE = ("https://", "http://", "mailto:")


def read(text: str) -> str:
    return (ROOT / text).read_text(encoding="utf-8")


def prose(text: str) -> str:
    """Take code out of a text, where brackets are no links."""
    return CODE.sub("code", FENCE.sub("", text))


def links(text: str) -> list[str]:
    """List the targets of all links and images of a Markdown text."""
    return INLINE.findall(prose(text)) + [target for _, target in DEFINITION.findall(prose(text))]


def anchors(text: str) -> set[str]:
    """Return the anchors of a Markdown text's headings, as GitHub names them."""
    names: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = 0

        name = anchor

        while name in names:
            count += 1
            name = f"{anchor}-{count}"

        names.add(name)

    return names


def broken(file: Path, text: str) -> list[str]:
    """List the links of a text that lead to no file, or to no heading of one."""
    dead = []
    for link in links(text):
        if link.startswith(ELSEWHERE):
            continue

        name, _, anchor = link.partition("#")
        target = file
        content = text

        if name:
            target = file.parent / name

        if not target.exists():
            dead.append(link)
            continue

        if name and anchor:
            content = target.read_text(encoding="utf-8")

        if anchor and anchor not in anchors(content):
            dead.append(link)

    return dead


@pytest.mark.parametrize("file", TEXTS)
def test_every_link_leads_somewhere(file: str) -> None:
    assert not broken(ROOT / file, read(file)), file


@pytest.mark.parametrize("file", TEXTS)
def test_every_reference_is_defined(file: str) -> None:
    text = prose(read(file))
    defined = {name for name, _ in DEFINITION.findall(text)}
    undefined = set(REFERENCE.findall(text)) - defined

    assert not undefined, file

    unused = {name for name in defined if f"[{name}]" not in DEFINITION.sub("", text)}
    assert not unused, file


@pytest.mark.parametrize("file", TEXTS)
def test_every_yaml_is_yaml(file: str) -> None:
    for _, language, block in FENCE.findall(read(file)):
        if language == "yaml":
            assert isinstance(yaml.safe_load(block), dict), block


def test_the_two_commands_of_readme_are_targets_of_make() -> None:
    section = read("README.md").partition("\n## Two commands\n")[2]
    block = FENCE.search(section)

    assert block is not None

    commands = re.findall(r"^make (\w+)", block[3], flags=re.MULTILINE)
    assert commands == ["run", "test"]

    targets = re.findall(r"^(\w+):", read("Makefile"), flags=re.MULTILINE)
    assert set(commands) <= set(targets)


def test_every_page_of_docs_can_be_reached_from_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        file = waiting.pop().resolve()
        if file in reached or file.suffix != ".md" or not file.is_file():
            continue

        reached.add(file)
        names = [link.partition("#")[0] for link in links(file.read_text(encoding="utf-8"))]
        waiting += [file.parent / name for name in names if not name.startswith(ELSEWHERE)]

    assert not [file for file in TEXTS if ROOT / file not in reached]


def test_what_these_tests_look_for_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# One: of *two*\n\n## It's `here`\n", encoding="utf-8")
    text = (
        "# Title\n\n[a](other.md) [b](other.md#one-of-two) [c](other.md#its-here) [d](#title)\n"
        "[gone](gone.md) [no\nheading](other.md#nowhere) ![none](none.png) [e](#nothing)\n"
        "`[code](no-link)`\n\n```sh\n[code](no-link)\n# No heading\n```\n\n[1]: missing.json\n"
    )
    expected = ["gone.md", "other.md#nowhere", "none.png", "#nothing", "missing.json"]
    (tmp_path / "text.md").write_text(text, encoding="utf-8")

    assert broken(tmp_path / "text.md", text) == expected
    assert anchors(text + "## Title\n") == {"title", "title-1"}


def test_pictures_of_texts_are_light_and_have_words_in_their_place() -> None:
    pictures = [
        (ROOT / text).parent / target
        for text in TEXTS
        for words, target in re.findall(r"!\[([^\]]*)\]\(([^)]+\.png)\)", prose(read(text)))
        if len(words.split()) > 3
    ]
    shown = sum(prose(read(text)).count("![") for text in TEXTS)

    assert len(pictures) == shown > 0
    assert [path for path in pictures if path.stat().st_size > 200_000] == []
