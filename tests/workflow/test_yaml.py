"""YAML has one reader, which finds values and lines, and refuses what Snakemake cannot read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from snakemake.common.configfile import load_configfile

from pam.experiments.yaml import Loader, _loaded, parse_yaml, placed, read_yaml
from pam.runtime.errors import UserError
from tests.faults.fuzz import texts
from tests.faults.outcomes import outcome
from tests.long_forms import long_form
from tests.workflow.checkouts import EXPERIMENT, PAIRS, ROOT

FILES = ["config/config.yaml", "config/datasets.yaml", "config/attentions.yaml"]
WRONG = {
    "a: [1\nb: 2\n": 2,
    "a: 1\na: 2\n": 2,
    "a: {b: 1, c: {d: 1,\n d: 2}}\n": 2,
    "b:\n  1: x\n  0x1: y\n": 3,
    "b:\n  yes: x\n  'yes': y\n": 3,
    "a: 'text\n": 2,
    "a:\n\t- 1\n": 2,
    "b: 1\na\tb: 1\n": 2,
    "a:\n- b\tc\n": 2,
    "a:\n- b\t# said\n": 2,
    "a: [b,\n c?d]\n": 2,
    "a: &x [*x,\n *y]\n": 2,
    "a: &x\n  b: *x\n": 1,
    "b: 1\na: 2001-99-99\n": 2,
    "b: 1\na: !!int x\n": 2,
    "b: 1\na: !!bool x\n": 2,
    "b: 1\na: !!timestamp x\n": 2,
    "b: 1\n!!map a: 1\n": 2,
    "b: 1\na: !!python/name:os.system\n": 2,
    "b: 1\na: " + "1" * 5000: 2,
    "b: 1\na: \x00\n": 2,
    "b: 1\na: \x07\n": 2,
    "b: 1\na: \ud83d\n": 2,
    'b: 1\na: "\\ud83d"\n': 2,
    'b: 1\n"\\ude00\\ud83d": 1\n': 2,
    "a: 1\n---\nb: 2\n": 2,
    "a: 1\n%YAML 1.1\n": 3,
    "[" * 5000: 1,
    "- " * 1000: 1,
    "b:\n" + "{a: " * 5000: 2,
    "a0: &a0 []\n" + "".join(f"a{i + 1}: &a{i + 1} [*a{i}]\n" for i in range(300)): 51,
    "a0: &a0 []\n" + "".join(f"a{i + 1}: &a{i + 1} [*a{i}, *a{i}]\n" for i in range(40)): 1,
}
FORMS = (str.lower, str.upper, str.capitalize)
RIGHT: dict[str, Any] = {
    '{"a":\t1,\n\t"b": "\\t"}': {"a": 1, "b": "\t"},
    '{"a": "\\ud83d\\ude00"}': {"a": "😀"},
    "\ufeffa: 1\n": {"a": 1},
    "a: 'b\tc'\nd: |\n  e\tf\n": {"a": "b\tc", "d": "e\tf\n"},
    "# said\tof this\na: 1\n": {"a": 1},
    "a: &x {b: 1}\nc: {<<: *x, d: 2}\ne: {<<: *x, b: 3}\n": {
        "a": {"b": 1},
        "c": {"b": 1, "d": 2},
        "e": {"b": 3},
    },
    "a: {'<<': 1}\n": {"a": {"<<": 1}},
    "- " * 40 + "a": None,
    "": None,
    "# nothing\n": None,
}
BOOLEANS = {form(word) for word in ("yes", "no", "on", "off", "true", "false") for form in FORMS}
SAID = UserError("said of this", hint="do that")


def agreed(folder: Path, text: str) -> Any:
    """Read a text and find the lines of its keys; return its value, or the UserError.

    An error has line and hint. What can be read has lines for its keys, and Snakemake can read it.
    In JSON it takes 1e3 for a number, which is a text in YAML.
    """
    file = folder / "own.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    value = outcome(lambda: read_yaml(file))
    if isinstance(value, UserError):
        assert value.line is not None or "UTF-8" in value.message
        return value

    again = _loaded(file.read_text("utf-8"), file, Loader.get_single_node)
    assert (value is None) == (again is None or again.tag.endswith(":null"))
    lines = file.read_text("utf-8").splitlines()
    for keys in list(paths(value))[-2:]:
        line = placed(SAID, [file], keys).line
        assert line is not None and line <= len(lines)

    if isinstance(value, dict) and "__use_yte__" not in value:
        by_snakemake = load_configfile(file)
        if not isinstance(by_snakemake, OrderedDict):
            # Written down, as what is not a number does not equal itself. A key is a name here.
            assert repr(named(by_snakemake)) == repr(named(value))

    return value


def named(value: Any) -> Any:
    """Return a value without keys that are booleans for Snakemake, and names for us."""
    if isinstance(value, dict):
        return {
            k: named(v) for k, v in value.items() if k not in BOOLEANS and k not in (True, False)
        }
    if isinstance(value, list):
        return [named(item) for item in value]
    return value


def paths(value: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the keys that lead to each text key."""
    if isinstance(value, dict):
        for key, below in value.items():
            if isinstance(key, str):
                yield (*above, key)
                yield from paths(below, (*above, key))


@pytest.mark.parametrize("file", FILES)
def test_a_file_means_what_pyyaml_reads_in_it(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert read_yaml(ROOT / file) == yaml.safe_load(text)


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_an_error_has_its_line(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_yaml(text, "own.yaml")
    assert caught.value.line == WRONG[text]
    assert caught.value.hint


@pytest.mark.parametrize("text", RIGHT, ids=range(len(RIGHT)))
def test_odd_texts_are_read_as_by_snakemake(text: str, tmp_path: Path) -> None:
    value = agreed(tmp_path, text)
    assert not isinstance(value, UserError)
    if RIGHT[text] is not None:
        assert value == RIGHT[text]


def test_the_line_of_a_merged_key_is_where_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("a: &x\n  b: 1\n  c: 2\nd:\n  <<: *x\n  c: 3\n", encoding="utf-8")
    assert placed(SAID, [file], ["d", "b"]).line == 2
    assert placed(SAID, [file], ["d", "c"]).line == 6


BASES = (
    EXPERIMENT,
    PAIRS,
    "a: &x {b: 1, <<: {c: d}}\nb: *x\nc: [1, 2, {d: e}]\n",
    "? a\n: b\n? - c\n: - d\n",
    "a: |\n  text\n   more\nb: >-\n  fold\n\n  it\nc: 'q u'\nd: \"e\\tf\"\n",
    '{"a": [1, 2.5, "x"], "b": {"c": null}}',
    "- a\n- b: c\n  d: e\n-\n  - f\n",
)
MARKS = (
    *("\t", " ", "\n", "  ", "\r", "\u2028", "\ufeff", "\x00", "\x07", "\x7f", "\ud800"),
    *(":", ": ", "- ", "?", "? ", "#", " #", ",", "[", "]", "{", "}", "[" * 99, "- " * 99),
    *("&a ", "*a", "<<: ", "<<: *x", "= ", "!", "!!int ", "!!set ", "!!binary ", "!!omap "),
    *("!!timestamp x", "!!python/name:os.system ", "|", ">", "|+2\n", "'", '"', "%", "@", "`"),
    *("---\n", "...\n", "%YAML 1.2\n---\n", "%TAG ! x\n---\n", "~", "\\", "\\ud83d", "\\ude00"),
    *("0o7", "010", "1:30", "2001-99-99", "a: 1\na: 2\n", "x" * 1030 + ": y", "{a?b}", "{?a}"),
)
changes = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 3), st.sampled_from(MARKS) | texts),
    min_size=1,
    max_size=3,
)


@pytest.mark.parametrize("examples", [40, *long_form([2000])])
def test_who_reads_and_who_explains_agree(
    examples: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("odd")

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(BASES), changes)
    def check(text: str, pieces: list[tuple[float, int, str]]) -> None:
        for place, removed, piece in pieces:
            start = round(place * len(text))
            text = text[:start] + piece + text[start + removed :]
        agreed(folder, text)

    check()


MISREAD = {"seeds: [1, 010]": "`010` as 8", "a: 1:30": "`1:30` as 90", "a: 1:30.5": "as 90.5"}


@pytest.mark.parametrize("text", MISREAD)
def test_a_number_that_means_another_one_than_it_looks_like_is_refused(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_yaml(f"# numbers\n{text}\n", "own.yaml")

    assert MISREAD[text] in caught.value.message
    assert (caught.value.line, caught.value.hint is None) == (2, False)


def test_zeros_times_and_quoted_numbers_are_what_they_look_like() -> None:
    text = "a: [0, 0.5, 007, '010', 0x1F, 1_000, 2001-01-01 10:00:00]"
    *numbers, _ = parse_yaml(text, "own.yaml")["a"]
    assert numbers == [0, 0.5, 7, "010", 31, 1000]
