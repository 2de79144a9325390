"""Word alignments by trained models: links of the words of two texts, each with its probability.

    choices         what a user can choose of
    words           words of a text as its user has them, and the symbols that a model reads of them
    links           links of words from the alignment of symbols
    symmetrization  one set of links from those of two directions
    formats         files of links: Pharaoh, NAACL, JSON
    scoring         AER, precision and recall of links against those that people made
    aligner         the links of pairs of texts by one model, or by two of opposite directions
    files           the links of two files, line by line

A link is (source word, target word), both counted from 0.
"""
