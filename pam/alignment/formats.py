"""Files of links: Pharaoh, NAACL, and JSON lines.

Pharaoh   a line for each pair, `0-0 1-2 2p3`: source word, target word, counted from 0; `p` or
          `?` in place of `-` marks a link that is possible, not sure
NAACL     a line for each link, `1 1 2 S`: pair, source word, target word, counted from 1; then
          `S` for sure or `P` for possible
JSON      a line for each pair, an object with `links`
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from pam.alignment.aligner import WordAlignment
from pam.alignment.words import Word
from pam.data.text_files import Line, plain_lines
from pam.tasks.alignment.links import Links

FORMATS = ("pharaoh", "jsonl")
DIGITS = 4  # of a probability
# No text has words beyond nine digits.
PHARAOH = re.compile(r"(\d{1,9})([-p?])(\d{1,9})(?::[\d.eE+-]+)?")
NAACL = re.compile(r"(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})(?:\s+([SP]))?(?:\s+[\d.]+)?")


def pharaoh(alignment: WordAlignment, *, with_probabilities: bool = False) -> str:
    """Return links as `0-0 1-2`, or as `0-0:0.9 1-2:0.7` with their probabilities."""
    texts = []
    for source, target, probability in alignment.links:
        text = f"{source}-{target}"
        if with_probabilities:
            text += f":{round(probability, DIGITS)}"
        texts.append(text)
    return " ".join(texts)


def jsonl(
    alignment: WordAlignment, number: int, *, with_probabilities: bool, with_offsets: bool
) -> str:
    """Return links with the words as a line of JSON.

    With probabilities there is the whole matrix too, a row for each source word. With offsets each
    word has its first character in its line and the one behind its last.
    """
    record: dict[str, Any] = {
        "line": number,
        "source_words": [word.text for word in alignment.source],
        "target_words": [word.text for word in alignment.target],
        "links": [
            {"source": source, "target": target, "probability": round(probability, DIGITS)}
            for source, target, probability in alignment.links
        ],
    }
    if with_offsets:
        record["source_offsets"] = _offsets(alignment.source)
        record["target_offsets"] = _offsets(alignment.target)
    if with_probabilities:
        record["probabilities"] = alignment.probabilities.round(DIGITS).tolist()
    if alignment.problem:
        record["problem"] = alignment.problem
    return json.dumps(record, ensure_ascii=False)


def _offsets(words: list[Word]) -> list[tuple[int, int]]:
    return [(word.start, word.end) for word in words]


def read_links(path: Path, first: int = 0, pairs: int = 0) -> list[Links]:
    """Read the links of each pair; the format is told by the first line that is not blank.

    Args:
        path: a file of text, which may be compressed.
        first: the number of a text's first word in the format Pharaoh, 0 or 1.
        pairs: how many there are, at least. The format NAACL does not tell: the last ones may have
            no links.

    Raises:
        UserError: the file is missing, faulty, or has a line without links of its format.
    """
    lines = plain_lines(path, may_be_blank=True)
    before = []
    for line in lines:
        before.append(line)
        if line.text.strip():
            break

    # The format is that of the first line with links.
    text = before[-1].text.strip()
    every_line = chain(before, lines)
    if text.startswith("{"):
        return [_links_of_json(line) for line in every_line]
    if NAACL.fullmatch(text):
        return _links_of_naacl(every_line, pairs)
    return [_links_of_pharaoh(line, first) for line in every_line]


def _links_of_pharaoh(line: Line, first: int) -> Links:
    """Read the links of a line."""
    sure = set()
    possible = set()
    for text in line.text.split():
        match = PHARAOH.fullmatch(text)
        if match is None:
            hint = "write SOURCE-TARGET where it is sure, else SOURCEpTARGET"
            raise line.error(f"`{text}` is not a link", hint)

        link = (int(match[1]) - first, int(match[3]) - first)
        if min(link) < 0:
            raise line.error(f"link `{text}` has no word", "words are counted from 1: --first 0")
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Links(tuple(sorted(sure)), tuple(sorted(possible)))


def _links_of_naacl(lines: Iterator[Line], pairs: int) -> list[Links]:
    """Read links that have a line each; pairs without any have none."""
    sure = defaultdict[int, set[tuple[int, int]]](set)
    possible = defaultdict[int, set[tuple[int, int]]](set)
    count = pairs
    for line in lines:
        if not line.text.strip():
            continue
        match = NAACL.fullmatch(line.text.strip())
        if match is None or int(match[1]) == 0:
            hint = "write PAIR SOURCE TARGET S (or P), all counted from 1"
            raise line.error(f"`{line.text.strip()[:60]}` is not a link", hint)

        pair = int(match[1])
        count = max(count, pair)
        link = (int(match[2]) - 1, int(match[3]) - 1)
        # Word 0 means that the other word has no link.
        if min(link) < 0:
            continue
        possible[pair].add(link)
        if match[4] != "P":
            sure[pair].add(link)

    return [
        Links(tuple(sorted(sure[pair])), tuple(sorted(possible[pair])))
        for pair in range(1, count + 1)
    ]


def _links_of_json(line: Line) -> Links:
    """Read the links of a line of JSON, as `jsonl` writes it."""
    try:
        links = [(link["source"], link["target"]) for link in json.loads(line.text)["links"]]
        is_right = all(isinstance(word, int) and word >= 0 for link in links for word in link)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise line.error("no links in this line", 'write {"links": [...]}') from error
    if not is_right:
        raise line.error("a link has no word", "count words from 0")
    return Links(tuple(sorted(links)), tuple(sorted(links)))
