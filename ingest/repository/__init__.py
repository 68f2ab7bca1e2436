"""Repositories: reads tracked files through git, and facts about the whole; runs nothing of a repository."""
