"""Code in passages: the policy by which a tool may run it, by rules that are data. Nothing is ever run here."""
