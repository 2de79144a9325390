"""What is fed back: the alignment from which the next state's context is computed."""
