"""From the text of a question to the words that an engine gets: read, taken apart, and written anew."""
