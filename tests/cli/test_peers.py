"""`benchmarks/peers` gives turns to models of its tables, and leaves out those that fail."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from pam.data.dataset import Prepared
from pam.runtime import processor
from pam.runtime.errors import UserError
from pam.runtime.processor import Trial
from tests.training import small
from tests.warm import bin_folder

PEERS = Path(__file__).resolve().parents[2] / "benchmarks/peers"
SIZES = {"embedding": 4, "encoder": 4, "decoder": 4, "layers": 1, "dropout": 0.0, "steps": 3}


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, Any]:
    monkeypatch.syspath_prepend(PEERS)
    run, tables, products = (
        importlib.import_module(name) for name in ("run", "tables", "products")
    )
    return run, tables, products


@pytest.mark.slow
def test_all_that_can_run_have_their_turns(
    modules: tuple[Any, Any, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, tables, products = modules
    monkeypatch.setattr(sys, "executable", str(bin_folder() / "python"))
    monkeypatch.setattr(products, "SECONDS", 0.01)
    small.prepare(tmp_path / "data/nouns")
    entries = [
        tables.Entry("pam", "soft", ("float32", "bf16"), ("float32",), ("float32",)),
        tables.Entry("pam", "postr-joint:0.9", batches=2),
        tables.Entry("joeynmt", "soft"),
        tables.Entry("yoyodyne", "soft"),
        tables.Entry("eole", "soft"),
        tables.Entry("pam", "no-such-model"),
    ]
    table = tables.Table("nouns", {}, SIZES, 2, 1, 2, 1, entries, [(8, 8, 8)])
    record = run.measure(table, tmp_path)
    turns = [(row["work"], row["model"], row["setting"]) for row in record["rows"]]
    bf16 = [("pam soft", "bf16")] if processor.try_bfloat16().pays else []

    trained = [("pam soft", "float32"), *bf16, ("pam postr-joint:0.9", "float32")]
    assert turns == [
        *(("training", *turn) for turn in trained),
        ("decoding", "pam soft", "float32"),
        ("greedy", "pam soft", "float32"),
    ]
    for row in record["rows"]:
        assert 0 < row["lowest"] <= row["per_second"] <= row["highest"]
        assert row["turns"] == 2

    assert record["rows"][0]["time_vs_first"] == record["rows"][-1]["time_vs_first"] == 1

    cut = record["rows"][len(trained) - 1]
    assert 1 <= cut["positions"] <= cut["of"]
    assert record["rows"][-1]["mean_length"] == 3
    assert record["peers"]["joeynmt"] is None

    left_out = [
        line for line in capsys.readouterr().err.splitlines() if line.startswith("left out:")
    ]
    unusable = [] if bf16 else ["pam soft"]

    assert [line.split(": ")[1] for line in left_out] == [
        *unusable,
        "joeynmt soft",
        "yoyodyne soft",
        "eole soft",
        "pam no-such-model",
    ]


def test_turns_in_bfloat16_are_left_out_where_it_does_not_pay(
    modules: tuple[Any, Any, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, tables, _ = modules
    monkeypatch.setattr(
        processor, "try_bfloat16", lambda: Trial(pays=False, reason="there is none")
    )

    kept = run.without_unusable_settings(
        tables.Entry("pam", "soft", ("float32", "bf16"), ("bf16",), ("float32",))
    )
    assert (kept.training, kept.decoding, kept.greedy) == (("float32",), (), ("float32",))
    assert run.without_unusable_settings(tables.Entry("pam", "soft", ("bf16",))) is None
    assert capsys.readouterr().err == "left out: pam soft: bf16: there is none\n" * 2


def test_rows_of_a_table_are_chosen_by_system_and_model(modules: tuple[Any, Any, Any]) -> None:
    run, tables, _ = modules
    kept = run.only(tables.NOUNS, ["pam soft", "yoyodyne hard"])
    assert {entry.label for entry in kept.entries} == {
        "pam soft",
        "pam soft, encoder 64",
        "yoyodyne hard",
    }
    with pytest.raises(SystemExit, match=r"no yoyodyne soft-hard; there are .*yoyodyne hard"):
        run.only(tables.NOUNS, ["pam soft", "yoyodyne soft-hard"])


def test_a_recipe_needs_its_peer_and_data_of_its_kind(
    modules: tuple[Any, Any, Any], tmp_path: Path
) -> None:
    accuracy = importlib.import_module("accuracy")
    small.prepare(tmp_path / "nouns")
    data = Prepared(tmp_path / "nouns")

    with pytest.raises(UserError, match="yoyodyne-soft: not in the folder of peers"):
        accuracy.checked("yoyodyne-soft", data, tmp_path)
    for name in ("yoyodyne", "eole"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "COMMIT").write_text("0\n")
    assert accuracy.checked("yoyodyne-soft", data, tmp_path) == tmp_path / "yoyodyne"
    with pytest.raises(UserError, match="learns translation, and these are data of inflection"):
        accuracy.checked("eole-transformer", data, tmp_path)


def test_outputs_of_a_peer_are_scored_as_ours(
    modules: tuple[Any, Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accuracy = importlib.import_module("accuracy")
    runs = importlib.import_module("recipe_runs")
    small.prepare(tmp_path / "nouns")
    data = Prepared(tmp_path / "nouns")
    forms = [row[2] for row in data.rows("test")[:]]
    outputs = tmp_path / "outputs.txt"

    def train(run: Any) -> dict[str, Any]:
        write = f"open({str(outputs)!r}, 'w').write({chr(10).join(['x', *forms[1:], ''])!r})"
        return run.training_record(run.call("-c", write), parameters=1)

    def predict(run: Any, path: Path) -> dict[str, Any]:
        run.write_predictions(outputs, path)
        return {"cpu_s": 0.0, "wall_s": 0.0, "beam": 1}

    monkeypatch.setitem(accuracy.PEERS, "peer", ("inflection", train, predict))
    run = runs.Run("peer-model", tmp_path / "peer", data, 1, tmp_path / "run")
    scores = accuracy.scores_of(run)
    assert scores.metrics["accuracy"].value == pytest.approx(100 * (1 - 1 / len(forms)))
    assert 0 < scores.cost.cpu_s < 60
    row = accuracy.row_of(run, scores)
    assert accuracy.row_of(run, accuracy.scores_of(run)) == row

    outputs.write_text("x\n")
    with pytest.raises(UserError, match=f"1 outputs for {len(forms)} rows"):
        run.write_predictions(outputs, tmp_path / "predictions.tsv")
    with pytest.raises(UserError, match="peer-model failed: boom"):
        run.call("-c", "import sys; sys.exit('boom')")


def test_float32_products_are_float32(modules: tuple[Any, Any, Any]) -> None:
    accuracy = modules[2].accuracy()
    assert accuracy["float32"] < 1e-6 < 1e-4 < accuracy["bf16"]


def test_versions_are_those_of_the_folder(modules: tuple[Any, Any, Any], tmp_path: Path) -> None:
    run = modules[0]
    for name, version in (("joeynmt", "2.3.0"), ("OpenNMT_py", "3.5.1")):
        folder = tmp_path / name.split("_")[0].lower() / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
        )

    (tmp_path / "var-attn").mkdir()
    (tmp_path / "var-attn/COMMIT").write_text("ce2ac9a\n")

    versions = [
        run.version_of(tmp_path / name)
        for name in ("joeynmt", "opennmt", "var-attn", "neural-transducer")
    ]
    assert versions == ["2.3.0", "3.5.1", "ce2ac9a", None]
