"""Whether two short texts say the same, the opposite, or something else: by their words, without a model."""
