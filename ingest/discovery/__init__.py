"""Where pages lead: links, sitemaps, which ways to follow and which never end."""
