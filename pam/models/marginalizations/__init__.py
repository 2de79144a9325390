"""Where the alignment is marginalized: at the decoder's input, or at its output."""
