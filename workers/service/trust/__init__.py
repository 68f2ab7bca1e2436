"""What operators ask about trust: quarantine, gates, what is forgotten, what is fresh."""
