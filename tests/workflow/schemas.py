"""Validators of the JSON schemas that editors and Snakemake read, each made once."""

from __future__ import annotations

import json
from functools import cache

import jsonschema

from tests.workflow.checkouts import ROOT


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """Return the validator of `config` or `model`, whose schema is checked itself."""
    text = (ROOT / f"workflow/schemas/{name}.schema.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)
