"""Whether "70 %" is right seven times of ten: the fit of `trust.confidence`, and what it is worth elsewhere."""
