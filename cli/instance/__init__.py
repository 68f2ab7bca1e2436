"""Commands that run, set up and check an instance."""
