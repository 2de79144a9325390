"""README and the page of claims say of each figure what the stored tables say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
KEY = "mine nouns soft accuracy"


@pytest.fixture(scope="module")
def claims() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "workflow/scripts")
        import write_claims

        yield write_claims
    sys.modules.pop("write_claims")


@pytest.fixture(scope="module")
def pages(claims: Any) -> dict[Path, str]:
    """The pages as they are to be, made once: their gains are computed from stored runs."""
    made: dict[Path, str] = claims.written()
    return made


@pytest.fixture
def own(claims: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stored tables of two models, one of them with three seeds."""
    folder = tmp_path / "mine/tables"
    folder.mkdir(parents=True)
    (folder / "table2.csv").write_text(
        "task,model,metric,mean,sd,n,low,high\n"
        "nouns,soft,accuracy,84.975,0.5806,3,81.8,88.0875\nnouns,hard,accuracy,80.0,,1,78.0,82.0\n"
    )
    (folder / "table2_gains.csv").write_text(
        "task,model,metric,gain,low,high\nnouns,hard,accuracy,-4.975,-6.0,-3.994\n"
    )
    (folder / "overhead.csv").write_text("task,phase,model,ratio\nnouns,training,hard,1.254\n")
    monkeypatch.setattr(claims, "STORED", tmp_path)
    claims.tables.cache_clear()
    return claims


def test_the_pages_have_the_figures_of_the_stored_tables(pages: dict[Path, str]) -> None:
    for page, text in pages.items():
        assert page.read_text(encoding="utf-8") == text, "run python workflow/scripts/write_claims.py"


def test_readme_has_some_of_the_claims(pages: dict[Path, str]) -> None:
    rows = [text.count("\n| ") for text in pages.values()]
    assert rows[0] > 30 and rows[1] > 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{{{KEY}}} %", "84.97 ± 0.58 [81.80, 88.09] %"),
        ("{mine nouns hard accuracy}", "80.00 [78.00, 82.00]"),
        (f"{{mean {KEY}}}, {{gain mine nouns hard accuracy}}", "84.97, −4.97 [−6.00, −3.99]"),
        ("{ratio mine nouns hard training} times", "1.25 times"),
    ],
)
def test_a_figure_is_written_as_it_is_asked_for(own: Any, text: str, expected: str) -> None:
    assert own.filled(text) == expected


def test_a_gain_over_another_model_is_that_of_the_tables_where_they_have_it(claims: Any) -> None:
    gain = "gain table2 ddn13-de-verb postr-joint accuracy"
    assert claims.filled(f"{{{gain} over soft}}") == claims.filled(f"{{{gain}}}")
    with pytest.raises(SystemExit, match="no stored run has table2 ddn13-de-verb postr-joint accuracy, or nobody"):
        claims.filled(f"{{{gain} over nobody}}")


def test_trainings_are_counted_as_they_are_stored(own: Any) -> None:
    assert own.seeds(f"{{{KEY}}}, {{mine nouns hard accuracy}}") == "1-3"
    assert own.seeds(f"{{mean {KEY}}}") == "3" and own.seeds("no figure") == ""


def test_a_figure_that_is_not_stored_is_refused(own: Any) -> None:
    with pytest.raises(SystemExit, match="no stored table has gain, low, high of mine nouns soft accuracy"):
        own.filled(f"{{gain {KEY}}}")


def test_a_row_too_wide_to_read_is_refused(own: Any) -> None:
    with pytest.raises(SystemExit, match="more than 120"):
        own.table_row("a" * 120)
