"""Data sets drawn from the data that an installed Python package holds.

There is a generator for each package. Its fields are what one can choose, under `package: options:`
in a registry; `draw` gives file names and their texts.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from itertools import islice

from pydantic import Field

from pam.data.choices import Choices
from pam.data.cldr import Cldr
from pam.data.dataset import SPLITS
from pam.experiments.parsing import Strict
from pam.runtime.errors import UserError, unknown

# paradigms of German nouns, in the package german-nouns (Wiktionary)
TABLE = "german_nouns/nouns.csv"
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
        """Return the texts of `{train,dev,test}.tsv`: lemma, features, form, eight rows a lemma.

        Only common nouns (no names, abbreviations, phrases or nominalized adjectives) are drawn
        that have all forms, as single words, and whose lemma the table holds once. Of variants the
        first counts, as the table ranks them. Nouns are ranked by a hash of the seed and the lemma:
        neither the table's order nor a random generator matters. A UserError says that there are
        too few.
        """
        occurrences: Counter[str] = Counter()
        paradigms = {}
        with open(str(package.locate_file(TABLE)), encoding="utf-8", newline="") as file:
            for noun in csv.DictReader(file):
                lemma = noun["lemma"]
                occurrences[lemma] += 1
                if self._is_usable(noun):
                    paradigms[lemma] = [noun[cell] for cell in CELLS]

        # Two nouns of one lemma may have different forms.
        lemmas = [lemma for lemma in paradigms if occurrences[lemma] == 1]

        sizes = {split: getattr(self, split) for split in SPLITS}
        if sum(sizes.values()) > len(lemmas):
            message = (
                f"{sum(sizes.values())} lemmas are requested, but the package has {len(lemmas)}"
            )
            raise UserError(message, hint="ask for fewer in `package: options:`")

        lemmas.sort(key=lambda lemma: hashlib.sha256(f"{self.seed} {lemma}".encode()).digest())
        ranked = iter(lemmas)

        texts = {}
        for split, size in sizes.items():
            rows = []
            for lemma in islice(ranked, size):
                for features, form in zip(CELLS.values(), paradigms[lemma], strict=True):
                    rows.append(f"{lemma}\t{features}\t{form}\n")
            texts[f"{split}.tsv"] = "".join(rows)
        return texts

    def _is_usable(self, noun: dict[str, str]) -> bool:
        """Check that a row of the table is a common noun with all forms, as single words."""
        lemma = noun["lemma"]
        forms = [noun[cell] for cell in CELLS]

        if noun["pos"] != "Substantiv" or forms[0] != lemma or len(lemma) > self.longest:
            return False

        return all(form.isalpha() and form[0].isupper() and form[1:].islower() for form in forms)


# by package
GENERATORS: Choices[Cldr | GermanNouns] = {"babel": Cldr, "german-nouns": GermanNouns}


def find_generator(package: str) -> type[Cldr] | type[GermanNouns]:
    """Return the generator for a package; a UserError names the closest if there is none."""
    if package not in GENERATORS:
        raise unknown("package", package, sorted(GENERATORS))
    return GENERATORS[package]


def installed(name: str, version: str) -> Distribution:
    """Find the installed package, in whatever version, without importing it.

    The hint of a UserError installs `version`.
    """
    try:
        return distribution(name)
    except PackageNotFoundError as error:
        raise UserError(
            f"the package {name} is not installed", hint=f"pip install {name}=={version}"
        ) from error
