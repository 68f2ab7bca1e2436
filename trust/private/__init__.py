"""Private data and secrets in text: finding their places, and masking them. The values themselves are never stored."""
