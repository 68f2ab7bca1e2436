"""From bytes to readable text: HTML, PDF, feeds, and what of a page nobody sees."""
