"""Steps of trust: of what is ingested, of what is answered, of what is forgotten."""
