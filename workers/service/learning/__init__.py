"""Operations on what the gate learns, and on what steers it."""
