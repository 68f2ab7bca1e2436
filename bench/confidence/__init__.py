"""Whether "70 %" is right seven times of ten: the fit of `trust.confidence.formula`, and what it is worth elsewhere."""
