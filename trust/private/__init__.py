"""Private data and secrets in text: where they stand, and how they are masked. Never the values themselves."""
