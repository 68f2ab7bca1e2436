"""The tables, and the steps from each version of them to the next."""
