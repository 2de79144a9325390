"""Search for outputs over a model's step function; it knows nothing of how a step is computed."""
