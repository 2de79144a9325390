"""Programs in place of models, records of aligners, and their table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pam.alignment.peers import ProgramAligner
from pam.alignment.record import AlignerRecord, GoldSentences, Hits
from pam.cli import main
from pam.data.dataset import write_summary
from pam.evaluation import two_levels
from pam.evaluation.records import load, save
from pam.evaluation.scores import Scores
from pam.evaluation.two_levels import Measured, Scatter
from pam.experiments.check import check_aligning
from pam.experiments.loading import load_plan
from pam.reporting.aligners import table
from pam.reporting.render import to_markdown
from pam.runtime.errors import UserError
from pam.tasks.alignment.metrics import alignment_agreement
from tests.workflow.checkouts import ROOT

EFLOMAL = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in -s) source="$2" ;; -f) ahead="$2" ;; -r) back="$2" ;; esac
  shift
done
while read line; do echo "0-0 1-1"; done < "$source" > "$ahead"
while read line; do echo "0-0 1-0"; done < "$source" > "$back"
"""
FAST_ALIGN = """#!/bin/sh
links="0-0"
for word in "$@"; do if [ "$word" = -r ]; then links="0-0 0-1"; fi; done
while read line; do echo "$links"; done < "$2"
"""
FAILING = "#!/bin/sh\necho 'no room' >&2\nexit 3\n"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of made-up aligners, the only one that is searched."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("eflomal-align", EFLOMAL), ("fast_align", FAST_ALIGN)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("sys.executable", str(folder / "python"))
    return folder


def test_a_program_aligns_both_ways_and_blank_pairs_have_no_links(programs: Path) -> None:
    pairs = [("a b", "x y"), ("", "z"), ("c d", "||| w")]

    expected = {"eflomal": {(0, 0), (1, 0), (1, 1)}, "fast_align": {(0, 0), (0, 1)}}
    for name, links in expected.items():
        first, blank, last = ProgramAligner(name, "union").stream(pairs)
        for alignment in (first, last):
            assert {(i, j) for i, j, _ in alignment.links} == links
        assert (blank.links, blank.source) == ([], [])
    assert next(ProgramAligner("eflomal").stream([("", "")])).links == []


def test_a_program_that_is_absent_or_fails_is_told(programs: Path) -> None:
    (programs / "fast_align").unlink()
    with pytest.raises(UserError, match="not installed"):
        ProgramAligner("fast_align")

    (programs / "eflomal-align").write_text(FAILING)
    with pytest.raises(UserError, match="exit code 3: no room"):
        list(ProgramAligner("eflomal").stream([("a", "b")]))
    with pytest.raises(UserError, match="probabilities"):
        ProgramAligner("eflomal", "product")


def gold_folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "gold.tsv").write_text("a b\tx y\n")
    links = {"sure": [[[0, 0], [1, 1]]], "possible": [[[0, 0], [1, 1], [1, 0]]]}
    (folder / "links.json").write_text(json.dumps(links))
    write_summary(folder, {"task": "alignment"})
    return folder


def test_gold_sentences_are_aligned_with_the_text_and_scored(
    programs: Path, tmp_path: Path
) -> None:
    (tmp_path / "s").write_text("c d\n\ne f\n")
    (tmp_path / "t").write_text("v w\n\nr s\n")
    out = tmp_path / "links"
    record = tmp_path / "record.json"
    words: list[object] = ["align", "--aligner", "eflomal"]
    words += ["--source", tmp_path / "s", "--target", tmp_path / "t"]
    words += ["--gold", gold_folder(tmp_path / "gold"), "--symmetrize", "union"]
    assert main([str(word) for word in [*words, "--out", out, "--record", record]]) == 0

    assert out.read_text() == "0-0 1-0 1-1\n\n0-0 1-0 1-1\n"
    written = load(AlignerRecord, record)
    assert (written.pairs, written.links, written.blank, written.directions) == (3, 6, 1, 2)
    assert written.scores is not None
    assert written.scores.metrics["aer"].value == 0
    assert written.scores.pairs == 1

    # An absent program leaves its reason.
    (programs / "eflomal-align").unlink()
    absent = tmp_path / "absent.json"
    assert main([str(word) for word in [*words, "--out", out, "--record", absent]]) == 2
    words.append("--if-installed")
    assert main([str(word) for word in [*words, "--out", out, "--record", absent]]) == 0
    rows = table([record, absent]).rows
    assert rows[0]["aligner"].text == "eflomal"
    assert (rows[0]["reading"].text, rows[0]["level"].text) == ("union", "1.000")
    readings = {row["reading"].text for row in rows}
    assert {"one direction", "opposite direction", "intersection", "union"} <= readings
    assert "not installed" in rows[-1]["reading"].text


def test_gold_sentences_do_not_belong_to_the_text(tmp_path: Path) -> None:
    gold = GoldSentences.read(gold_folder(tmp_path / "gold"))
    assert gold.scores() is None
    assert list(gold.after([("c", "d")])) == [("c", "d"), ("a b", "x y")]


@pytest.mark.parametrize(
    ("reverse", "words"),
    [("xx-yy", "no other task"), ("none", "no other task"), ("few", "no run of `soft`")],
)
def test_the_opposite_direction_is_a_task_with_the_same_runs(reverse: str, words: str) -> None:
    config = {
        "experiment": "e",
        "models": ["soft", "postr-joint"],
        "tasks": {
            "xx-yy": {"dataset": "d", "align": {"reverse": reverse}},
            "few": {"dataset": "d", "models": ["postr-joint"]},
            "yy-xx": {"dataset": "d"},
        },
    }
    with pytest.raises(UserError, match=words):
        check_aligning(load_plan(config), "xx-yy")

    config["tasks"]["xx-yy"]["align"]["reverse"] = "yy-xx"  # type: ignore[index]
    check_aligning(load_plan(config), "xx-yy")


def test_a_model_that_is_trained_for_agreement_needs_no_opposite_direction() -> None:
    config = {
        "experiment": "e",
        "models": ["soft", "transformer-aligner"],
        "tasks": {
            "xx-yy": {"dataset": "d", "align": {"reverse": "yy-xx"}},
            "yy-xx": {"dataset": "d", "models": ["soft"]},
        },
    }
    plan = load_plan(config)
    check_aligning(plan, "xx-yy")
    assert plan.reverse_task("xx-yy", "soft") == "yy-xx"
    assert plan.reverse_task("xx-yy", "transformer-aligner") is None


def test_models_of_pointer_actions_are_left_out_of_alignments() -> None:
    config = {
        "experiment": "e",
        "models": ["soft", "hard-mono"],
        "tasks": {
            "xx-yy": {"dataset": "d", "align": {"reverse": "yy-xx"}},
            "yy-xx": {"dataset": "d", "models": ["soft"]},
        },
    }
    plan = load_plan(config)
    assert list(plan.aligned_runs()) == [("xx-yy", "soft", 1), ("yy-xx", "soft", 1)]
    check_aligning(plan, "xx-yy")


def test_a_record_can_be_read_back(tmp_path: Path) -> None:
    record = AlignerRecord(
        aligner="a",
        directions=1,
        pairs=2,
        blank=0,
        problems=1,
        links=3,
        wall_s=1.0,
        cpu_s=2.0,
    )
    save(record, tmp_path / "r.json")
    assert load(AlignerRecord, tmp_path / "r.json") == record

    written = table([tmp_path / "r.json"])
    (texts,) = written.texts
    assert texts == ("a", "one direction", "3", "2", "1", "", "2.0")
    assert "| not aligned |" in to_markdown(written)


def record_of(
    folder: Path,
    name: str,
    counts: list[Hits],
    seed: int | None = None,
    pairs: int = 9,
    readings: Sequence[str] = ("one direction",),
) -> Path:
    file = folder / f"{name}{seed}-{pairs}.json"
    record = AlignerRecord(
        aligner=name,
        seed=seed,
        directions=1,
        pairs=pairs,
        blank=0,
        problems=0,
        links=9,
        wall_s=1.0,
        cpu_s=2.0,
        training_cpu_s=None if seed is None else 10.0 * seed,
        readings=dict.fromkeys(readings, counts),
    )
    save(record, file)
    return file


def test_seeds_of_a_model_are_one_row_with_its_gain_over_the_first_aligner(tmp_path: Path) -> None:
    program: list[Hits] = [[1, 1, 2, 2], [2, 2, 2, 2], [0, 1, 2, 1]]
    seeds: list[list[Hits]] = [
        [[2, 2, 2, 2], [2, 2, 2, 2], [1, 2, 2, 1]],
        [[2, 2, 2, 2], [1, 2, 2, 2], [1, 1, 1, 1]],
    ]
    files = [record_of(tmp_path, "eflomal", program)]
    files += [record_of(tmp_path, "ours", counts, seed) for seed, counts in enumerate(seeds, 1)]
    base = Measured.of(np.array([program], float), alignment_agreement, repeatable=True)
    model = Measured.of(np.array(seeds, float), alignment_agreement)
    expected = two_levels.gain(model, base, Scatter.of([base, model]))

    first, second = table(files).rows
    assert (first["aligner"].text, first["level"].text) == ("eflomal", "0.636")
    assert not first.has("gain")
    assert second["gain"].value == pytest.approx(expected.value)
    assert second["gain"].p == second["gain"].p_holm == pytest.approx(expected.p)
    assert (second["seeds"].text, second["cpu_s"].text) == ("2", "17")

    # Without a second training, its noise is not known.
    assert not table(files[:2]).rows[1].has("gain")

    other = record_of(tmp_path, "other", [[1, 1, 1, 1]], 1)
    with pytest.raises(UserError, match="different sentences"):
        table([*files, other])


HITS: list[list[Hits]] = [
    [[2, 2, 2, 2], [2, 2, 2, 2], [1, 2, 2, 1]],
    [[2, 2, 2, 2], [1, 2, 2, 2], [1, 1, 1, 1]],
    [[2, 2, 3, 2], [2, 2, 2, 2], [1, 1, 1, 1]],
]


def test_a_gain_is_judged_from_three_seeds_on(tmp_path: Path) -> None:
    files = [record_of(tmp_path, "eflomal", [[1, 1, 2, 2], [2, 2, 2, 2], [0, 1, 2, 1]])]
    files += [record_of(tmp_path, "ours", hits, seed) for seed, hits in enumerate(HITS, 1)]

    two, three = table(files[:3]).rows[1], table(files).rows[1]
    assert two.has("gain") and not two.has("outcome")
    assert three["outcome"].text in ("better", "worse", "undecided")


def test_trainings_count_once_whatever_the_number_of_their_readings(tmp_path: Path) -> None:
    p_values = []
    for readings in (["one direction"], ["one direction", "product", "union"]):
        folder = tmp_path / str(len(readings))
        folder.mkdir()
        files = [record_of(folder, "eflomal", [[1, 1, 2, 2], [2, 2, 2, 2], [0, 1, 2, 1]])]
        for seed, hits in enumerate(HITS, 1):
            files.append(record_of(folder, "ours", hits, seed, readings=readings))
        p_values.append(table(files).rows[1]["gain"].p)
    assert p_values[0] == pytest.approx(p_values[1])


def test_records_of_other_texts_are_no_seeds_and_none_counts_twice(tmp_path: Path) -> None:
    files = [record_of(tmp_path, "ours", HITS[0], 1)]
    other_text = record_of(tmp_path, "ours", HITS[1], 2, pairs=10)
    rows = table([*files, other_text]).rows
    assert [(row["pairs"].text, row["seeds"].text) for row in rows] == [("9", "1"), ("10", "1")]

    with pytest.raises(UserError, match="a second record of ours, seed 1"):
        table([*files, *files])


def test_what_was_not_scored_is_told_or_has_a_row_of_its_own(tmp_path: Path) -> None:
    scored = [record_of(tmp_path, "ours", HITS[0], 1)]
    unscored = record_of(tmp_path, "eflomal", [], readings=())
    first, last = table([*scored, unscored]).rows
    assert (first["aligner"].text, last["aligner"].text) == ("ours", "eflomal")
    assert not last.has("level")

    other = record_of(tmp_path, "ours", [], 2, readings=())
    with pytest.raises(UserError, match="not scored as those of its other seeds") as raised:
        table([*scored, other])
    assert raised.value.file == str(other)


OURS = "Transformer aligner"
GUIDED = "Transformer, the head alone, Prox-Postr-Joint, guided by eflomal"
SHOWN = {
    (GUIDED, "one direction, smoothed"): (
        "Transformer, guided by eflomal, German to English, smoothed"
    ),
    (OURS, "product, smoothed"): f"{OURS}, both directions, product, smoothed",
    (OURS, "intersection, smoothed"): f"{OURS}, both directions, intersection, smoothed",
    (OURS, "one direction, smoothed"): f"{OURS}, German to English, smoothed",
    ("eflomal", "grow-diag-final-and"): "eflomal 2.0.0, both directions, grow-diag-final-and",
    ("eflomal", "one direction"): "eflomal, German to English",
    ("fast_align", "intersection"): "fast_align, both directions, intersection",
    ("fast_align", "grow-diag-final-and"): "fast_align, both directions, grow-diag-final-and",
}
for model in ("Prior-Joint", "Prox-Postr-Joint", "Mono-Postr-Joint"):
    for reading, shown in {
        "product, smoothed": "both directions, product, smoothed",
        "one direction, smoothed": "German to English, smoothed",
    }.items():
        SHOWN[f"Transformer, the head alone, {model}", reading] = f"{model}, trained apart, {shown}"


def seeds_of(name: str) -> list[str]:
    """Name the records of three trainings."""
    return [f"{name}{suffix}" for suffix in ("", "-seed2", "-seed3")]


TALKS = [
    "eflomal",
    "fast-align",
    *seeds_of("aligner-guided"),
    *seeds_of("aligner-prior-joint"),
    *seeds_of("aligner-prox-postr-joint"),
    *seeds_of("aligner-mono-postr-joint"),
    *seeds_of("transformer-aligner"),
]


@pytest.mark.parametrize(
    ("records", "count"),
    [
        (TALKS, 14),
        (["eflomal-europarl", *seeds_of("transformer-aligner-europarl")], 5),
        (["eflomal-proceedings", "transformer-aligner-proceedings"], 5),
        (["eflomal-everyday", "transformer-aligner-everyday"], 5),
    ],
)
def test_the_page_on_alignment_has_the_figures_of_the_stored_records(
    records: list[str], count: int
) -> None:
    page = (ROOT / "docs/alignment.md").read_text(encoding="utf-8").replace("**", "")
    bench = ROOT / "results/reference/bench"
    found = 0
    files = [next(bench.glob(f"20??-??-??-{name}.json")) for name in records]
    for row in table(files).rows:
        shown = SHOWN.get((row["aligner"].text, row["reading"].text))
        if shown is not None:
            figures = f"| {shown} | {row['level'].text_with_interval} | {row['cpu_s'].text} |"
            assert figures in page
            found += 1
    assert found == count


def test_the_page_on_alignment_has_the_figures_of_the_plain_transformer() -> None:
    page = (ROOT / "docs/alignment.md").read_text(encoding="utf-8")
    scores = load(Scores, ROOT / "results/reference/bench/2026-12-01-plain-256.json")
    for reading, shown in (("head", "its best head"), ("shift_att", "Shift-Att")):
        metric = scores.metrics[f"one_minus_aer_{reading}"]
        figures = f"{metric.value:.3f} [{metric.low:.3f}, {metric.high:.3f}]"
        cost = f"{scores.training['cpu_s']:,.0f}"
        assert f"| plain Transformer of 256 units, {shown} | {figures} | {cost} |" in page
