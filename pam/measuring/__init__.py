"""How fast models train and search, measured on this machine."""
