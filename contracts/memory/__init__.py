"""Values of agents' memory: records of iterations, learnings, and the questions and answers about them."""
