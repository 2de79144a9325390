"""Where the alignment is marginalised: at the decoder's input, or at its output."""
