"""From bytes to readable text: HTML, PDF, feeds, Markdown."""
