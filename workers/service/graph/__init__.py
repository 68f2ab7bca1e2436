"""Operations on the graph: questions and status."""
