"""Names and words that a shell, a path, a page or Snakemake would take for something else."""

from __future__ import annotations

COMMANDS = (
    "$(touch pwned)",
    "`touch pwned`",
    "a; touch pwned",
    "a && touch pwned",
    "a | touch pwned",
    "a\ntouch pwned",
    "' ; touch pwned ; '",
    '" ; touch pwned ; "',
    "\\'; touch pwned #",
    "> pwned",
    "${IFS}touch${IFS}pwned",
)

PATHS = ("../up", "a/../../up", "/away", "..", ".", "~", "a/b", "a\\b", "")

SIGNS = (
    "-x",
    "--out",
    "{task}",
    "{{x}}",
    "{params.out}",
    "*",
    "?",
    "[a]",
    "a b",
    "a\tb",
    "é",
    "漢",
    "\x00",
    "\u202e",
    "\u2028",
    "%s",
    "a" * 300,
    "$HOME",
    "#",
    "&",
    "!",
    ":",
    "null\n",
)

NAMES = COMMANDS + PATHS + SIGNS

FOLDER = "my \"odd\" 'data' $(touch pwned) `touch pwned`; touch pwned #"
"""A name that a folder can have."""

PAGE = "<script>alert('pwned')</script>"
WORDS = (
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    PAGE,
    "$\\frac$",
    "&lt;",
    "{task}",
    "{{ 7 * 7 }}",
    "%d",
    ".. include:: secret.txt",
    "`x <javascript:alert(1)>`_",
    "\\input{pwned}",
)
"""What labels, titles and texts can hold."""
