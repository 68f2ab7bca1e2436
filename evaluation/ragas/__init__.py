"""Whether answers keep to what was retrieved: the RFC's RAGAS bridge, and a measure that needs no language model."""
