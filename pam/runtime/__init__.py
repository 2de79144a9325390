"""The machine that does the work: its processor, its devices, their memory and time."""
