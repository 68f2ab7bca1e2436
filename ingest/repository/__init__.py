"""Repositories: tracked files read through git and facts about them as a whole; nothing of a repository is run."""
