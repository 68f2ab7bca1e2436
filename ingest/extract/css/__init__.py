"""Style sheets, read far enough to know what of a page a reader would not see."""
