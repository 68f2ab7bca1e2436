"""Repositories: their tracked files read through git, and what is told of them as a whole.

git          one repository: which commit, which files, what is in them; nothing of it is run
clone        a remote repository, fetched through the egress proxy
manifests    packages and versions in lock and manifest files
junit        test reports
facts        documents that tell dependencies and failing tests, and how they are read back
"""
