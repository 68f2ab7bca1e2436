"""Main text of web pages against gold text: how right, how fast and how much structure, beside trafilatura."""
