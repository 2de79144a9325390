"""Windows: the source positions that a step considers at all."""
