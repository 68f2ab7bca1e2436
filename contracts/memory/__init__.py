"""What an agent's memory is made of: records of iterations, learnings, and what is asked and answered about them."""
