"""Scores inside the hand-written recurrence, each with its gradient: module and name as in
`pam.models.scores`."""
