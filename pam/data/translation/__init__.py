"""Translation: a sentence in one language gives a sentence in another; a module per stage."""
