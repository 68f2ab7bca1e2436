"""Operations of an instance, for HTTP and the command line."""
