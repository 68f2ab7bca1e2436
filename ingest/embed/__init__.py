"""From texts to vectors: models, endpoints, the cache."""
