"""`python -m cli`: the command line without its installed script."""

from cli.main import main

if __name__ == "__main__":
    main()
