"""Latent vectors besides the alignment: in each context, or one for the sentence."""
