"""Training: the optimizer, the schedule, the loop, and what it writes down."""
