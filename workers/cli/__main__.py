"""`python -m workers.cli`: the command line without its installed script."""

from workers.cli.main import main

if __name__ == "__main__":
    main()
