"""Writes the table of languages and metrics in docs/data.md from what the code knows of languages.

python workflow/scripts/make_languages.py
"""

from pathlib import Path

from pam.data.languages import Language, language
from pam.io import write_text

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/data.md"
BEGIN = (
    "<!-- languages: written by workflow/scripts/make_languages.py from pam/data/languages.py -->"
)
END = "<!-- end of languages -->"
# Languages that tests try every metric on, and some that need what those do not.
CODES = (
    *("en", "de", "ru", "tr", "vi", "ka", "el", "ar", "fa", "he", "hi", "bn", "ko"),
    *("zh", "ja", "th", "lo", "my", "km", "bo"),
)
HEADINGS = (
    *("language", "code", "spaces between words", "marks end sentences"),
    *("sacreBLEU", "ROUGE, CIDEr and BLEU of captions", "METEOR"),
)


def table() -> str:
    """The table as Markdown, padded so that it can be read as plain text too."""
    rows = [HEADINGS, *(cells(language(code)) for code in CODES)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in lines)


def cells(known: Language) -> tuple[str, ...]:
    """What a row says of a language."""
    compared = "words" if known.is_spaced else "words of `tokenize`, else characters"
    if known.has_rouge_stemmer:
        compared = "words; ROUGE: their stems (Porter)"
    return (
        known.name,
        f"`{known.code}`",
        _word(known.is_spaced),
        _word(known.has_sentence_marks),
        ", else ".join(f"`{name}`" for name in known.bleu_tokenizers),
        compared,
        "1.5" if known.has_meteor else "left out",
    )


def _word(answer: bool) -> str:
    return "yes" if answer else "no"


def page(text: str) -> str:
    """The text of docs/data.md with the table as it should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    write_text(PAGE, page(PAGE.read_text(encoding="utf-8")))
