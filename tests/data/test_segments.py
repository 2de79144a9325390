"""Test sets of WMT, whose segments are marked."""

from __future__ import annotations

from pathlib import Path

import pytest

from pam.data.readers import Segments
from pam.io import UserError

SGM = """<refset setid="newsdev2016" srclang="any" trglang="en">
<doc docid="one">
<p>
<seg id="1">Smith &amp; Sons </seg>
<seg id="2"> &lt;b&gt; is bold.</seg>
</p>
</doc>
</refset>
"""


def read(folder: Path, english: str) -> list[tuple[str, str]]:
    source, target = folder / "dev.ro", folder / "dev.en.sgm"
    source.write_text("Smith și fiii\n<b> este aldin.\n", encoding="utf-8")
    target.write_text(english, encoding="utf-8")
    files = {"dev": {"ro": source, "en": target}}
    ((split, pairs),) = Segments().read(files, ("ro", "en"))
    assert split == "dev"
    return [(one.text, other.text) for one, other in pairs]


def test_segments_stand_beside_lines_with_their_marks_unescaped(tmp_path: Path) -> None:
    assert read(tmp_path, SGM) == [
        ("Smith și fiii", "Smith & Sons"),
        ("<b> este aldin.", "<b> is bold."),
    ]


@pytest.mark.parametrize(
    ("english", "message", "line"),
    [
        (SGM.replace(" </seg>", ""), "does not end in its line", 4),
        (SGM.replace("seg", "s"), "no segments", None),
        (SGM.replace('<seg id="2"> &lt;b&gt; is bold.</seg>\n', ""), "2 lines, but", None),
    ],
)
def test_a_faulty_file_is_named(
    tmp_path: Path, english: str, message: str, line: int | None
) -> None:
    with pytest.raises(UserError, match=message) as raised:
        read(tmp_path, english)
    assert raised.value.line == line
