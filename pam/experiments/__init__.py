"""What an experiment is: its configuration, its runs and their folders, and what they need."""
