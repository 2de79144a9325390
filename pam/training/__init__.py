"""The training loop, its schedule, its complete state and the lock on it."""
