"""Hand-written recurrences: the numbers that `pam.models` defines, at a higher speed.

Where nothing feeds back, work is batched over time; where something does, the loop over time is
kept short and its gradient is written by hand, so that everything in it that does not depend on
the later steps is again one batched product. Tests hold each path against the reference, values
and gradients, for every model.
"""
