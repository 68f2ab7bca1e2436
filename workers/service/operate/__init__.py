"""What operators see of a whole instance, and change about it while it runs."""
