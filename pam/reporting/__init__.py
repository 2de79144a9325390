"""Tables beside the papers' and figures in one style, made from the scores of runs."""
