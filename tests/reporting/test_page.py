"""The page of results is well formed, needs no network and says what is true."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from drawings import options_of_made, without_png
from made_runs import MadeExperiment, make_experiment
from made_translations import make_translations
from test_datasets import LINKS, NOUNS, TALKS

from pam.data.vocabulary import Vocabulary
from pam.evaluation.inputs import Counts, GroupCounts
from pam.evaluation.records import load, save
from pam.evaluation.scores import Scores
from pam.evaluation.scoring import make
from pam.experiments.experiment import Experiment
from pam.reporting import figures, render
from pam.reporting.blocks import Block, Blocks
from pam.reporting.catalogue import FIGURES, TABLES, load_papers
from pam.reporting.cells import Name
from pam.reporting.comparison import RULE, Inputs, compare
from pam.reporting.findings import cautions
from pam.reporting.groups import by_group
from pam.reporting.heat_maps import Moved, first_clear, heading, maps, moved, weights_of
from pam.reporting.introduction import PAPER, PAPER_TITLE, code_of
from pam.reporting.outputs import examples, kinds_of, marked, packed, pieces
from pam.reporting.page import Files, Page, unbroken, write
from pam.reporting.render import MODEL, TASK, Row, Table
from pam.reporting.runs import load_experiment, load_runs
from pam.reporting.tables import build
from pam.runtime.errors import UserError
from pam.runtime.files import write_json
from pam.tasks.inflection import counts as inflection

ROOT = Path(__file__).parents[2]
VOID = {"meta", "link", "img", "br", "source", "hr", "input"}
DEMONSTRATION = "A demonstration; nothing here is a benchmark."
SHARED = "dev and test share lemmas: 2, for example Ross, Uhr; scores on them are too good"
MAPS = 2  # words whose attention is shown
TASK_OF = {None: "*", "inflection": "de-noun", "translation": "de-en"}  # kind -> task's folder


def options_of(name: str, made: MadeExperiment, kind: str | None) -> list[str]:
    """Return the options of a figure of the catalogue."""
    options = options_of_made(name, made, TASK_OF[kind])
    if "--paper-table" in options:
        options += ["--paper", str(made.paper)]
    return options


def files_of(name: str, made: MadeExperiment) -> dict[str, list[Path]]:
    """Return the files of a table of the catalogue, by the fields of `Inputs`."""
    spec = TABLES[name]
    files: dict[str, list[Path]] = {}
    for option, pattern in spec.files.items():
        file = pattern.format(run="*/seed*", beam="*", task="", seed="")
        paths = sorted(made.folder.glob(f"{TASK_OF[spec.kind]}/{file}"))
        if "beam" in pattern:
            paths = [path for path in paths if path.parent.name in ("beam1", "beam4")]
        files[option.replace("-", "_")] = paths

    return files


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> MadeExperiment:
    """Nouns and sentences with all files that the page is made of.

    The sentences are a demonstration, which is configured first.
    """
    root = tmp_path_factory.mktemp("page")
    nouns = make_experiment(
        root, tasks=["de-noun"], models=["soft", "postr-joint", "mono-postr-joint"]
    )
    config = yaml.safe_load(nouns.config.read_text(encoding="utf-8"))
    talks = make_translations(root, models=["soft", "postr-joint"])
    sentences = yaml.safe_load(talks.config.read_text(encoding="utf-8"))
    demonstration = sentences["tasks"]["de-en"] | {
        "models": ["soft", "postr-joint"],
        "note": DEMONSTRATION,
        "decoding": sentences["decoding"],
    }
    config["tasks"] = {"de-en": demonstration} | config["tasks"]
    talks.config.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")

    made = MadeExperiment(talks.folder, talks.config, talks.paper)
    experiment = load_experiment(made.config)
    papers = load_papers(made.paper)
    kinds = {"de-noun": "inflection", "de-en": "translation"}
    for name, spec in TABLES.items():
        if spec.shows(experiment, kinds):
            table = build(name, Inputs(experiment, papers, **files_of(name, made)))
            render.write(table, made.folder / "tables", name)

    for name, item in FIGURES.items():
        if item.shows(experiment, kinds):
            write_figure(made, name, item.draws, options_of(name, made, item.kind))

    base, other, more = (
        str(made.run("de-noun", name) / "attention.json")
        for name in ("soft", "postr-joint", "mono-postr-joint")
    )
    options = ["--base", base, "--other", other, "--more", more, "--rows", str(MAPS)]
    write_figure(made, "attention_de-noun_seed1", "attention", options)

    return made


@without_png()
def write_figure(made: MadeExperiment, name: str, kind: str, options: list[str]) -> None:
    """Write a figure into the folder of the page, which shows SVGs alone."""
    folder = made.folder / "figures"
    if kind != "attention":
        options = [*options, "--narrow", str(folder / f"narrow/{name}.svg")]
    figures.write(kind, [*options, "--out", str(folder / f"{name}.svg")])


@pytest.fixture(scope="module")
def page(results: MadeExperiment) -> str:
    """The page of these results."""
    folder = results.folder
    files = Files(
        experiment=load_experiment(results.config),
        folder=folder,
        tables=[name for name in TABLES if (folder / f"tables/{name}.json").is_file()],
        figures=[
            *[name for name in FIGURES if (folder / f"figures/{name}.csv").is_file()],
            "attention_de-noun_seed1",
        ],
        summaries={"de-en": TALKS, "de-noun": NOUNS | {"warnings": [SHARED]}},
        gold={"de-en": LINKS},
        texts=ROOT / "workflow/report",
        outputs=[
            *folder.glob("de-noun/*/seed*/beam1/predictions.tsv"),
            *folder.glob("de-en/*/seed*/beam4/predictions.tsv"),
        ],
    )
    write(files, folder / "index.html")
    (folder / "report.html").write_text("made by Snakemake", encoding="utf-8")
    return (folder / "index.html").read_text(encoding="utf-8")


class Elements(HTMLParser):
    """The elements of a page with their attributes.

    Raises:
        ValueError: an element is not closed, or is closed where another one is open.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.feed(text)
        if self.open:
            raise ValueError(f"not closed: {self.open}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise ValueError(f"</{tag}> at {self.getpos()}")

    def all(self, attribute: str) -> Iterator[str]:
        """Return the values of an attribute of all elements that have it."""
        return (attributes[attribute] for _, attributes in self.elements if attribute in attributes)


def text_of(part: str) -> str:
    """Return the text of a part of the page, without tags."""
    return " ".join(re.sub(r"<[^>]+>", " ", part).split())


def examples_on(page: str) -> str:
    """Return the outputs that the page shows beside source and reference."""
    return "".join(re.findall(r'<article class="example".*?</article>', page, re.DOTALL))


def test_it_is_well_formed_and_each_name_is_given_once(page: str) -> None:
    elements = Elements(page)
    assert max(Counter(elements.all("id")).values()) == 1


def test_every_link_and_download_leads_somewhere_and_nothing_is_fetched(
    page: str, results: MadeExperiment
) -> None:
    elements = Elements(page)
    names = set(elements.all("id"))
    for address in [*elements.all("href"), *elements.all("src")]:
        if address.startswith("#"):
            assert address[1:] in names
        elif not address.startswith(("data:", "https://")):
            assert (results.folder / address).is_file(), address

    assert not re.search(r"url\(|@import|<(script|iframe|object)[^>]+(src|data)=", page)
    assert "default-src 'none'" in page


def test_every_table_and_figure_can_be_saved_from_the_page(
    page: str, results: MadeExperiment
) -> None:
    saved = {}
    for _, attributes in Elements(page).elements:
        if attributes.get("href", "").startswith("data:") and "download" in attributes:
            saved[attributes["download"]] = base64.b64decode(
                attributes["href"].partition("base64,")[2]
            )

    for folder, endings in (("tables", ("csv", "tex")), ("figures", ("csv",))):
        for path in (results.folder / folder).glob("*.*"):
            # A figure of one point is left out.
            is_point = folder == "figures" and len(render.read_csv(path.with_suffix(".csv"))) == 1
            if path.suffix[1:] in endings and not is_point:
                assert saved[path.name] == path.read_bytes()

    assert b"1200" in saved["data2.csv"] and b"tabular" in saved["data2.tex"]


def test_the_front_answers_the_question_and_links_the_paper(
    page: str,
) -> None:
    front = page.partition("<body>")[2].partition('<section id="cautions"')[0]
    found = front.partition('class="finding">')[2].partition("</dd>")[0]
    lead = front.partition("<dl")[0]
    assert f'href="{PAPER}">{PAPER_TITLE}' in lead
    assert "Soft is the usual attention" in lead
    assert "Postr-Joint and Mono-Postr-Joint have posterior attention" in lead

    assert "de-N" in found and "Mono-Postr-Joint" in found
    assert "86.87" in front  # the paper's figure
    # A score of the demonstration.
    assert "BLEU" not in found


def test_an_interval_and_a_unit_stay_in_one_line() -> None:
    assert unbroken("On a [+1.2, −2] and 83 % b") == "On a [+1.2,\xa0−2] and 83\xa0% b"


def test_the_code_that_trained_is_named_with_its_runs_where_it_differs() -> None:
    records = [{"versions": {"pam": "0.1", "commit": commit}} for commit in ("aa", "bb", "bb")]
    assert code_of(records[:1]) == ["pam 0.1, commit aa"]
    assert code_of(records) == ["pam 0.1, commit bb (2 runs)", "pam 0.1, commit aa (1 run)"]
    assert code_of([]) == []


def test_the_same_commit_with_more_letters_is_the_same_commit() -> None:
    commits = ("54b9356", "54b9356f8c46")
    records = [{"versions": {"pam": "0.1", "commit": commit}} for commit in commits]

    assert code_of(records) == ["pam 0.1, commit 54b9356"]


def test_a_restored_run_is_shown_with_the_commit_of_its_code(tmp_path: Path) -> None:
    made = make_experiment(
        tmp_path, tasks=["de-noun"], models=["soft", "postr-joint"], seeds=[1], count=8
    )
    files = small_page(made, ["table2", "costs"])
    files = replace(files, runs=load_runs(made.scores, files.experiment))
    write_json(made.run("de-noun", "soft") / "restored.json", {"commit": "0123456789ab"})
    code = Page(files).content()["code"]
    assert any("commit 0123456 (1 run)" in line for line in code)


def test_a_demonstration_comes_last_and_is_told_as_one(page: str) -> None:
    last = page.rpartition("<h2>")[2]

    assert DEMONSTRATION in last
    assert re.search(r"<t[dh][^>]*>de-en", last) or "<h3>de-en" in last


def test_figures_have_caption_data_and_what_bears_on_them(page: str) -> None:
    for figure in re.findall(r'<figure class="block".*?</figure>', page, re.DOTALL):
        assert "<figcaption>" in figure and "<td" in figure and "data:image/svg+xml" in figure
        open_part, folded_part = figure.split("<details>")
        assert "<td" not in open_part and "--configfile" not in open_part
        assert "<td" in folded_part and "--configfile" in folded_part

    number = re.search(rf'<li id="caution-(\d+)">de-N: {re.escape(SHARED)}</li>', page)
    accuracy = page.partition('<figure class="block" id="accuracy"')[2].partition("</figure>")[0]

    assert number is not None
    assert f'href="#caution-{number[1]}">⚠{number[1]}</a>' in accuracy


def test_each_caution_is_said_once(page: str) -> None:
    items = re.findall(r'<li id="caution-\d+">[^:]+: ([^<]+)</li>', page)
    assert items
    for text in items:
        assert page.count(text) == 1


def test_the_first_table_marks_the_best_model_and_has_the_papers_gain(page: str) -> None:
    table = page.partition('<table class="ranking">')[2].partition("</table>")[0]
    (best,) = re.findall(r'<tr class="best">(.*?)</tr>', table, re.DOTALL)
    assert "Mono-Postr-Joint" in best
    assert "<td>+1.37</td>" in best


def small_page(made: MadeExperiment, tables: list[str]) -> Files:
    """Make these tables of nouns and the learning curves, and return the files of their page."""
    experiment = load_experiment(made.config)
    for name in tables:
        inputs = Inputs(experiment, load_papers(made.paper), **files_of(name, made))
        render.write(build(name, inputs), made.folder / "tables", name)
    write_figure(made, "curves", "curves", options_of("curves", made, "inflection"))

    return Files(
        experiment=experiment,
        folder=made.folder,
        tables=tables,
        figures=["curves"],
        summaries={"de-noun": NOUNS},
        gold={},
        texts=ROOT / "workflow/report",
    )


def test_a_mark_of_the_papers_gain_is_explained_below_the_first_table(tmp_path: Path) -> None:
    made = make_experiment(
        tmp_path,
        tasks=["de-noun"],
        models=["soft", "postr-joint"],
        seeds=[1],
        count=8,
        paper=False,
    )
    content = Page(small_page(made, ["table2", "costs"])).content()
    (rank,) = content["rankings"]
    assert [row.paper.text if row.paper else "" for row in rank.rows] == ["", "+0.38*"]
    assert rank.note.startswith("*")


def test_every_task_of_the_first_screen_has_its_answer(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, models=["soft", "postr-joint"], seeds=[1], count=8)
    files = small_page(made, [])
    inputs = Inputs(files.experiment, load_papers(made.paper), scores=made.scores)
    tables = ["table2", "table2_gains", "costs"]
    for name in tables:
        render.write(build(name, inputs), made.folder / "tables", name)
    summaries = dict.fromkeys(("de-noun", "de-verb"), NOUNS)

    page = Page(replace(files, tables=tables, summaries=summaries))

    nouns, verbs = page.content()["answers"]
    assert "de-N" in nouns and "de-V" in verbs


@pytest.mark.parametrize(
    ("labels", "title"),
    [({"a": "Task A"}, "Costs"), ({"a": "Task A", "b": "Task B"}, "Task A: Costs")],
    ids=["on a page of one task", "on a page of two"],
)
def test_a_table_of_one_task_names_it_at_most_in_its_title(
    results: MadeExperiment, labels: dict[str, str], title: str
) -> None:
    run = Row({"task": Name("a", "Task A"), "model": Name("soft", "Soft")})
    table = Table(
        title="Costs",
        rows=[run, Row({"model": Name("", "All")})],
        columns=[TASK, MODEL],
    )
    blocks = Blocks(
        experiment=load_experiment(results.config),
        folder=results.folder,
        config=results.config,
        tables={},
        texts=ROOT,
        labels=labels,
        model_names={},
        cautions=[],
    )

    block = blocks.made_here(table, "costs")
    assert block.title == title
    assert text_of(block.html) == "Model Soft All"


def test_where_all_models_are_equal_none_is_the_best(tmp_path: Path) -> None:
    models = ["soft", "postr-joint"]
    made = make_experiment(tmp_path, tasks=["de-noun"], models=models, seeds=[1], count=8)
    files = small_page(made, ["table2", "costs"])
    folder = made.folder / "tables"
    table = render.read(folder, "table2")
    rows = [Row({**row.cells, "level": replace(row["level"], value=50.0)}) for row in table.rows]
    render.write(replace(table, rows=rows), folder, "table2")

    (rank,) = Page(files).content()["rankings"]

    assert [row.is_best for row in rank.rows] == [False, False]


def test_a_page_of_own_data_speaks_of_no_paper_and_judges_no_single_seed(tmp_path: Path) -> None:
    made = make_experiment(
        tmp_path, tasks=["de-noun"], models=["soft", "postr-joint"], seeds=[1], count=8
    )
    config = yaml.safe_load(made.config.read_text(encoding="utf-8"))
    del config["tasks"]["de-noun"]["paper"]
    made.config.write_text(yaml.safe_dump(config), encoding="utf-8")
    files = small_page(made, ["table2", "table2_gains", "form_examples", "costs"])
    write(files, made.folder / "index.html")
    page = (made.folder / "index.html").read_text(encoding="utf-8")

    words = re.sub('data:[^"]*', "", page.partition("</style>")[2]).lower()
    for text in ("paper", "verdict", "shankar", "table 2", "standard deviation"):
        assert text not in words, text

    assert "not judged" in words


def test_every_row_of_every_table_has_a_heading_and_numbers_have_minus_signs(page: str) -> None:
    for body in re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL):
        for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL):
            (heading_text,) = re.findall(r'<th scope="row"[^>]*>(.*?)</th>', row)
            assert text_of(heading_text), row
    for head in re.findall(r"<thead>(.*?)</thead>", page, re.DOTALL):
        assert head.count("<th") == head.count('scope="col"')

    cells = re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", page)
    assert any("−" in cell for cell in cells)
    assert not [cell for cell in cells if re.search(r"(?<![\w-])-\d", cell)]


def test_the_rule_of_verdicts_is_on_the_page(page: str) -> None:
    (folded,) = re.findall(r'<details class="rule printed">(.*?)</details>', page, re.DOTALL)
    paragraphs = re.findall(r"<p>(.*?)</p>", folded, re.DOTALL)

    assert " ".join(paragraphs) == render.paragraph(RULE)[len("<p>") : -len("</p>")]


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        ("accuracy", ["de-N", "Mono-Postr-Joint"]),
        ("gains", ["de-N", "Mono-Postr-Joint", "Soft"]),
        ("perplexity", ["de-en", "Postr-Joint"]),
    ],
)
def test_captions_name_the_task_and_the_best_model(
    figure: str, words: list[str], page: str
) -> None:
    block = page.partition(f'<figure class="block" id="{figure}"')[2].partition("</figure>")[0]
    caption = text_of(block.partition("<figcaption>")[2].partition("</p>")[0])

    assert all(word in caption for word in words), caption


def test_maps_are_headed_by_their_words() -> None:
    source = ["case=dative", "H", "a", "u", "s", "</s>"]
    assert heading(source, ["H", "a", "u", "s", "e", "</s>"]) == "Haus → Hause"
    assert heading(["ein", "Haus", "</s>"], ["a", "house", "</s>"]) == "ein Haus → a house"


def test_weights_of_attention_can_be_pointed_at(page: str, results: MadeExperiment) -> None:
    block = page.partition('id="attention_de-noun_seed1"')[2].partition('<p class="downloads">')[0]
    file = results.run("de-noun", "soft") / "attention.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    weight = rows[0]["alignment"][1][2]
    title = f'title="{rows[0]["target"][1]} → {rows[0]["source"][2]}: {round(weight, 4):.3f}"'

    assert title in block
    assert block.count("<table>") == 3 * MAPS < 3 * len(rows)


def test_attention_of_more_than_two_models_can_be_chosen(page: str) -> None:
    block = page.partition('id="attention_de-noun_seed1"')[2].partition("</section>")[0]
    boxes = re.findall(r'<label><input type="checkbox"([^>]*)>\s*([^<]+)</label>', block)
    assert [label for _, label in boxes] == ["Soft", "Postr-Joint", "Mono-Postr-Joint"]
    assert ["checked" in attributes for attributes, _ in boxes] == [True, True, False]

    text = block.partition('<script type="application/json" class="weights">')[2]
    content = json.loads(text.partition("</script>")[0])
    assert content["labels"] == ["Soft", "Postr-Joint", "Mono-Postr-Joint"]
    map_models = re.findall(r'<div class="map[^"]*" data-models="([^"]*)">', block)
    assert map_models == ["0", "1", "0 1"] * len(content["weights"][0])


def test_a_label_cannot_end_the_script_that_holds_the_weights() -> None:
    label = "</script><script>alert(1)"
    part = {"models": [(label, [[1.0]])]}
    text = weights_of([part])
    assert "<" not in text
    assert json.loads(text) == {"labels": [label], "weights": [[[[1.0]]]]}


def test_forms_are_compared_by_letter_and_sentences_by_word() -> None:
    assert pieces("Zeiträumen", "Zeitraume", letters=True) == [
        ("same", "Zeitr"),
        ("missing", "ä"),
        ("added", "a"),
        ("same", "ume"),
        ("missing", "n"),
    ]
    assert pieces("a red wall", "a wall .", letters=False) == [
        ("same", "a"),
        ("missing", "red"),
        ("same", "wall"),
        ("added", "."),
    ]
    assert pieces("a", "a", letters=False) == [("same", "a")]


def test_outputs_are_beside_source_and_reference(page: str) -> None:
    outputs = examples_on(page)
    assert "<ins>x</ins>" in outputs
    names = ["Source", "Reference", "Soft", "Postr-Joint", "Mono-Postr-Joint"]

    assert re.findall(r"<dt>([^<]+)</dt>", outputs)[:5] == names


def test_the_rows_of_the_whole_test_split_are_packed_into_the_page(page: str) -> None:
    script = re.search(r'<script type="[^"]+" class="whole"[^>]*>([^<]+)</script>', page)
    assert script is not None
    rows = json.loads(gzip.decompress(base64.b64decode(script[1])))

    assert [row[1] for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) > examples_on(page).count("<article")


def test_packed_rows_are_fewer_where_all_would_be_too_large() -> None:
    generator = random.Random(1)
    parts = [
        {
            "task": "T",
            "number": number,
            "kinds": [],
            "difference": 0,
            "given": [("Source", "".join(generator.choices("abcdefgh", k=50)))],
            "outputs": [],
        }
        for number in range(1, 101)
    ]
    whole = packed(parts)
    assert (whole.rows, whole.every) == (100, 1)

    part = packed(parts, most_bytes=len(whole.content) // 3)
    assert part.every > 1 and part.rows == -(-100 // part.every)
    assert len(part.content) <= len(whole.content) // 3


@pytest.mark.parametrize(
    ("outputs", "kinds"),
    [
        (["abc", "abc"], ["all-right"]),
        (["abc", "abd"], ["disagree", "replaced"]),
        (["ab", "abcd"], ["all-wrong", "missing", "added"]),
        ([""], ["all-wrong", "missing", "empty"]),
    ],
)
def test_a_row_is_chosen_by_the_kinds_of_its_errors(outputs: list[str], kinds: list[str]) -> None:
    compared = [marked(pieces("abc", output, letters=True), []) for output in outputs]
    assert kinds_of(compared) == kinds


def test_words_that_look_like_markup_are_shown_as_words() -> None:
    lines = [
        ("t", "1", "", "Source", "<b>"),
        ("t", "1", "", "Reference", "a"),
        ("t", "1", "m", "<i>M</i>", ""),
    ]
    frame = pd.DataFrame(lines, columns=["task", "sentence", "model", "label", "text"])
    (example,) = examples(frame, {"t": "T"}, letters=False)

    assert example["outputs"] == [("<i>M</i>", [("missing", "", "a")])]


def test_an_output_is_compared_with_the_nearest_of_several_references() -> None:
    texts = {
        "Source": "clip 1",
        "Reference": "a man sings",
        "Another reference": "a cat runs",
        "Soft": "a cat sleeps",
    }
    rows = [
        ("t", 1, "soft" if label == "Soft" else "", label, text) for label, text in texts.items()
    ]
    frame = pd.DataFrame(rows, columns=["task", "sentence", "model", "label", "text"])

    (example,) = examples(frame, {"t": "T"}, letters=False)

    assert example["given"] == [(label, text) for label, text in texts.items() if label != "Soft"]

    (output,) = example["outputs"]
    assert output == (
        "Soft",
        [("same", "", "a cat"), ("missing", "", "runs"), ("added", "", "sleeps")],
    )


def test_words_are_marked_by_where_they_come_from_beside_what_the_reference_has() -> None:
    compared = pieces("a red wall", "a yak near zebra wall", letters=False)
    assert marked(compared, ["source", "adopted", "novel", "novel", "source"]) == [
        ("same", "", "a"),
        ("missing", "", "red"),
        ("added", "adopted", "yak"),
        ("added", "novel", "near zebra"),
        ("same", "", "wall"),
    ]
    assert marked(compared, []) == [(kind, "", text) for kind, text in compared]


def test_rows_between_the_reference_and_the_models_take_no_marks_of_theirs() -> None:
    lines = [
        ("t", "1", "", "Source", "a b", ""),
        ("t", "1", "", "Reference", "a", ""),
        ("t", "1", "", "Another reference", "b", ""),
        ("t", "1", "m", "M", "a c", "source novel"),
    ]
    frame = pd.DataFrame(lines, columns=["task", "sentence", "model", "label", "text", "origins"])
    (example,) = examples(frame, {"t": "T"}, letters=False)

    assert example["outputs"] == [("M", [("same", "", "a"), ("added", "novel", "c")])]


@pytest.fixture(scope="module")
def summaries(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of made-up summaries, of which one table is shown."""
    made = make_translations(
        tmp_path_factory.mktemp("summaries"), models=["soft", "postr-joint"], seeds=[1], count=6
    )
    data = made.run("de-en", "soft").parents[1] / "data"
    Vocabulary(["the", "der", "."]).save(data / "target.vocab")
    for path in made.predictions:
        text = path.read_text(encoding="utf-8").replace("the ", "der mann ")
        path.write_text(text, encoding="utf-8")

    experiment = load_experiment(made.config)
    papers = load_papers(made.paper)
    inputs = {
        "summary_examples": Inputs(experiment, papers, predictions=made.predictions),
        "costs": Inputs(experiment, papers, scores=made.scores),
    }
    for name, of_table in inputs.items():
        render.write(build(name, of_table), made.folder / "tables", name)
    write_figure(made, "curves", "curves", options_of("curves", made, "translation"))

    files = Files(
        experiment=experiment,
        folder=made.folder,
        tables=list(inputs),
        figures=["curves"],
        summaries={"de-en": TALKS | {"task": "summarization"}},
        gold={},
        texts=ROOT / "workflow/report",
    )
    page = made.folder / "index.html"
    write(files, page)
    return page.read_text(encoding="utf-8")


def test_novel_and_adopted_words_are_marked_on_the_page(summaries: str, page: str) -> None:
    Elements(summaries)  # is well formed
    outputs = examples_on(summaries)

    assert re.search(r'<mark class="novel" title="novel">[^<]+</mark>', outputs)
    assert '<mark class="adopted" title="adopted">mann</mark>' in outputs
    assert "<mark" not in page


@pytest.mark.parametrize("kind", ["novel", "adopted"])
def test_marks_can_be_read_and_are_more_than_a_color(kind: str) -> None:
    """Check the contrast of the two colors of text and of the line below.

    WCAG asks 4.5 to 1 of text, and 3 to 1 of the line.
    """
    style = (ROOT / "workflow/report/page/page.css").read_text(encoding="utf-8")
    light, dark = (mode.partition("}")[0] for mode in style.split(":root", 2)[1:])
    background, line = re.findall(
        rf"\.{kind} {{ background: var\(--(\w+)\); border-bottom: 3px \w+ var\(--(\w+)\);", style
    )[0]
    for mode in (light, dark):
        colors = dict(re.findall(r"--(\w+): (#\w+);", mode))
        for color, least in (("ink", 4.5), ("bad", 4.5), (line, 3)):
            assert contrast(colors[background], colors[color]) >= least


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colors, by WCAG: 1 if they are the same, at most 21."""
    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("ground", ["paper", "shade", "warn"])
def test_words_can_be_read_in_light_and_in_the_dark(ground: str) -> None:
    style = (ROOT / "workflow/report/page/page.css").read_text(encoding="utf-8")
    for mode in style.split(":root", 2)[1:]:
        colors = dict(re.findall(r"--(\w+): (#\w+);", mode.partition("}")[0]))
        for color in ("ink", "soft", "good", "bad", "link"):
            assert contrast(colors[ground], colors[color]) >= 4.5, (ground, color)


def luminance(color: str) -> float:
    """Return the relative luminance, by WCAG, of a color such as `#1a1a1a` or `#333`."""
    digits = color[1:]
    if len(digits) == 3:
        digits = "".join(2 * digit for digit in digits)

    linear = []
    for start in (0, 2, 4):
        part = int(digits[start : start + 2], 16) / 255
        linear.append(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_maps_hold_the_weights_in_their_places_and_the_difference() -> None:
    lines = [
        ("1", label, str(target), f"t{target}", str(source), f"s{source}", str(weight))
        for label, sharp in (("A", 0.1), ("B", 0.3))
        for target in range(2)
        for source, weight in enumerate((sharp + target / 10, 0.5, 0.2))
    ]
    columns = ["row", "label", "target_place", "target", "source_place", "source", "weight"]
    (row,) = maps(pd.DataFrame(lines, columns=columns))

    assert (row["source"], row["target"]) == (["s0", "s1", "s2"], ["t0", "t1"])

    assert [label for label, _ in row["models"]] == ["A", "B"]
    assert [label for label, _ in row["shown"]] == ["A", "B", "B − A"]
    assert row["models"][0][1] == [[0.1, 0.2], [0.5, 0.5], [0.2, 0.2]]
    assert row["shown"][2][1][0] == [pytest.approx(0.2)] * 2


def test_the_first_screen_shows_a_clear_move_of_the_first_task_that_has_one() -> None:
    def moving(shift: float) -> Moved:
        maps_of_row = [("Prior", [[0.1]]), ("Posterior", [[0.1 + shift]])]
        return Moved(f"by {shift}", "s -> t", ["s"], ["t"], maps_of_row, (0, 0))

    slight, clear, larger = map(moving, (0.1, 0.4, 0.8))
    assert first_clear([slight, clear, larger]) == clear
    assert first_clear([slight, moving(0.2)]) == moving(0.2)
    assert first_clear([]) is None


def test_the_square_that_a_written_symbol_moves_most_is_chosen_of_what_can_be_read() -> None:
    def cells(row: str, label: str, priors: list[float], weights: list[float]) -> list[Any]:
        return [
            (row, label, "0", "t", str(place), f"s{place}", str(weight), str(prior))
            for place, (prior, weight) in enumerate(zip(priors, weights, strict=True))
        ]

    columns = ["row", "label", "target_place", "target", "source_place", "source"]
    lines = [
        *cells("1", "Soft", [0.5, 0.5], [0.5, 0.5]),
        *cells("1", "Postr", [0.5, 0.5], [0.3, 0.7]),
        *cells("2", "Postr", [0.1, 0.6, 0.3], [0.9, 0.1, 0.0]),
    ]
    data = pd.DataFrame(lines, columns=[*columns, "weight", "prior"])

    largest = moved(data, most_cells=100)
    assert largest is not None and largest.label == "Postr"
    assert (largest.source[largest.place[0]], largest.weights) == ("s0", (0.1, 0.9))

    readable = moved(data, most_cells=2)
    assert readable is not None and readable.weights == (0.5, 0.7)
    assert not readable.is_slight
    assert moved(data[data["label"] == "Soft"], most_cells=100) is None
    assert moved(data.drop(columns="prior"), most_cells=100) is None


# Cautions on figures.


def histories(*runs: tuple[str, list[float]]) -> pd.DataFrame:
    """Return the learning curves of runs: a label, and the accuracy after each epoch."""
    lines = [
        ("nouns", label, "1", str(epoch), str(10 * epoch), str(accuracy))
        for label, accuracies in runs
        for epoch, accuracy in enumerate(accuracies, start=1)
    ]
    return pd.DataFrame(lines, columns=["task", "label", "seed", "epoch", "step", "dev_accuracy"])


@pytest.mark.parametrize(
    ("runs", "named"),
    [
        ([("Soft", [0.7, 0.8, 0.801])], []),
        ([("Soft", [0.7, 0.8, 0.83])], ["Soft", "+3.0 points"]),
        ([("Soft", [0.9, 0.8, 0.83])], []),
        ([("Soft", [0.8]), ("Hard", [0.8, 0.8])], ["10 steps: Soft", "20 steps: Hard"]),
    ],
)
def test_trainings_that_ended_too_early_or_differ_in_length_are_named(
    runs: Any, named: list[str]
) -> None:
    experiment = load_experiment_of({"nouns": {"dataset": "nouns"}})
    texts = cautions(experiment, {"nouns": {}}, histories(*runs))["nouns"]

    assert len(texts) == bool(named)
    assert all(words in text for text in texts for words in named)


def test_what_the_data_warn_of_and_figures_of_other_data_bear_on_a_task() -> None:
    experiment = load_experiment_of({"nouns": {"dataset": "nouns", "paper_reference": "de-N"}})
    by_task = cautions(experiment, {"nouns": {"warnings": [SHARED]}}, histories(("Soft", [0.8])))
    warning, of_paper = by_task["nouns"]

    assert warning == SHARED and "paper" in of_paper


def test_outputs_that_a_limit_spoils_are_cautions_of_every_kind_of_task(
    made: MadeExperiment,
) -> None:
    experiment = load_experiment(made.config)
    runs = load_runs(made.scores, experiment)
    task = runs[0].name
    label = runs[0].runs[0].label
    counted = {"sentences": 200, "source_symbols": 900, "symbols": 1000, "cut_short": 7}
    counted |= {"references_beyond_limit": 150, "empty": 3, "unknown": 1, "unseen_total": 300}
    recorded = runs[0].runs[0].scores.decoding
    recorded.clear()
    recorded["1"] = counted

    summaries = {name: {} for name in experiment.tasks}
    curves = histories(("Soft", [0.8]))
    texts = cautions(experiment, summaries, curves, runs=runs)[task]

    for share in ("7 of 200", "150 of 200", "300 of 900"):
        assert sum(f"{label} {share}" in text for text in texts) == 1
    # Single unknown symbols are in most translations.
    assert not any("1 of 1,000" in text for text in texts)


@pytest.mark.parametrize(
    ("metric", "means", "named"),
    [
        ("bleu_b4", ["0.0", "0.0"], ["BLEU", "beam 4", "0"]),
        ("accuracy", ["100.0", "100.0"], ["Accuracy", "100 %"]),
        ("wer_b4", ["100.0", "100.0"], ["Word error rate", "beam 4", "100 %"]),
        ("rouge_coco", ["1.0", "1.0"], ["ROUGE-L", "1"]),
        ("bleu_b4", ["0.0", "0.1"], []),
        # A metric that judges no output may be 0 for all.
        ("novel_words", ["0.0", "0.0"], []),
        ("length_ratio_b4", ["0.0", "0.0"], []),
    ],
)
def test_a_score_that_is_the_lowest_or_highest_for_all_models_is_a_caution(
    metric: str, means: list[str], named: list[str]
) -> None:
    experiment = load_experiment_of({"nouns": {"dataset": "nouns"}}).model_copy(
        update={"models": ["soft", "hard"]}
    )
    rows = [
        ("nouns", model, metric, mean) for model, mean in zip(("soft", "hard"), means, strict=True)
    ]
    # A control, which is no model of the experiment, does not count.
    rows.append(("nouns", "lead", metric, "50.0"))
    table = pd.DataFrame(rows, columns=["task", "model", "metric", "mean"])

    texts = cautions(experiment, {"nouns": {}}, histories(("Soft", [0.8])), [table])["nouns"]

    assert len(texts) == bool(named)
    assert all(words in text for text in texts for words in named)


REASON = "BLEU is not defined for these references, none of which has four words"


def test_a_page_whose_main_metric_was_left_out_says_why(tmp_path: Path) -> None:
    made = make_translations(tmp_path, models=["soft", "postr-joint"], count=20, seeds=(1,))
    for path in made.scores:
        scores = json.loads(path.read_text(encoding="utf-8"))
        scores["metrics"] = {
            name: metric for name, metric in scores["metrics"].items() if "bleu" not in name
        }
        scores["details"]["left_out"] = [REASON]
        path.write_text(json.dumps(scores), encoding="utf-8")

    experiment = load_experiment(made.config)
    inputs = Inputs(experiment, load_papers(made.paper), scores=made.scores)
    tables = ["table1", "table1_gains", "table_acvi_mt", "attentions", "costs", "environment"]
    for name in tables:
        render.write(build(name, inputs), made.folder / "tables", name)
    text = (made.folder / "tables/table_acvi_mt.md").read_text(encoding="utf-8")

    assert REASON in text

    drawn = ["bleu", "bleu_gains", "bleu_by_length", "bleu_cost", "curves"]
    for name in drawn:
        options = options_of(name, made, "translation")
        write_figure(made, name, FIGURES[name].draws, options)
    files = Files(
        experiment=experiment,
        folder=made.folder,
        tables=tables,
        figures=drawn,
        summaries={"de-en": TALKS},
        gold={},
        texts=ROOT / "workflow/report",
    )
    content = Page(files).content()

    (answer,) = content["answers"]
    assert "perplexity" in answer
    # The metric that is there is compared; a figure of one that is not has no row.
    assert [block.name for block in content["front"]] == ["bleu_gains", "table1"]
    with pytest.raises(UserError, match="unknown metric `bluu_b"):
        compare(inputs.tasks, experiment, ["bluu_b*"], None)


def load_experiment_of(tasks: dict[str, Any]) -> Any:
    """Return an experiment with one model and these tasks."""
    return Experiment.model_validate({"experiment": "x", "models": ["soft"], "tasks": tasks})


# The page in a browser.

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PROBE = """<script>
const errors = [];
addEventListener("error", (event) => errors.push(event.message));
console.error = (...words) => errors.push(words.join(" "));
addEventListener("load", async () => {
  const press = (element, key) => {
    element.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
  };
  const cell = document.querySelector(".block .map td[title]");
  cell.dispatchEvent(new Event("pointerover", {bubbles: true}));
  const said = [...cell.closest(".maps").querySelectorAll("output")].map((one) => one.textContent);
  cell.focus();
  press(cell, "ArrowRight");
  const moved = document.activeElement === cell.nextElementSibling;
  const boxes = [...document.querySelectorAll(".pick input")];
  boxes[2].click();
  const shown = [...cell.closest(".maps").children].filter((map) => !map.hidden);
  const chosen = shown.map((map) => map.querySelector("h5").textContent);
  const weights = shown.map((map) => map.querySelector("td[title]").title);
  boxes[0].click();
  const pair = [...cell.closest(".maps").children].filter((map) => !map.hidden);
  const difference = pair.map((map) => map.querySelector("h5").textContent);
  const model = document.querySelector(".model");
  model.dispatchEvent(new Event("pointerover", {bubbles: true}));
  const explained = document.getElementById("hint").textContent;
  const table = document.querySelector(".more table");
  const column = [...table.tHead.rows[0].cells].findIndex((one) => one.textContent === "Ours");
  table.tHead.rows[0].cells[column].click();
  const sorted = [...table.tBodies[0].rows].map((row) => parseFloat(row.cells[column].textContent));
  const form = document.querySelector(".choose:not(.pick)");
  const block = form.closest(".block");
  const open = () => [...block.querySelectorAll(".example")];
  const first = open().length;
  const shape = (card) => card.outerHTML.replace(/ data-\\w+="[^"]*"|\\s+(?=<)|(?<=>)\\s+/g, "");
  const shapes = new Set(open().map(shape));
  block.querySelector(".choose button").click();
  while (block.querySelector(".choose button")) await new Promise((next) => setTimeout(next, 10));
  const loaded = form.querySelector("output").textContent;
  for (let step = 0; step < 20; step += 1) block.querySelector(".rows + button").click();
  const cards = open();
  cards.forEach((card) => shapes.delete(shape(card)));
  form.elements.words.value = open()[0].querySelector("dd").textContent.slice(0, 8);
  form.dispatchEvent(new Event("input", {bubbles: true}));
  const fitting = open();
  const scrolls = (one) => one.closest(".scroll, .frame, nav");
  const beyond = (one) => one.getBoundingClientRect().right > innerWidth + 1 && !scrolls(one);
  const resources = performance.getEntriesByType("resource");
  const saves = [...document.querySelectorAll("a.save")];
  const shows = (one, name) => one.querySelector(`.${name}`).offsetWidth > 0;
  const frames = [...document.querySelectorAll(".frame:not(.wide-only)")];
  parent.postMessage({
    width: innerWidth,
    errors,
    beyond: [...document.querySelectorAll("body *")].filter(beyond).length,
    hidden: [...document.querySelectorAll("th, td")]
      .filter((one) => one.offsetWidth === 0 && !one.closest("[hidden]")).length,
    fetched: resources.filter((one) => !one.name.startsWith("data:")).length,
    saved: saves.every((one) => one.href.startsWith("data:image/svg")),
    narrow: frames.every((one) => shows(one, "narrow") && !shows(one, "wide")),
    wide: frames.every((one) => shows(one, "wide") && !shows(one, "narrow")),
    cut: [...document.querySelectorAll(".shift .scroll")]
      .filter((one) => one.scrollWidth > one.clientWidth + 1).length,
    scrolling: frames.filter((one) => one.scrollWidth > one.clientWidth + 1).length,
    said,
    moved,
    chosen,
    weights: new Set(weights).size,
    difference,
    explained,
    sorted: sorted.every((value, index) => index === 0 || sorted[index - 1] >= value),
    first,
    loaded: loaded.includes(` of ${block.querySelector(".whole").dataset.rows} rows`),
    all: cards.length === Number(block.querySelector(".whole").dataset.rows),
    different: [...shapes],
    found: fitting.length > 0
      && fitting.every((one) => one.textContent.includes(form.elements.words.value)),
    section: document.querySelector("nav [aria-current]").textContent,
  }, "*");
});
</script>"""
FRAMES = """<body><script>
const told = [];
addEventListener("message", (event) => {
  told.push(event.data);
  document.body.dataset.told = JSON.stringify(told);
});
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_shows_all_of_it_at_three_widths_without_an_error_or_a_request(
    page: str, tmp_path: Path
) -> None:
    (tmp_path / "page.html").write_text(
        page.replace("<head>", f"<head>{PROBE}", 1), encoding="utf-8"
    )
    frames = [
        f'<iframe src="page.html" width="{width}" height="900"></iframe>'
        for width in (390, 1280, 1920)
    ]
    (tmp_path / "frames.html").write_text(FRAMES + "".join(frames), encoding="utf-8")

    command = [
        str(CHROMIUM),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}/profile",
        "--virtual-time-budget=20000",
        "--dump-dom",
        (tmp_path / "frames.html").as_uri(),
    ]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    match = re.search(r'data-told="([^"]*)"', dom)

    assert match is not None, dom[:500]

    reports = json.loads(match[1].replace("&quot;", '"').replace("&gt;", ">"))
    by_width = {report.pop("width"): report for report in reports}

    assert sorted(by_width) == [390, 1280, 1920]

    for width, report in by_width.items():
        # A phone has other pictures, in one column.
        assert report.pop("narrow") == (width == 390)
        assert report.pop("wide") == (width != 390)
        pointed_at = report.pop("said")
        assert len(pointed_at) == 3
        assert all(re.search(r" → .+: [+−]?\d\.\d+$", text) for text in pointed_at)
        assert all(report.pop(name) for name in ("explained", "section", "first"))
        assert report == {
            "errors": [],
            "beyond": 0,
            "hidden": 0,
            "fetched": 0,
            "saved": True,
            "cut": 0,
            "scrolling": 0,
            "loaded": True,
            "all": True,
            "different": [],
            "moved": True,
            "chosen": ["Soft", "Postr-Joint", "Mono-Postr-Joint"],
            "weights": 3,
            "difference": [
                "Postr-Joint",
                "Mono-Postr-Joint",
                "Mono-Postr-Joint − Postr-Joint",
            ],
            "sorted": True,
            "found": True,
        }


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_on_paper_a_map_is_no_picture_for_each_square_and_figures_are_wide(
    page: str, tmp_path: Path
) -> None:
    printed = print_page(page, tmp_path, width=1280)
    squares = page.count('<td style="--w:')
    pictures = len(re.findall(rb"/Subtype\s*/Image", printed))
    assert printed.count(b"/Type /Page\n") > 1
    assert pictures < squares / 10
    assert len(printed) < 5_000_000

    # What is printed from a small window are not the pictures for a phone.
    assert len(print_page(page, tmp_path, width=390)) == pytest.approx(len(printed), rel=0.001)


def print_page(page: str, folder: Path, width: int) -> bytes:
    """Print a page from a window of a width, and return the PDF."""
    (folder / "page.html").write_text(page, encoding="utf-8")
    command = [
        str(CHROMIUM),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={folder}/profile",
        f"--window-size={width},800",
        f"--print-to-pdf={folder}/page.pdf",
        (folder / "page.html").as_uri(),
    ]
    subprocess.run(command, capture_output=True, check=True, timeout=120)
    return (folder / "page.pdf").read_bytes()


def with_groups(path: Path) -> None:
    """Score the even and the odd lemmas of a made run apart too."""
    scores = load(Scores, path)
    units = scores.counts()
    groups = {}
    for name, first in (("seen", 0), ("unseen", 1)):
        indices = list(range(first, len(units.names), 2))
        groups[name] = GroupCounts(
            units.only(indices), tuple(metric.name for metric in inflection.METRICS)
        )
    counts = Counts(
        units, tuple(metric.name for metric in inflection.METRICS), "lemmas", groups=groups
    )
    keys = ("experiment", "task", "model", "label", "seed")
    identity = {key: getattr(scores, key) for key in keys}
    save(make("inflection", counts, identity, scores.training, scores.decoding), path)


@pytest.mark.parametrize("seeds", [[1], [1, 2]])
def test_the_page_has_scores_by_group_where_the_data_have_groups(
    tmp_path: Path, seeds: list[int]
) -> None:
    made = make_experiment(
        tmp_path, tasks=["de-noun"], models=["soft", "postr-joint"], seeds=seeds, count=8
    )
    files = small_page(made, ["table2", "costs"])
    experiment = files.experiment

    def blocks(files: Files) -> list[Block]:
        runs = load_runs(made.scores, experiment)
        sections = Page(replace(files, runs=runs)).content()["sections"]
        return [
            block for section in sections for block in section["blocks"] if block.name == "groups"
        ]

    assert not blocks(files)
    for path in made.scores:
        with_groups(path)
    (block,) = blocks(files)
    (task,) = load_runs(made.scores, experiment)
    table = by_group([task], experiment)
    assert table is not None
    rows = table.data[table.data["metric"] == "accuracy"]
    assert [*rows["group"]] == ["seen", "seen", "unseen", "unseen"]
    assert [*rows["judged"]] == [32] * 4 and [*rows["n"]] == [len(seeds)] * 4

    of_group = [run.scores.groups["seen"].metrics["accuracy"] for run in task.models["soft"]]
    first = rows.iloc[0]
    assert first["mean"] == pytest.approx(sum(score.value for score in of_group) / len(seeds))
    assert first["low"] <= first["mean"] <= first["high"]
    if len(seeds) == 1:
        # It is the interval of the group alone, in closed form; the score's own is drawn.
        assert first["low"] == pytest.approx(of_group[0].low, abs=5)
    assert f"{first['mean']:.2f}" in block.html and "unseen" in block.html
