"""Scores e_t(a): how well a source position fits the decoder's query."""
