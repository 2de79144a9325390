"""Tables with the papers' results and figures in one style, made from the scores of runs."""
