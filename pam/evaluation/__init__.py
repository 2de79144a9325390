"""From outputs and references to figures with intervals; knows nothing of models."""
