"""What is true of a tree of files, found without `graph/`: which function calls which, which page links to which."""
