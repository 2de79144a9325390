"""What a model is built of: a recurrence with attention, or attention alone."""
