"""The tables, and the migrations between their versions."""
