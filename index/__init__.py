"""The index: journal, segments, generations, and the queries over them."""
