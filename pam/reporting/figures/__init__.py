"""One small module per kind of figure; each offers `HELP`, `add_arguments` and `draw`.

Kept apart so that a workflow can let each figure depend on its own module and redraw it alone.
"""
