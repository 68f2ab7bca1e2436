"""Steps of the graph's handlers: documents are read into its rows, and the rows are published."""
