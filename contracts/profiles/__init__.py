"""What the profiles of marketing and code measure beside coverage, and have an answer checked for."""
