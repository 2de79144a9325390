"""Training: the loop, its schedule, its complete state, its processes and its reports."""
