"""A generation: segments and terms that belong together, published whole, verified before it is served."""
