"""Data sets drawn from the data that an installed Python package holds, by a generator for each
package.

Its fields are what one can choose, under `package: options:` in a registry; `draw` gives file names
and their texts.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from itertools import islice

from pydantic import Field

from pam.data.cldr import Cldr
from pam.data.dataset import SPLITS
from pam.io import Strict, UserError, unknown

TABLE = (
    "german_nouns/nouns.csv"  # paradigms of German nouns, in the package german-nouns (Wiktionary)
)
CASES = {
    "nominativ": "nominative",
    "genitiv": "genitive",
    "dativ": "dative",
    "akkusativ": "accusative",
}
# The package's columns and our names for them, in the order of Durrett and DeNero (2013).
CELLS = {
    f"{german} {n}": f"case={case},number={n}"
    for german, case in CASES.items()
    for n in ("singular", "plural")
}


class GermanNouns(Strict):
    """Draws nouns; its fields are what one can choose."""

    seed: int = Field(1, description="another seed draws other nouns")
    longest: int = Field(12, ge=1, description="letters of the longest lemma")
    train: int = Field(2364, ge=1, description="lemmas for training")
    dev: int = Field(200, ge=1, description="lemmas for development")
    test: int = Field(200, ge=1, description="lemmas for testing")

    def draw(self, package: Distribution) -> dict[str, str]:
        """Texts of `{train,dev,test}.tsv`: lemma, features, form, eight rows a lemma; a UserError
        if too few exist.

        Only common nouns (no names, abbreviations, phrases or nominalized adjectives) that have all
        forms, as single words, and whose lemma the table holds once; of variants the first counts,
        as the table ranks them. Nouns are ranked by a hash of the seed and the lemma: neither the
        table's order nor a random generator
            matters.
        """
        times: Counter[str] = Counter()
        paradigms = {}
        with open(str(package.locate_file(TABLE)), encoding="utf-8", newline="") as file:
            for noun in csv.DictReader(file):
                lemma, forms = noun["lemma"], [noun[cell] for cell in CELLS]
                times[lemma] += 1
                common = (
                    noun["pos"] == "Substantiv" and forms[0] == lemma and len(lemma) <= self.longest
                )
                if common and all(
                    form.isalpha() and form[0].isupper() and form[1:].islower() for form in forms
                ):
                    paradigms[lemma] = forms
        paradigms = {lemma: forms for lemma, forms in paradigms.items() if times[lemma] == 1}
        sizes = {name: getattr(self, name) for name in SPLITS}
        if sum(sizes.values()) > len(paradigms):
            message = f"{sum(sizes.values())} lemmas are wanted, the package has {len(paradigms)}"
            raise UserError(message, hint="ask for fewer in `package: options:`")
        ranked = iter(
            sorted(
                paradigms,
                key=lambda lemma: hashlib.sha256(f"{self.seed} {lemma}".encode()).digest(),
            )
        )
        return {
            f"{name}.tsv": "".join(
                f"{lemma}\t{features}\t{form}\n"
                for lemma in islice(ranked, size)
                for features, form in zip(CELLS.values(), paradigms[lemma], strict=True)
            )
            for name, size in sizes.items()
        }


# by package
GENERATORS: dict[str, type[Cldr] | type[GermanNouns]] = {"babel": Cldr, "german-nouns": GermanNouns}


def find_generator(package: str) -> type[Cldr] | type[GermanNouns]:
    """The generator for a package; a UserError names the closest if there is none."""
    if package not in GENERATORS:
        raise unknown("package", package, sorted(GENERATORS))
    return GENERATORS[package]


def installed(name: str, version: str) -> Distribution:
    """The installed package in whatever version, not imported; else a UserError whose hint installs
    `version`.
    """
    try:
        return distribution(name)
    except PackageNotFoundError as error:
        raise UserError(
            f"the package {name} is not installed", hint=f"pip install {name}=={version}"
        ) from error
