"""Write the keys of the configuration for editors, Snakemake and readers.

    python workflow/scripts/make_schemas.py

It writes the schemas in workflow/schemas/ and the tables of keys in config/README.md: those of an
experiment at its end, those of data sets between marks. The classes are in pam/experiments/
(experiment.py, settings.py, model.py) and pam/data/, the options of components in
pam/models/options.py.
"""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from pam.data.registry import Dataset, File, load_task
from pam.experiments.experiment import Experiment, TaskConfig
from pam.experiments.model import ModelConfig
from pam.experiments.parsing import Strict
from pam.experiments.settings import Decoding, Network, Resources, ResourcesByModel, Training
from pam.experiments.variants import swept_options
from pam.models.options import COMPONENTS, Options
from pam.runtime.files import write_text
from pam.tasks import KINDS
from pam.tasks.translation.format import TranslationFormat

SCHEMAS: dict[str, type[Strict]] = {"config": Experiment, "model": ModelConfig}
DRAFT = "https://json-schema.org/draft/2020-12/schema"
ROOT = Path(__file__).resolve().parents[2]
ORIGIN = "Written by workflow/scripts/make_schemas.py from the classes in pam/experiments/."
MARK = f"<!-- {ORIGIN} -->"
SECTIONS: dict[str, type[Strict]] = {
    "An experiment": Experiment,
    "A task, under `tasks: NAME:`": TaskConfig,
    "`network:`": Network,
    "`training:`": Training,
    "`decoding:`": Decoding,
    "`resources:`": ResourcesByModel,
    "A model, `models/NAME.yaml`": ModelConfig,
}
DATA_MARK = "<!-- Keys of {name}, written by workflow/scripts/make_schemas.py. -->"
DATA_END = "<!-- End of keys. -->"
DATA: dict[str, type[Strict]] = {
    "a data set": Dataset,
    "a file": File,
    **{name: load_task(name).Format for name in KINDS},
}
OVERRIDES = {
    "network": "Network",
    "training": "Training",
    "decoding": "Decoding",
    "resources": "ResourcesByModel",
}
Schema = dict[str, Any]


def schema(kind: type[Strict]) -> Schema:
    """Return the JSON schema of a class.

    Overrides may hold what they override and nothing else.
    """
    sections = Experiment.model_json_schema()["$defs"]
    kind_schema = kind.model_json_schema()
    for part in (*sections.values(), kind_schema, *kind_schema.get("$defs", {}).values()):
        properties = part.get("properties", {})
        _close_overrides(properties, sections)
        for item in properties.get("models", {}).get("items", {}).get("anyOf", []):
            if item["type"] == "object":
                item["additionalProperties"] = _variant(kind_schema["$defs"])

        for value in properties.values():
            if "patternProperties" in value:
                value["additionalProperties"] = False
            if isinstance(value.get("default"), dict) and "kind" in value["default"]:
                value["default"] = value["default"]["kind"]

    return {"$schema": DRAFT, **_without_titles(kind_schema)}


def _close_overrides(properties: Schema, sections: Schema) -> None:
    """Let the overrides among these properties hold what they override and nothing else."""
    by_model = properties.get("models", {}).get("additionalProperties")
    if by_model:
        _close(by_model, Resources.model_json_schema()["properties"])

    for name, section in OVERRIDES.items():
        if properties.get(name, {}).get("additionalProperties") is True:
            _close(properties[name], sections[section]["properties"])

    if "options" in properties:
        _close(properties["options"], _layer())


def _close(part: Schema, properties: Schema) -> None:
    """Let an object hold overrides of these properties and nothing else.

    One that is not written is not the default: it is what the experiment says.
    """
    part["additionalProperties"] = False
    part["properties"] = deepcopy(properties)
    for value in part["properties"].values():
        value.pop("default", None)


def _variant(definitions: Schema) -> Schema:
    """Return what a variant of a model may hold: its base, and keys of a model's file."""
    model = schema(ModelConfig)
    definitions |= model["$defs"]
    properties: Schema = {
        "from": {"type": "string", "description": "the model that this variant changes"},
        "sweep": _sweep(),
    }

    for name, value in model["properties"].items():
        properties[name] = value
        if name in COMPONENTS:
            # Options without a kind change those of the base; a plugin may add kinds.
            properties[name] = {
                "description": value["description"],
                "anyOf": [{"type": "string"}, {"type": "object"}],
            }

    closed: Schema = {"type": "object"}
    _close(closed, properties)
    return closed


def _sweep() -> Schema:
    """Return what the sweep of a model may hold: options with lists of values."""
    options = swept_options()
    names = [*COMPONENTS, *(f"{name}.{key}" for name, keys in options.items() for key in keys)]
    components = "|".join(COMPONENTS)
    values: Schema = {"type": "array", "minItems": 1}
    return {
        "type": "object",
        "description": "options with lists of values, one model each: {network.dropout: [0, 0.2]}",
        "minProperties": 1,
        "properties": dict.fromkeys(names, values),
        # A plugin may add kinds, of whose options no schema knows.
        "patternProperties": {rf"^({components})\.": values},
        "additionalProperties": False,
    }


def _layer() -> Schema:
    """Return what a layer of options may hold: options by component and kind."""
    return {name: _kinds(name, kinds) for name, kinds in COMPONENTS.items()}


def _kinds(component: str, kinds: dict[str, type[Options]]) -> Schema:
    """Return what options of one component may hold, by kind."""
    properties: Schema = {}
    for kind, options in kinds.items():
        properties[kind] = {"type": "object", "description": options.__doc__}
        _close(properties[kind], options.model_json_schema()["properties"])
        del properties[kind]["properties"]["kind"]

    return {
        "type": "object",
        "description": f"options by kind of {component}",
        "properties": properties,
        # A plugin may add kinds, of which no schema knows.
        "additionalProperties": {"type": "object"},
    }


def _without_titles(value: Any) -> Any:
    """Return a schema without pydantic's titles, which only repeat the names."""
    if isinstance(value, dict):
        return {
            key: _without_titles(inner)
            for key, inner in value.items()
            if not (key == "title" and isinstance(inner, str))
        }

    if isinstance(value, list):
        return [_without_titles(inner) for inner in value]

    return value


def text(kind: type[Strict]) -> str:
    """Return a schema as JSON.

    Snakemake reads it at every start, a quarter of a second faster than YAML.
    """
    return json.dumps({"$comment": ORIGIN} | schema(kind), indent=1, ensure_ascii=False) + "\n"


def keys(kind: type[Strict], title: str) -> str:
    """Return a class as a Markdown table of its keys, types, defaults and descriptions."""
    required = schema(kind).get("required", [])
    rows = ["| key | meaning | default |", "| --- | --- | --- |"]
    for name, value in schema(kind)["properties"].items():
        if "$ref" in value:
            rows.append(f"| `{name}` | see `{name}:` below | |")
            continue

        default = "required" if name in required else f"`{_yaml(value.get('default'))}`"
        rows.append(f"| `{name}` | {_described(value)} | {default} |")

    return "\n".join([f"### {title}", "", kind.__doc__ or "", "", *rows, ""])


def data_keys(kind: type[Strict]) -> str:
    """Return the keys of a data set or of a `format` as a Markdown table, required ones first.

    Keys that mean the same in translation are named above the table.
    """
    kind_schema = kind.model_json_schema()
    required = kind_schema.get("required", [])
    known: Schema = {}
    if kind is not TranslationFormat:
        known = TranslationFormat.model_json_schema()["properties"]

    shared = []
    rows = []
    for name in sorted(kind_schema["properties"], key=lambda name: name not in required):
        value = kind_schema["properties"][name]
        if value == known.get(name):
            shared.append(f"`{name}`")
            continue

        default = "required" if name in required else f"`{_yaml(_set(value.get('default')))}`"
        rows.append(f"| `{name}` | {_described(value)} | {default} |")

    table = "\n".join(["| key | meaning | default |", "| --- | --- | --- |", *rows])
    if not shared:
        return table
    return f"As in translation: {', '.join(shared)}.\n\n{table}"


def _set(value: Any) -> Any:
    """Return a default without the keys that it leaves open."""
    if isinstance(value, dict):
        return {key: inner for key, inner in value.items() if inner is not None}
    return value


def components() -> str:
    """Return the kinds of components with their options, as a Markdown table."""
    rows = ["| component | kind | option | meaning | default |", "| --- | --- | --- | --- | --- |"]
    for component, kinds in COMPONENTS.items():
        for kind, options in kinds.items():
            about = (options.__doc__ or "").rstrip(".")
            rows.append(f"| `{component}` | `{kind}` | | {about} | |")
            for name, value in options.model_json_schema()["properties"].items():
                if name != "kind":
                    default = f"`{_yaml(value.get('default'))}`"
                    rows.append(f"| | | `{name}` | {_described(value)} | {default} |")

    return "\n".join(["### Options of components", "", *rows, ""])


def _described(value: Schema) -> str:
    """Return the description of a key, with the values that it may have if it lacks one of them."""
    choices = value.get("enum") or _kinds_of(value)
    text = str(value.get("description", "")).replace("|", "\\|")
    if all(f"`{choice}`" in text for choice in choices):
        return text
    return f"{text} ({', '.join(map(str, choices))})"


def _kinds_of(value: Schema) -> list[str]:
    """Return the kinds of a component, if it is one."""
    return [kind for choice in value.get("anyOf", []) for kind in choice.get("enum", [])]


def _yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("...\n").strip()


def readme(text: str) -> str:
    """Return config/README.md with its tables of keys as the classes are now."""
    head, mark, _ = text.partition(MARK)
    for name, kind in DATA.items():
        before, start, rest = head.partition(DATA_MARK.format(name=name))
        _, end, after = rest.partition(DATA_END)
        head = f"{before}{start}\n\n{data_keys(kind)}\n\n{end}{after}"

    sections = [*(keys(kind, title) for title, kind in SECTIONS.items()), components()]
    return head + mark + "\n\n" + "\n".join(sections)


if __name__ == "__main__":
    for name, kind in SCHEMAS.items():
        write_text(ROOT / f"workflow/schemas/{name}.schema.json", text(kind))
    page = ROOT / "config/README.md"
    write_text(page, readme(page.read_text(encoding="utf-8")))
