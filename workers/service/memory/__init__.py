"""What agents remember, as they and operators ask for it."""
