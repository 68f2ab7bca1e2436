"""Values of agents' memory: records of iterations, learnings, and requests and responses about them."""
