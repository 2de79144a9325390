"""Write the table of languages and metrics in docs/data.md from what the code knows of them.

python workflow/scripts/make_languages.py
"""

from pathlib import Path

from pam.data.languages import Language, language
from pam.runtime.files import write_text

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
    "language",
    "code",
    "spaces between words",
    "marks end sentences",
    "sacreBLEU",
    "ROUGE, CIDEr and BLEU of captions",
    "METEOR",
)


def table() -> str:
    """Return the table as Markdown, padded so that it can be read as plain text too."""
    rows = [HEADINGS, *(cells(language(code)) for code in CODES)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append(" | ".join(padded))

    lines.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in lines)


def cells(entry: Language) -> tuple[str, ...]:
    """Return the cells of a language's row."""
    if entry.has_rouge_stemmer:
        units = "words; ROUGE: their stems (Porter)"
    elif entry.is_spaced:
        units = "words"
    else:
        units = "words of `tokenize`, else characters"

    return (
        entry.name,
        f"`{entry.code}`",
        _word(entry.is_spaced),
        _word(entry.has_sentence_marks),
        ", else ".join(f"`{name}`" for name in entry.bleu_tokenizers),
        units,
        "1.5" if entry.has_meteor else "left out",
    )


def _word(answer: bool) -> str:
    return "yes" if answer else "no"


def page(text: str) -> str:
    """Return the text of docs/data.md with the table as it should be."""
    before, _, old = text.partition(BEGIN)
    _, _, after = old.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    write_text(PAGE, page(PAGE.read_text(encoding="utf-8")))
