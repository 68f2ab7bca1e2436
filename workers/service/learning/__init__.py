"""What operators ask about what the gate learns, and change of what steers it."""
