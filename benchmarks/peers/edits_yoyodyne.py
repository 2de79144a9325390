"""Give an edit distance of maxwell the numbers by which yoyodyne's transducer asks for its costs.

    python edits_yoyodyne.py EDITS TRAIN FEATURES_SEPARATOR

maxwell learns a cost for each character. yoyodyne 0.5.27 looks costs up by the numbers of symbols,
finds none, and takes the same cost for every edit, copies included.
"""

from __future__ import annotations

import sys
from pathlib import Path

from maxwell.sed import ParamDict
from yoyodyne.data import DataModule


def main() -> None:
    edits, train, separator = sys.argv[1:]
    # As the training makes it, which writes it again.
    symbols = DataModule(
        model_dir=str(Path(edits).parent),
        train=train,
        features_col=2,
        target_col=3,
        features_sep=separator,
    )
    number = symbols.index

    by_character = ParamDict.read_params(edits)
    by_number = ParamDict(
        delta_sub={
            (number(old), number(new)): weight
            for (old, new), weight in by_character.delta_sub.items()
        },
        delta_del={number(old): weight for old, weight in by_character.delta_del.items()},
        delta_ins={number(new): weight for new, weight in by_character.delta_ins.items()},
        delta_eos=by_character.delta_eos,
    )
    by_number.write_params(edits)


if __name__ == "__main__":
    main()
