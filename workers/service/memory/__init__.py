"""Operations on agents' memories."""
