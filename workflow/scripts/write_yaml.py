"""Writes the parameter `content` of its rule as YAML."""

import sys

import yaml

from pam.files import write_text

with open(snakemake.log[0], "w", encoding="utf-8") as sys.stderr:
    content = yaml.safe_dump(snakemake.params.content, sort_keys=False, allow_unicode=True)
    write_text(snakemake.output[0], content)
