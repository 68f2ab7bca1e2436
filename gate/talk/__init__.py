"""Talk: what needs no source, told from questions that do."""
