"""Code in passages: which of it a tool may run, by rules that are data. Nothing is ever run here."""
