"""How many commands to a model the guard finds, and how many harmless texts it troubles."""
