"""Scripts of texts, and the languages that only a script tells.

The sides of a pair may have any names, and a name such as `src` may be the code of a language that
nobody means. Chinese, Thai or Korean are seen by their letters all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import groupby

from pam.data.languages import UNSPACED, Language, language

HANGUL = "Hang"
KANA = frozenset({"Hira", "Kana"})
# Letters of Japanese that are kana, at the least; Chinese has next to none.
KANA_SHARE = 0.1

# Scripts whose letters say that a language needs other words than those between spaces.
TELLING = UNSPACED | {HANGUL}
# Codes of scripts that stand for several, and the single scripts that texts in them may show.
SHOWN = {
    "Hani": {"Hani", "Bopo"},
    "Hans": {"Hani", "Bopo"},
    "Hant": {"Hani", "Bopo"},
    "Jpan": {"Hani", *KANA},
    "Kore": {"Hani", HANGUL},
}


def language_of(code: str, texts: Iterable[str]) -> Language:
    """Return the language of a code, or of the script of the texts where the code has another one.

    Only scripts of `TELLING` name a language: an alphabet serves many.
    """
    named = language(code)
    script = script_of(texts)
    if script and script not in TELLING and not named.is_spaced:
        return replace(named, script=script)
    if script not in TELLING or script in SHOWN.get(named.script, {named.script}):
        return named

    from babel.core import get_global

    likely = get_global("likely_subtags").get(f"und_{script}", "")
    tag = likely.split("_")[0]
    return Language(tag, tag, script)


def script_of(texts: Iterable[str]) -> str:
    """Return the ISO 15924 code of the script that most words are in.

    In scripts without spaces each letter counts as a word. The code is empty if there are no
    letters.
    """
    words: Counter[str] = Counter()
    for text in texts:
        # Accents and the like belong to the letter before them.
        scripts = [script for script in map(_script, text) if script != "Zinh"]
        for script, run in groupby(scripts):
            words[script] += sum(1 for _ in run) if script in UNSPACED else 1
    del words[""]

    if not words:
        return ""
    kana = sum(words[script] for script in KANA)
    if kana and kana >= KANA_SHARE * (kana + words["Hani"]):
        words["Hira"] = kana + words.pop("Hani", 0)

    return max(words, key=words.__getitem__)


@cache
def _script(character: str) -> str:
    """Return the script of a character; nothing for what all scripts have, such as digits."""
    from fontTools.unicodedata import script

    code = str(script(character))
    if code in ("Zyyy", "Zzzz"):
        return ""
    return code
