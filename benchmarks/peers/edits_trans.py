"""Rewrite an edit distance of maxwell as the neural transducer stores its own.

python edits_trans.py EDITS
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from maxwell.sed import ParamDict
from trans.sed import ParamDict as OfTrans


def main() -> None:
    (edits,) = sys.argv[1:]
    learned = ParamDict.read_params(edits)
    of_trans = OfTrans(
        delta_sub=learned.delta_sub,
        delta_del=learned.delta_del,
        delta_ins=learned.delta_ins,
        delta_eos=learned.delta_eos,
    )
    Path(edits).write_bytes(pickle.dumps(of_trans))


if __name__ == "__main__":
    main()
