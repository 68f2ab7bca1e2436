"""Commands of agents: ask, feed, show, sign."""
