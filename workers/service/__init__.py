"""What the doors (HTTP, command line) may ask of an instance."""
