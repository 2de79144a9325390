"""Trained models as Python objects, and the files that they are exported to and loaded from."""
