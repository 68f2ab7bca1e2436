"""`python -m sluice.cli`: the command line without its installed script."""

from sluice.cli.main import main

if __name__ == "__main__":
    main()
